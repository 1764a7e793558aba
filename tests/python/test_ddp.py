"""DistributedDataParallel and what goes with it: several ranks train as one process does."""
import os

import pytest
import rushlight as torch
import rushlight.distributed as dist
from test_dist import HERE, Ranks, errors


def trained(case, size):
    with Ranks(size, os.path.join(HERE, "ddp_cases.py"), "rushlight", case) as job:
        outputs = job.outputs()
    lines = [line.split("\t") for line in outputs[0].splitlines()]
    weights = [line for out in outputs for line in out.splitlines() if line.startswith("weights")]
    assert len(set(weights)) == 1, "the ranks' weights differ"
    return [float(v) for k, v in lines if k == "loss"], [float(v) for v in weights[0].split("\t")[1].split()]


@pytest.mark.parametrize("case", ["mlp", "cnn", "unused", "hook", "no_sync", "late_sync"])
def test_ranks_train_as_one_process(case):
    alone = trained("mlp" if case.endswith("_sync") else case, 1)
    for size in (2,) if case in ("hook", "no_sync", "late_sync") else (2, 4):
        losses, weights = trained(case, size)
        assert max(abs(a - b) for a, b in zip(weights, alone[1])) < 1e-6 and len(weights) == len(alone[1])
        if not case.endswith("_sync"):  # which prints half a batch's
            assert max(abs(a - b) for a, b in zip(losses, alone[0])) < 1e-5 and len(losses) == 20


@pytest.mark.parametrize("case", ["mlp", "cnn", "unused", "hook"])
def test_as_with_pytorchs_ranks(case):
    """The way in which ranks train where some are PyTorch's, here among ours (tests/parity/ranks.py has both)."""
    with Ranks(2, f"""
import runpy
import rushlight.nn.parallel._mixed as mixed
mixed.needed = lambda group: True
sys.argv = ["", "rushlight", "{case}", url, str(rank), str(size)]
runpy.run_path({os.path.join(HERE, "ddp_cases.py")!r}, run_name="__main__")
""") as job:
        outputs = job.outputs()
    assert outputs[0].splitlines()[-1] == outputs[1].splitlines()[-1] != ""
    losses = [float(line.split("\t")[1]) for line in outputs[0].splitlines() if line.startswith("loss")]
    alone = trained(case, 1)[0]
    assert len(losses) == 20 and max(abs(a - b) for a, b in zip(losses, alone)) < 1e-5


@pytest.mark.parametrize("model", ["Linear(2, 2, bias=rank == 0)", "Linear(2, 2 + rank)"])
def test_models_that_differ_among_pytorchs_ranks_are_told(model):
    program = f"""
init()
import rushlight.nn.parallel._mixed as mixed
mixed.needed = lambda group: True
torch.nn.parallel.DistributedDataParallel(torch.nn.{model})
dist.barrier()
"""
    with Ranks(2, program) as job:
        assert "DDP expects same model across all ranks" in errors(job, 60)[1]


def test_a_parameter_without_a_part():
    program = """
init()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.used(x)
ddp = torch.nn.parallel.DistributedDataParallel(Net())
for _ in range(2):
    ddp(torch.ones(1, 2)).sum().backward()
"""
    with Ranks(2, program) as job:
        assert all("Expected to have finished reduction in the prior iteration" in e and "indices 2 3" in e for e in errors(job, 60))


def test_models_that_differ_are_told():
    program = "init()\ntorch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2 + rank))"
    with Ranks(2, program) as job:
        assert all("DDP expects same model across all ranks" in e for e in errors(job, 60))


def test_compressed_gradients():
    program = """
init()
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks
for name in ("fp16_compress_hook", "bf16_compress_hook"):
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
    ddp.register_comm_hook(None, getattr(default_hooks, name))
    ddp(torch.tensor([[1., 2., 4.]]) * (rank + 1)).sum().backward()
    print(ddp.module.weight.grad.tolist(), ddp.module.weight.grad.dtype)
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["[[1.5, 3.0, 6.0]] torch.float32\n" * 2] * 2


def test_uneven_numbers_of_batches():
    """Numbers as PyTorch prints them."""
    program = """
init()
torch.manual_seed(0)
nn = torch.nn
for more in ({}, {"find_unused_parameters": True}):
    m = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), **more)
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    with m.join():
        for i in range(3 + 2 * rank):
            m(torch.arange(6.).view(2, 3) * (i + rank + 1)).sum().backward()
            o.step()
            o.zero_grad()
    print(" ".join("%.3f" % v for p in m.parameters() for v in p.flatten().tolist()[:2]))
try:
    with m.join(throw_on_early_termination=True):
        for i in range(1 + rank):
            m(torch.ones(2, 3)).sum().backward()
except RuntimeError as error:
    print("xhausted" in str(error))
"""
    with Ranks(2, program) as job:
        outs = job.outputs()
    assert outs[0] == outs[1]
    want = [-0.0043, 0.3097], [0.4794, -0.1188]
    for line, (a, b) in zip(outs[0].splitlines(), want):
        got = line.split()
        assert abs(float(got[0]) - a) < 2e-3 and abs(float(got[1]) - b) < 2e-3
    assert outs[0].splitlines()[2] == "True"


def test_means_over_those_that_still_have_batches():
    """Numbers as PyTorch prints them."""
    program = """
init()
for divide in (True, False):
    torch.manual_seed(0)
    m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2, bias=False))
    o = torch.optim.SGD(m.parameters(), lr=0.1)
    with m.join(divide_by_initial_world_size=divide):
        for i in range(2 + 2 * rank):
            m(torch.arange(6.).view(2, 3) * (i + rank + 1) / 10).pow(2).sum().backward()
            o.step()
            o.zero_grad()
    m(torch.ones(1, 3) * rank).sum().backward()
    print("%.5f %.5f %.5f" % (*m.module.weight[0, :2].tolist(), m.module.weight.grad[0, 0].item()))
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["0.05056 0.40616 0.50000\n0.02175 0.37720 0.50000\n"] * 2


