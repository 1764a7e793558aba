"""Tensors and models that are spread over processes."""
import os

import pytest
import rushlight.distributed as dist
from test_dist import HERE, Ranks


def pytorch():
    """{case: losses} that ranks of PyTorch print (sharded_cases.py torch ...)."""
    with open(os.path.join(HERE, "sharded.tsv")) as file:
        return {case: [float(v) for v in losses.split()] for case, losses in (line.rstrip("\n").split("\t") for line in file)}


@pytest.mark.parametrize("size, cases", [
    (2, ["sp-gpt", "fsdp2-gpt", "full-cnn", "gradop-mlp", "noshard-mlp", "original-mlp", "zero-mlp", "pipe1f1b-gpt", "interleaved-mlp",
         "zerobubble-gpt", "zbv-gpt", "dualpipe-cnn", "cp-gpt", "sync-bn", "joined-mlp", "fsdp2clip-gpt"]),
    (4, ["both-mlp", "full-mlp", "gpipe-cnn"])])
def test_trains_as_one_process_and_as_pytorch(size, cases):
    want = pytorch()
    with Ranks(size, os.path.join(HERE, "sharded_cases.py"), "rushlight", ",".join(cases)) as job:
        outputs = job.outputs()
    for out in outputs:
        lines = [line.split("\t") for line in out.splitlines()]
        assert [case for case, _, _ in lines] == cases
        for case, losses, worst in lines:
            assert float(worst) < 3e-6 or case == "joined-mlp", case  # parts are summed in another order, and processors sum in orders of their own
            if case not in ("cp-gpt", "sync-bn"):  # which PyTorch does not have on the CPU
                assert max(abs(a - float(b)) for a, b in zip(want[case], losses.split())) < 1e-4, case


def test_operations_are_those_of_whole_tensors():
    with Ranks(2, os.path.join(HERE, "dtensor_cases.py")) as job:
        assert job.outputs() == ["296\n"] * 2


def test_pieces():
    program = """
init()
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
x = torch.arange(35.).view(5, 7)
ways = [Replicate(), Shard(0), Shard(1)]
for before in [(p, q) for p in ways for q in ways]:
    for after in [(p, q) for p in ways for q in ways]:
        y = distribute_tensor(x, mesh, before, src_data_rank=None).redistribute(placements=after)
        z = distribute_tensor(x, mesh, after, src_data_rank=None)
        assert torch.equal(y.to_local(), z.to_local()) and torch.equal(y.full_tensor(), x), (before, after)
p = DTensor.from_local(torch.ones(4, 2), mesh, [Partial(), Partial("max")])
print(p.full_tensor().sum().item(), p.redistribute(placements=[Shard(0), Replicate()]).to_local().shape, p.redistribute(placements=[Replicate(), Shard(1)]).to_local().tolist())
print(distribute_tensor(x, mesh, [Shard(0), Shard(0)]))
def fails(f):
    try:
        f()
    except Exception as error:
        print(type(error).__name__, error)
fails(lambda: distribute_tensor(x, mesh, [Shard(0)]))
fails(lambda: distribute_tensor(x, mesh, [Shard(0), Shard(2)]))
fails(lambda: distribute_tensor(x, mesh, [Shard(0), Replicate()]) + x)
import rushlight.distributed.checkpoint as dcp, tempfile
path = [tempfile.mkdtemp() if rank == 0 else None]
dist.broadcast_object_list(path)
dcp.save({"x": distribute_tensor(x, mesh, [Shard(0), Shard(1)]), "y": distribute_tensor(x, mesh, [Shard(1), Replicate()])}, checkpoint_id=path[0])
into = {"x": zeros(5, 7, device_mesh=mesh, placements=[Shard(1), Shard(1)]), "y": zeros(5, 7, device_mesh=mesh, placements=[Shard(0), Shard(0)])}
dcp.load(into, checkpoint_id=path[0])
assert torch.equal(into["x"].full_tensor(), x) and torch.equal(into["y"].full_tensor(), x)
dist.barrier()
if rank == 0:
    import shutil
    shutil.rmtree(path[0])
"""
    with Ranks(4, program) as job:
        outs = job.outputs()
    assert [out.splitlines()[0] for out in outs] == [f"16.0 torch.Size([2, 2]) {[[2.0]] * 4}"] * 4
    lines = outs[0].splitlines()[1:]
    assert lines[0] == "DTensor(local_tensor=tensor([[ 0.,  1.,  2.,  3.,  4.,  5.,  6.],"
    assert lines[1].endswith("device_mesh=DeviceMesh((a=2, b=2), 'cpu', stride=(2, 1)), placements=(Shard(dim=0), Shard(dim=0)))")
    assert lines[2].startswith("ValueError `placements` must have the same length as `device_mesh.ndim`!") and lines[3].startswith("IndexError Shard(dim=2)")
    assert lines[4].startswith("RuntimeError aten.add.Tensor got mixed torch.Tensor and DTensor")


