"""bf16 autocast, a gradient scaler, accumulation, checkpointing, EMA, SWA, resuming from a checkpoint."""
import io
import warnings

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR, get_ema_multi_avg_fn, update_bn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

warnings.simplefilter("ignore")
torch.manual_seed(9)
make = lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
net, x = make(), torch.randn(32, 6)
y = x.sum(1, keepdim=True)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
with torch.autocast("cpu", dtype=torch.bfloat16):
    out = net(x)
    print(out.dtype, net[0](x).dtype, (out.float() - y).pow(2).mean().dtype, torch.is_autocast_enabled("cpu"))
    with torch.autocast("cpu", enabled=False):
        print((x @ x.t()).dtype)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
for step in range(4):
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    scaler.step(opt)
    scaler.update()
    print(f"{loss.item():.4f}", scaler.get_scale())

ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
swa, swa_scheduler = AveragedModel(net), SWALR(opt, anneal_strategy="linear", anneal_epochs=3, swa_lr=0.01)
for epoch in range(4):
    opt.zero_grad()
    for part, want in zip(x.chunk(4), y.chunk(4)):  # accumulation
        (nn.functional.mse_loss(net(part), want) / 4).backward()
    opt.step()
    ema.update_parameters(net)
    swa.update_parameters(net)
    swa_scheduler.step()
    print(epoch, "%.5f" % opt.param_groups[0]["lr"], "%.4f" % ema.module[3].bias.item(), int(swa.n_averaged))
update_bn([(x,)], swa)
swa.eval()
print("%.4f" % nn.functional.mse_loss(swa(x), y).item(), list(swa.state_dict())[:2])

h = x.requires_grad_()
plain = net(h).sum()
again = checkpoint(net, h, use_reentrant=False).sum()
chunks = checkpoint_sequential(net, 2, h, use_reentrant=False).sum()
print(torch.allclose(torch.autograd.grad(plain, h)[0], torch.autograd.grad(again, h)[0]), torch.allclose(plain, chunks))

torch.manual_seed(10)
first, second = make(), make()
optimizer = torch.optim.AdamW(first.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


def train(model, optimizer, scheduler, n):
    for _ in range(n):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
    return "%.5f" % loss.item()


train(first, optimizer, scheduler, 4)
file = io.BytesIO()
torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "epoch": 4, "rng": torch.get_rng_state()}, file)
straight = train(first, optimizer, scheduler, 4)
file.seek(0)
state = torch.load(file, weights_only=True)
second.load_state_dict(state["model"])
other = torch.optim.AdamW(second.parameters(), lr=1.0)
other.load_state_dict(state["optimizer"])
plan = torch.optim.lr_scheduler.CosineAnnealingLR(other, 10)
plan.load_state_dict(state["scheduler"])
print(straight, train(second, other, plan, 4), plan.last_epoch, state["epoch"], "%.6f" % other.param_groups[0]["lr"])
