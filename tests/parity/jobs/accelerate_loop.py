"""accelerate: a training loop with accumulation, clipping, a schedule, metrics over both processes, saved and loaded states."""
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed
from torch.utils.data import DataLoader, TensorDataset

set_seed(5)
here = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(250, 16), torch.randint(0, 4, (250,)))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
model, optimizer, train, test, schedule = here.prepare(model, optimizer, DataLoader(data, batch_size=16, shuffle=True), DataLoader(data, batch_size=16), schedule)
for epoch in range(2):
    for i, (x, y) in enumerate(train):
        with here.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            here.backward(loss)
            if here.sync_gradients:
                here.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(f"rank {here.process_index} of {here.num_processes} step {i} loss {loss.item():.5f} lr {schedule.get_last_lr()[0]}\n", end="", flush=True)
    right = n = 0
    with torch.no_grad():
        for x, y in test:
            found, wanted = here.gather_for_metrics((model(x).argmax(1), y))
            right, n = right + (found == wanted).sum().item(), n + wanted.numel()
    here.print(f"epoch {epoch} right {right} of {n}\n", end="")
every, mean, total = gather_object([here.process_index]), here.reduce(loss.detach(), "mean").item(), here.gather(loss.detach()).sum().item()
padded = here.pad_across_processes(torch.ones(2 + here.process_index), 0).tolist()
print(f"rank {here.process_index} {every} mean {mean:.5f} sum {total:.5f} {padded}\n", end="", flush=True)
here.save_state("state")
here.wait_for_everyone()
here.load_state("state")
here.print("weights %.4f\n" % sum(v.double().abs().sum().item() for v in here.get_state_dict(model).values()), end="")
here.end_training()