def test_processes_leave_out_a_step_together():
    program = """
init()
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
opt, scaler = torch.optim.SGD([p, q], lr=1.0), ShardedGradScaler("cpu", init_scale=4.0, growth_interval=2)
for step in range(4):
    opt.zero_grad()
    loss = scaler.scale((p * (float("inf") if step == 1 and rank == 1 else 0.25)).sum())
    if rank == 0 or step < 3:  # in the last step the other process has no gradients
        loss.backward()
    scaler.step(opt)
    scaler.update()
    print(p[0].item(), scaler.get_scale(), end=" ")
print(q.grad)
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["0.75 4.0 0.75 2.0 0.5 2.0 0.25 4.0 None\n", "0.75 4.0 0.75 2.0 0.5 2.0 0.5 4.0 None\n"]


def test_states_of_models_in_pieces():
    """Whole and in pieces, and back into models in other pieces."""
    program = """
init()
from rushlight import nn
from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard, MixedPrecisionPolicy, StateDictType
from rushlight.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict, set_model_state_dict
def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
def stepped(m, parts):
    opt = torch.optim.Adam(m.parameters(), lr=0.1)
    m(parts).sum().backward()
    opt.step()
    return m, opt
def two(seed=0, **more):
    m = model(seed)
    fully_shard(m[0], **more)
    return fully_shard(m, **more)
x = torch.arange(10.).view(2, 5)
alone = stepped(model(), x * 1.0)
m2, o2 = stepped(two(), x)
m1, o1 = stepped(FSDP(model()), x)
whole = StateDictOptions(full_state_dict=True)
want = alone[0].state_dict()
def same(states):
    return max((states[k] - want[k]).abs().max().item() for k in want) < 1e-6 and set(states) == set(want)
for m, o in ((m2, o2), (m1, o1)):
    a, b = get_state_dict(m, o, options=whole)
    c, d = get_state_dict(m, o)
    print(same(a), same({k: v.full_tensor() for k, v in c.items()}), sorted(b["state"]), (b["state"]["0.weight"]["exp_avg"] - o2.state[m2[0].weight]["exp_avg"].full_tensor()).abs().max().item() < 1e-6)
    n = two(5)
    p = torch.optim.Adam(n.parameters(), lr=0.1)
    set_state_dict(n, p, model_state_dict=a, optim_state_dict=b, options=whole)
    print(same(get_state_dict(n, p, options=whole)[0]), torch.equal(p.state[n[0].bias]["exp_avg"].full_tensor(), b["state"]["0.bias"]["exp_avg"]))
