"""Lightning with strategy="ddp": two processes, logged values that are means over both."""
import lightning
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def training_step(self, batch, i):
        loss = cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, sync_dist=True)
        print(f"rank {self.global_rank} step {i} loss {loss.item():.5f}\n", end="", flush=True)
        return loss

    def validation_step(self, batch, i):
        self.log("val_loss", cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)


if __name__ == "__main__":
    lightning.seed_everything(7)
    data, model = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,))), Classifier()
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, enable_progress_bar=False, logger=False,
                                default_root_dir="out", num_sanity_val_steps=1)
    trainer.fit(model, DataLoader(data, batch_size=32, shuffle=True), DataLoader(data, batch_size=64))
    logged = {key: round(value.item(), 5) for key, value in sorted(trainer.callback_metrics.items())}
    weights = sum(p.detach().double().abs().sum().item() for p in model.parameters())
    print(f"rank {trainer.global_rank} {logged} weights {weights:.4f}\n", end="", flush=True)