def test_gradients_of_low_rank():
    """PowerSGD of full rank is the mean; of rank 1 it trains, too, and sends less."""
    program = """
init()
from rushlight.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as P
nn = torch.nn
def train(hook, **settings):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 10), nn.Tanh(), nn.Linear(10, 1))
    m = nn.parallel.DistributedDataParallel(net)
    state = P.PowerSGDState(None, **settings) if hook else None
    if hook:
        m.register_comm_hook(state, hook)
    o = torch.optim.SGD(m.parameters(), lr=0.05)
    torch.manual_seed(rank + 1)
    x = torch.randn(40, 12)
    y = x.sum(1, keepdim=True).tanh()
    for _ in range(30):
        loss = ((m(x) - y) ** 2).mean()
        loss.backward()
        o.step()
        o.zero_grad()
    w = net[0].weight.detach().clone()
    dist.broadcast(w, 0)
    return loss.item(), torch.equal(w, net[0].weight), state
plain = train(None)
full = train(P.powerSGD_hook, matrix_approximation_rank=16, start_powerSGD_iter=2, min_compression_rate=0.1)
one = train(P.powerSGD_hook, start_powerSGD_iter=3, min_compression_rate=1)
batched = train(P.batched_powerSGD_hook, matrix_approximation_rank=2, start_powerSGD_iter=2)
print(abs(plain[0] - full[0]) < 1e-4, abs(one[0] - plain[0]) < 0.1, abs(batched[0] - plain[0]) < 0.1, full[1], one[1], batched[1], one[2].compression_stats()[0] > 3)
"""
    with Ranks(2, program) as job:
        assert job.outputs() == [" ".join(["True"] * 7) + "\n"] * 2


def test_collectives_with_gradients():
    program = """
init()
from rushlight.distributed.nn import functional as F
import rushlight.distributed._functional_collectives as C
x = torch.arange(4.) + rank
x.requires_grad_()
out = []
def grad(f):
    x.grad = None
    f().backward()
    out.append(x.grad.tolist())
w = torch.tensor([1., 2., 3., 4.]) * (rank + 1)
grad(lambda: (F.all_reduce(x) * w).sum())
grad(lambda: (F.broadcast(x, 1) * w).sum())
grad(lambda: (torch.cat(F.all_gather(x)) * torch.cat([w, w])).sum())
grad(lambda: (F.reduce_scatter(torch.empty(2), list(x.chunk(2))) * w[:2]).sum())
grad(lambda: (torch.cat(F.all_to_all([torch.empty(2), torch.empty(2)], list(x.chunk(2)))) * w).sum())
print(out, C.all_reduce(torch.ones(2), "sum", dist.group.WORLD).tolist(), C.all_gather_tensor(torch.ones(1, 2) * rank, 1, [0, 1]).tolist())
"""
    with Ranks(2, program) as job:
        got = [line.strip() for line in job.outputs()]
    w = [1.0, 2.0, 3.0, 4.0]
    three = [3 * v for v in w]
    for rank in (0, 1):
        want = [three, three if rank == 1 else [0.0] * 4, three, [1.0, 2.0, 2.0, 4.0],
                [1.0, 2.0, 2.0, 4.0] if rank == 0 else [3.0, 4.0, 6.0, 8.0]]
        assert got[rank] == f"{want} [2.0, 2.0] [[0.0, 0.0, 1.0, 1.0]]"


def test_statistics_of_all_ranks():
    """SyncBatchNorm on two parts of a batch is BatchNorm on all of it, also far from 0."""
    program = """
torch.manual_seed(0)
init()
def run(bn, x):
    x = x.clone().requires_grad_()
    y = bn(x)
    (y ** 2 * torch.arange(y.size(-1), dtype=y.dtype)).sum().backward()
    return y.detach(), x.grad, bn.running_mean, bn.running_var
sync = torch.nn.SyncBatchNorm.convert_sync_batchnorm
for mean, parts in (0, [4, 4]), (1000, [5, 3]), (0, [8, 0]):
    x = torch.randn(8, 3, 5) + mean
    whole, part = run(torch.nn.BatchNorm1d(3).double(), x.double()), run(sync(torch.nn.BatchNorm1d(3)), x.split(parts)[rank])
    whole = [a.split(parts)[rank] if a.dim() == 3 else a for a in whole]
    assert all(torch.allclose(b.double(), a, rtol=1e-4, atol=1e-3 if mean else 2e-5) for a, b in zip(whole, part)), (mean, whole, part)
half = run(sync(torch.nn.BatchNorm1d(3)), torch.full((4096, 3), 2., dtype=torch.float16))
print(half[0].dtype, half[0].abs().max().item(), [round(v, 4) for v in half[2].tolist()])
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["torch.float16 0.0 [0.2, 0.2, 0.2]\n"] * 2


def test_meshes():
    program = """
init()
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
a, b = torch.tensor([float(rank)]), torch.tensor([float(rank)])
dist.all_reduce(a, group=mesh.get_group("dp")); dist.all_reduce(b, group=mesh["tp"].get_group())
print(a.item(), b.item(), mesh.get_local_rank("dp"), mesh["tp"].get_local_rank(), mesh.shape, mesh.size(), mesh.get_coordinate())
"""
    with Ranks(4, program) as job:
        assert job.outputs() == [f"{2.0 + 2 * (r % 2)} {1.0 + 4 * (r // 2)} {r // 2} {r % 2} (2, 2) 4 [{r // 2}, {r % 2}]\n" for r in range(4)]