m1.load_state_dict(want)
print(same(m1.state_dict()), "%.3f" % m1.clip_grad_norm_(0.5).item())
set_model_state_dict(m2, want if rank == 0 else {}, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
print(same({k: v.full_tensor() for k, v in m2.state_dict().items()}))
low = two(mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
y = low(x)
y.sum().backward()
print(y.dtype, low[0].weight.grad.dtype, low[0].weight.dtype, low[0].weight.grad.placements)
with torch.device("meta"):
    m = model()
m = fully_shard(m)
m.to_empty(device="cpu")
m[0].reset_parameters(); m[2].reset_parameters()
print(m(x).shape)
"""
    with Ranks(2, program) as job:
        outs = job.outputs()
    names = "['0.bias', '0.weight', '2.bias', '2.weight']"
    lines = outs[0].splitlines()
    assert lines[:4] == [f"True True {names} True", "True True"] * 2 and lines[4].startswith("True ") and lines[5] == "True"
    assert lines[6:] == ["torch.bfloat16 torch.float32 torch.float32 (Shard(dim=0),)", "torch.Size([2, 3])"]


def test_the_state_of_one_process_for_all():
    program = """
init()
from rushlight import nn
from rushlight.distributed.distributed_c10d import _get_default_group
from rushlight.distributed.utils import _sync_module_states
torch.manual_seed(rank)
m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
m[1].running_mean.fill_(rank + 5.0)
m[0].bias.data.fill_(rank)
for src in (0, 1):
    _sync_module_states(m, _get_default_group(), 250 << 20, src=src, params_and_buffers_to_ignore={"0.bias"}, broadcast_buffers=src == 0)
print(m[0].weight.tolist(), m[1].running_mean.tolist())
print(m[0].bias.tolist())
"""
    with Ranks(2, program) as job:
        first, second = (out.splitlines() for out in job.outputs())
    assert first[0] == second[0] and first[0].endswith("[5.0, 5.0, 5.0]") and (first[1], second[1]) == ("[0.0, 0.0, 0.0]", "[1.0, 1.0, 1.0]")


def test_modules_in_one_group():
    """Whole from the first one's call to the last one's, and trained as in one piece."""
    program = """
init()
from rushlight import nn
from rushlight.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from rushlight.distributed.tensor import DTensor, Shard
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 10))
def spread(first, second, **more):
    m = model()
    group = fully_shard([m[first], m[second]], **more)
    return fully_shard(m), group
def whole(m, *numbers):
    return [not isinstance(m[i].weight, DTensor) for i in numbers]
x, alone = torch.arange(6), model()
m, group = spread(2, 3, reshard_after_forward=False)
print(type(group).__name__, [isinstance(part, FSDPModule) for part in m], type(m[3]).__name__)
opt, other = torch.optim.SGD(m.parameters(), 0.1), torch.optim.SGD(alone.parameters(), 0.1)
for _ in range(2):
    for net, o in ((m, opt), (alone, other)):
        o.zero_grad()
        net(x).square().sum().backward()
        o.step()
print(all(torch.allclose(p.full_tensor(), q, atol=1e-6) for p, q in zip(m.parameters(), alone.parameters())), whole(m, 2, 3))
m[2].unshard()
print(whole(m, 2, 3))
m[3].reshard()
print(whole(m, 2, 3))
m, _ = spread(0, 1, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, output_dtype=torch.float32))
for part in (m[0], m[1]):
    part.register_forward_hook(lambda part, args, out: print(whole(m, 0, 1), args[0].dtype, out.dtype))
m(x)
try:
    fully_shard([m[0]])
except AssertionError as error:
    print(error)
print(Shard.local_shard_size_and_offset(10, 4, 3), Shard(0).local_shard_size_and_offset(2, 4, 3))
"""
    with Ranks(2, program) as job:
        outs = job.outputs()
    assert outs[0] == outs[1] and outs[0].splitlines() == [
        "list [False, False, True, True] FSDPLinear", "True [False, False]", "[True, True]", "[False, False]",
        "[True, True] torch.int64 torch.float32", "[False, False] torch.bfloat16 torch.float32",
        "Each distinct composable distributed API can only be applied to a module once. fully_shard has already been applied to the following module:",
        "FSDPEmbedding(10, 4)", "(1, 9) (0, 2)"]


def test_states_of_a_spread_optimizer():
    program = """
init()
from rushlight.distributed.optim import ZeroRedundancyOptimizer
torch.manual_seed(0)
a, b = (torch.nn.Linear(3, 4) for _ in range(2))
b.load_state_dict(a.state_dict())
zero, alone = ZeroRedundancyOptimizer(a.parameters(), torch.optim.Adam, lr=0.1), torch.optim.Adam(b.parameters(), lr=0.1)
def step(net, opt):
    opt.zero_grad()
    net(torch.arange(6.).view(2, 3)).pow(2).sum().backward()
    opt.step()
step(a, zero); step(b, alone)
zero.consolidate_state_dict(1)
if rank == 1:
    saved, want = zero.state_dict(), alone.state_dict()
    print(saved["param_groups"] == want["param_groups"], all(torch.equal(saved["state"][i][k], want["state"][i][k]) for i in (0, 1) for k in want["state"][i]))
else:
    try:
        zero.state_dict()
    except RuntimeError as error:
        print("not been consolidated" in str(error), len(zero.optim.state) == 1)
zero.load_state_dict(alone.state_dict())
step(a, zero); step(b, alone)
print(torch.equal(a.weight, b.weight), torch.equal(a.bias, b.bias))
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["True True\nTrue True\n"] * 2


def test_a_traced_model_in_stages():
    """Cut before a module and at pipe_split(), with a value that skips a stage; two processes train it as one does."""
    program = """
init()
from rushlight import nn
from rushlight.distributed.pipelining import SplitPoint, ScheduleGPipe, pipe_split, pipeline
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mid, self.last = nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.scale = nn.Parameter(torch.ones(6))
    def forward(self, x, more=1.0):
        skipped = self.first(x)
        y = self.mid(skipped.relu().view(x.size(0), 6)) * more
        pipe_split()
        return self.last(y * self.scale + skipped)
torch.manual_seed(0)
net, alone = Net(), Net()
alone.load_state_dict(net.state_dict())
x, y = torch.randn(8, 4), torch.randn(8, 3)
three = pipeline(net, (x[:2],), split_spec={"mid": SplitPoint.BEGINNING})
print(three.num_stages, torch.equal(three(x[:2]), net(x[:2])), [sorted(dict(three.get_stage_module(i).named_parameters())) for i in range(3)])
pipe = pipeline(net, (x[:2],))
stage = pipe.build_stage(rank, torch.device("cpu"))
schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
losses = []
schedule.step(*([x] if rank == 0 else []), **({"target": y, "losses": losses} if rank == 1 else {}))
nn.functional.mse_loss(alone(x), y).backward()
grads = dict(alone.named_parameters())
print(max((p.grad - grads[n].grad).abs().max().item() for n, p in stage.submod.named_parameters()) < 1e-6)
try:
    pipeline(net, (x[:2],), split_spec={"nowhere": SplitPoint.END})
except ValueError as error:
    print(error)
"""
    names = [["first.bias", "first.weight"], ["mid.bias", "mid.weight"], ["last.bias", "last.weight", "scale"]]
    with Ranks(2, program) as job:
        assert job.outputs() == [f"3 True {names}\nTrue\npipeline: the model calls no module 'nowhere'\n"] * 2


ORDERS = {  # of process 1 of 2 with two stages, four microbatches: what PyTorch's schedules print
    "InterleavedZeroBubble": "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 1I2 3W3 1I3 1W2 1W3",
    "ZBVZeroBubble": "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3",
    "DualPipeV": "1F0 2F0 1F1 2F1 1F2 2B0 2F2 1B0 1F3 2B1 2F3 1B1 2B2 1B2 2I3 1I3 2W3 1W3",
}


@pytest.mark.parametrize("kind", ORDERS)
def test_orders_with_zero_bubbles(kind):
    from rushlight.distributed.pipelining.schedules import order
    own = [1, 3] if kind == "InterleavedZeroBubble" else [1, 2]
    assert " ".join(f"{s}{what}{m}" for s, m, what in order(kind, own, 1, 2, 4, 4)) == ORDERS[kind]
    for size, n in [(1, 2), (2, 6), (3, 7), (4, 10), (4, 3)]:     # every pass once, and none before what it needs
        if kind == "DualPipeV" and n < 2 * size or kind == "InterleavedZeroBubble" and n % max(1, n // size):
            continue
        for rank in range(size):
            own = [rank, rank + size] if kind == "InterleavedZeroBubble" else [rank, 2 * size - 1 - rank]
            steps = order(kind, own, rank, size, 2 * size, n)
            for s in own:
                for m in range(n):
                    passes = "".join(what for stage, microbatch, what in steps if (stage, microbatch) == (s, m))
                    assert passes in ("FB", "FIW"), (size, n, rank, s, m, passes)


def test_backward_in_two_halves():
    """Gradients of inputs, then those of parameters: the same as at once, also of parameters that are used twice, and hooks run."""
    import rushlight as torch
    from rushlight import nn
    from rushlight.distributed.pipelining._split import SplitBackward
    torch.manual_seed(0)
    norm, one, two, scale = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 18), nn.Parameter(torch.rand(6))
    params = [*norm.parameters(), *one.parameters(), *two.parameters(), scale]

    def attention(x):
        return one(nn.functional.scaled_dot_product_attention(*two(norm(x)).chunk(3, -1)))

    seen = []
    scale.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad is not None))
    x = torch.randn(2, 4, 6, requires_grad=True)
    for f in (lambda x: x + attention(x), lambda x: one(one(x) * scale) * scale, lambda x: x * 2, lambda x: attention(x.detach()) + scale):
        loss = f(x).square().sum()
        want = torch.autograd.grad(loss, [x, *params], retain_graph=True, allow_unused=True)
        half = SplitBackward([loss], [None], [x])
        assert all(p.grad is None for p in params)
        half.accumulate()
        got = [half.input_grads[0], *(p.grad for p in params)]
        assert all(a is b is None or torch.allclose(a, b) for a, b in zip(want, got))
        for p in params:
            p.grad = None
    assert seen == [True, True]


def test_settings_of_fully_shard():
    """Sums of gradients that PyTorch prints (its gloo needs set_force_sum_reduction_for_comms for other factors)."""
    program = """
init()
from rushlight import nn
from rushlight.distributed.fsdp import DataParallelMeshDims, FullyShardedDataParallel, ShardingStrategy, fully_shard, share_comm_ctx
def made(mesh=None):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    fully_shard(net[0], mesh=mesh)
    return fully_shard(net, mesh=mesh)
def step(what, net, by=1, run=None):
    (run or net)(by * x).sum().backward()
    print(what, [None if p.grad is None else round(p.grad.full_tensor().sum().item(), 3) for p in net.parameters()])
torch.manual_seed(rank)
x, seen = torch.randn(3, 4), []
def hook(t):
    seen.append((tuple(t.shape), torch.zeros(1).add(t.sum()).isfinite().item()))
    t.mul_(10)
net = made(); net.set_gradient_divide_factor(1.0); step("one", net)
net = made(); net[0].set_gradient_divide_factor(4.0); step("four", net)
net = made(); net.set_all_reduce_hook(hook); step("hook", net); print(seen)
class Gather:
    def allocate(self, size, *, dtype, device):
        return torch.full(size, float("nan"), dtype=dtype, device=device)
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        seen.append(("gather", len(output_tensor), len(input_tensor)))
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=async_op)
class Scatter(Gather):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        seen.append(("scatter", len(output_tensor), len(input_tensor)))
        return dist.reduce_scatter_tensor(output_tensor, input_tensor, op=op, group=group, async_op=async_op)
seen.clear()
net = made(); net[0].set_custom_all_gather(Gather()); net[0].set_custom_reduce_scatter(Scatter()); step("own", net); print(seen)
net = made(); net[0].set_unshard_in_backward(False); step("not gathered", net)
net = made(); net.set_reduce_scatter_unused_params(True); step("unused", net, run=net[0])
net = made()
handle = net[1].register_forward_hook(lambda *a: 1 / 0)
try:
    net(x)
except ZeroDivisionError:
    handle.remove()
net.reset_iter_state(); step("again", net)
def fails(f):
    try:
        f()
    except Exception as error:
        print(type(error).__name__, error)
fails(net[0].reset_iter_state)
fails(lambda: net.set_reduce_scatter_max_input_buffers(0))
share_comm_ctx([net, made()])
fails(lambda: share_comm_ctx([nn.Linear(1, 1)]))
print(DataParallelMeshDims("dp"))
fails(DataParallelMeshDims)
mesh = dist.init_device_mesh("cpu", (2, 1), mesh_dim_names=("r", "s"))
net = made(mesh); net.set_requires_all_reduce(False); step("kept", net); net.set_requires_all_reduce(True); step("all", net, 2)
def scattered(state, grad, out):
    state.append((len(grad), len(out)))
    dist.reduce_scatter_tensor(out, grad)
def summed(state, grad):
    state.append(len(grad))
    dist.all_reduce(grad)
for how, f in ((ShardingStrategy.FULL_SHARD, scattered), (ShardingStrategy.NO_SHARD, summed)):
    torch.manual_seed(0)
    model, state = FullyShardedDataParallel(nn.Linear(4, 2), sharding_strategy=how, use_orig_params=True), []
    model.register_comm_hook(state, f)
    model(x).sum().backward()
    total = torch.stack([torch.zeros(()) if p.grad is None else p.grad.sum() for p in model.parameters()])
    if f is scattered:
        dist.all_reduce(total)
    print(state, torch.allclose(total[1], torch.tensor(12.)))
"""
    want = """one [-2.418, 2.488, 6.903, 12.0]
four [-1.209, 1.244, 3.452, 6.0]
hook [-2.418, 2.488, 34.515, 60.0]
[((5,), True)]
own [-2.418, 2.488, 3.452, 6.0]
[('gather', 20, 10), ('gather', 20, 10), ('scatter', 10, 20)]
not gathered [-2.418, 2.488, 3.452, 6.0]
unused [-11.662, 12.0, None, None]
again [-2.418, 2.488, 3.452, 6.0]
RuntimeError reset_iter_state must be called on the root FSDP module
ValueError max_input_buffers must be a positive int, got 0
ValueError Expects list of FSDPModules but got Linear(in_features=1, out_features=1, bias=True)
DataParallelMeshDims(shard='dp', replicate=None)
ValueError At least one of shard or replicate must be set in DataParallelMeshDims
kept [None, None, None, None]
all [-7.253, 4.976, 10.709, 12.0]
[(10, 5)] True
[10] True
"""
    with Ranks(2, program) as job:
        assert job.outputs() == [want] * 2


def test_collectives_are_counted_for_modules():
    """CommDebugMode and visualize_sharding print what PyTorch's print."""
    program = """
init()
import io, json, os, tempfile
from rushlight import nn
from rushlight.distributed import _functional_collectives as functions
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from rushlight.distributed.tensor.debug import CommDebugMode, visualize_sharding
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = dist.init_device_mesh("cpu", (2,))
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.relu, self.net2 = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)
    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))
net = parallelize_module(MLP(), mesh, {"net1": ColwiseParallel(), "net2": RowwiseParallel()})
mode = CommDebugMode()
with mode:
    net(torch.ones(3, 4)).sum().backward()
print(mode, mode.get_comm_counts()[torch.ops.c10d_functional.all_reduce], mode.get_sharding_info()["MLP.net2.weight"], sorted(mode.get_parameter_info()))
folder = tempfile.mkdtemp()
mode.log_comm_debug_tracing_table_to_file(os.path.join(folder, "log.txt"), noise_level=1)
print(open(os.path.join(folder, "log.txt")).read())
mode.generate_json_dump(os.path.join(folder, "log.json"))
tree = json.load(open(os.path.join(folder, "log.json")))["children"][0]
print(tree["fqn"], [c["fqn"] for c in tree["children"]], tree["children"][2]["collectives_forward"], tree["children"][0]["operations_backward"][-1]["is_bw"])
t, two = torch.ones(2), [torch.zeros(2), torch.zeros(2)]
d = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
with CommDebugMode() as mode:
    dist.broadcast(t, 0); dist.all_gather(two, t); dist.all_gather_into_tensor(torch.zeros(4), t); dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(4))
    dist.reduce_scatter(torch.zeros(2), two); dist.reduce(t, 0); dist.gather(t, two if rank == 0 else None); dist.scatter(t, two if rank == 0 else None)
    dist.all_to_all_single(torch.zeros(2), t); dist.barrier(); dist.all_to_all(two, [torch.ones(2)] * 2)
    functions.all_reduce(t, "sum", dist.group.WORLD); functions.all_gather_tensor(t, 0, dist.group.WORLD)
    functions.all_to_all_single(t, None, None, dist.group.WORLD); functions.broadcast(t, 0, dist.group.WORLD)
    d.redistribute(mesh, [Shard(1)]); DTensor.from_local(torch.ones(4, 4), mesh, [Partial()]).redistribute(mesh, [Shard(0)])
print({str(k): n for k, n in mode.get_comm_counts().items()})
dist.all_reduce(t)
print(mode.get_total_counts())
for shape, placement in (((4, 4), Shard(0)), ((4, 4), Shard(1)), ((4,), Replicate()), ((5,), Shard(0))):
    visualize_sharding(distribute_tensor(torch.ones(shape), mesh, [placement]))
try:
    visualize_sharding(distribute_tensor(torch.ones(4, 4, 4), mesh, [Shard(0)]))
except RuntimeError as error:
    print(error)
"""
    spread = "              device mesh: DeviceMesh((2,), 'cpu', stride=(1,))\n"
    want = f"""CommDebugMode(get_total_counts()=1) 1 (Shard(dim=1),) ['MLP.net1', 'MLP.net2']
Global
  FORWARD PASS
    *c10d_functional.all_reduce: 1
  BACKWARD PASS
    MLP
    *module type: class '__main__.MLP'
      FORWARD PASS
        *c10d_functional.all_reduce: 1
        MLP.net1
        *module type: class 'torch.nn.modules.linear.Linear'
        *Parameter List
         *weight: (Shard(dim=0),)
         *bias: (Shard(dim=0),)
          FORWARD PASS
            **aten.addmm.default
              shape: [torch.Size([8]), torch.Size([3, 4]), torch.Size([4, 8])]
              sharding: [(Shard(dim=0),), (Replicate(),), (Shard(dim=1),)]
{spread}          BACKWARD PASS
            **aten.mm.default
              shape: [torch.Size([8, 3]), torch.Size([3, 4])]
              sharding: [(Shard(dim=0),), (Replicate(),)]
{spread}            **aten.sum.dim_IntList
              shape: [torch.Size([3, 8])]
              sharding: [(Shard(dim=1),)]
{spread}        MLP.relu
        *module type: class 'torch.nn.modules.activation.ReLU'
          FORWARD PASS
          BACKWARD PASS
        MLP.net2
        *module type: class 'torch.nn.modules.linear.Linear'
        *Parameter List
         *weight: (Shard(dim=1),)
         *bias: (Replicate(),)
          FORWARD PASS
            *c10d_functional.all_reduce: 1
            **aten.addmm.default
              shape: [torch.Size([4]), torch.Size([3, 8]), torch.Size([8, 4])]
              sharding: [(Replicate(),), (Shard(dim=1),), (Shard(dim=0),)]
{spread}          BACKWARD PASS
            **aten.mm.default
              shape: [torch.Size([3, 4]), torch.Size([4, 8])]
              sharding: [(Replicate(),), (Shard(dim=1),)]
{spread}            **aten.mm.default
              shape: [torch.Size([4, 3]), torch.Size([3, 8])]
              sharding: [(Replicate(),), (Shard(dim=1),)]
{spread}            **aten.sum.dim_IntList
              shape: [torch.Size([3, 4])]
              sharding: [(Replicate(),)]
{spread}
MLP ['MLP.net1', 'MLP.relu', 'MLP.net2'] ['c10d_functional.all_reduce: 1'] True
""" + str({**{f"c10d.{name}": 1 for name in ("broadcast_", "allgather_", "_allgather_base_", "_reduce_scatter_base_", "reduce_scatter_", "reduce_", "gather_",
                                             "scatter_", "alltoall_base_", "alltoall_")}, "c10d_functional.all_reduce": 1,
           "c10d_functional.all_gather_into_tensor": 2, "c10d_functional.all_to_all_single": 1, "c10d_functional.broadcast": 1,
           "c10d_functional.reduce_scatter_tensor": 1}) + "\n16\n"
    tables = """         Col 0-3
-------  ---------
Row 0-1  cpu:0
Row 2-3  cpu:1
         Col 0-1    Col 2-3
-------  ---------  ---------
Row 0-3  cpu:0      cpu:1
         Col 0-0
-------  ---------
Row 0-3  cpu:0,1
         Col 0-0
-------  ---------
Row 0-2  cpu:0
Row 3-4  cpu:1
"""
    end = "visualize sharding supports only 1D or 2D DTensor\n"
    with Ranks(2, program) as job:
        first, second = job.outputs()
    assert first.replace("'rushlight.", "'torch.") == want + tables + end and second == want + end


def test_functions_on_pieces():
    program = """
init()
from rushlight.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from rushlight.distributed.tensor.experimental import _attention, context_parallel, implicit_replication, local_map, register_sharding
mesh = dist.init_device_mesh("cpu", (2,))
x, w = torch.arange(12.).view(4, 3), torch.ones(3, 2)
d, v = distribute_tensor(x, mesh, [Shard(1)]), distribute_tensor(w, mesh, [Shard(0)])
product = local_map(lambda a, b: a @ b, out_placements=[Partial()], in_placements=([Shard(1)], [Shard(0)]), device_mesh=mesh)
print(torch.equal(product(d, v).full_tensor(), x @ w))
try:
    product(d.redistribute(placements=[Shard(0)]), v)
except ValueError as error:
    print("mismatched placements" in str(error))
with implicit_replication():
    print((d + torch.ones(4, 3)).placements, torch.equal((d + torch.ones(4, 3)).full_tensor(), x + 1))
@register_sharding(torch.ops.aten.cummin.default)
def cummin(x, dim):
    return [([Shard(k), Shard(k)], [Shard(k), None]) for k in range(x.ndim) if k != dim]
print(torch.ops.aten.cummin(d, 0)[0].placements, torch.equal(torch.ops.aten.cummin(d, 0)[0].full_tensor(), x.cummin(0)[0]))
torch.manual_seed(0)
q, k, v = (torch.randn(2, 3, 8, 4, requires_grad=True) for _ in range(3))
g = torch.randn(2, 3, 8, 4)
for way in ("alltoall", "allgather"):
    for causal in (False, True):
        for balanced in (True, False):
            _attention.set_rotate_method(way)
            _attention._cp_options.enable_load_balance = balanced
            whole = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            want = torch.autograd.grad(whole, (q, k, v), g)
            parts = [t.detach().clone() for t in (q, k, v, g)]
            with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4):
                a, b, c = (t.clone().requires_grad_() for t in parts[:3])
                out = torch.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=causal)
                got = torch.autograd.grad(out, (a, b, c), parts[3])
            made = _attention.context_parallel_unshard(mesh, [out.detach(), *got], [2] * 4)
            worst = max((x - y).abs().max().item() for x, y in zip(made, (whole, *want)))
            assert worst < 2e-6 and torch.equal(parts[0], q), (way, causal, balanced, worst)
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["True\nTrue\n(Shard(dim=1),) True\n(Shard(dim=1),) True\n"] * 2


def test_parameters_averaged_from_time_to_time():
    program = """
init()
from rushlight.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from rushlight.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from rushlight.distributed.optim import PostLocalSGDOptimizer
net = torch.nn.Linear(2, 1, bias=False)
torch.nn.init.zeros_(net.weight)
ddp = torch.nn.parallel.DistributedDataParallel(net)
alone, _ = dist.new_subgroups(1)
ddp.register_comm_hook(PostLocalSGDState(None, alone, start_localSGD_iter=1), post_localSGD_hook)
opt = PostLocalSGDOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), PeriodicModelAverager(period=2, warmup_steps=1))
for step in range(4):
    ddp(torch.full((1, 2), rank + 1.0)).sum().backward()
    opt.step()
    opt.zero_grad()
    print(net.weight[0, 0].item(), end=" ")
print(opt.state_dict()["step"])
"""
    with Ranks(2, program) as job:  # the mean of the gradients, then those of each rank with the weights' mean in steps 2 and 4
        assert job.outputs() == ["-1.5 -3.0 -4.0 -6.0 4\n", "-1.5 -3.0 -5.0 -6.0 4\n"]
