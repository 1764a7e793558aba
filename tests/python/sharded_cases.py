"""Training with weights spread over processes: the same program under PyTorch and under rushlight, on any number of ranks.

    sharded_cases.py LIBRARY CASES URL RANK SIZE     prints "CASE<TAB>losses<TAB>largest difference of a weight from one process alone"

A case is WAY-MODEL. Every rank also trains the model alone, on whole batches: after 20 steps the weights have to be the same, but for ways
that round gradients (LOSSY). A way that ends in "clip" cuts the norm of all gradients.
"""
import datetime
import os
import sys
from importlib import import_module

STEPS, BATCH, LENGTH, WORDS = 20, 8, 8, 12
T = import_module("torch" if sys.argv[1] == "torch" else "rushlight")
dist, tensor, parallel, fsdp = (import_module(T.__name__ + ".distributed" + name) for name in ("", ".tensor", ".tensor.parallel", ".fsdp"))
nn, F = T.nn, T.nn.functional


KIND = os.environ.get("DEVICE", "cpu")  # of the devices, of which each rank takes one
DEVICE = T.device("cpu") if KIND == "cpu" else T.device(KIND, int(sys.argv[4]) % T.accelerator.device_count())
CLIP, clipping = 0.3, False  # the norm, and whether the case that runs cuts to it


def mlp():
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 2 * 2, 3))


def mlp9():
    return nn.Sequential(*mlp()[:4], nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def cnn9():
    return nn.Sequential(*cnn()[:6], nn.Linear(8 * 2 * 2, 16), nn.ReLU(), nn.Linear(16, 3))


def bn():
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(6 * 2 * 2, 3))


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        y = self.ln1(x)
        q, k, v = (f(y).unflatten(-1, (-1, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.o(y)
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, d=16, blocks=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(WORDS, d), nn.Embedding(LENGTH, d)
        self.blocks = nn.ModuleList([Block(d) for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, WORDS)

    def forward(self, i, at=None):
        x = self.tok(i) + self.pos(T.arange(LENGTH, device=i.device) if at is None else at)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt8():
    return GPT(blocks=8)


MODELS = {"mlp": mlp, "cnn": cnn, "gpt": GPT, "mlp9": mlp9, "cnn9": cnn9, "gpt8": gpt8, "bn": bn}  # those with a number: for eight stages


def batches(model):
    g = T.Generator("cpu").manual_seed(1)
    for _ in range(STEPS):
        if model.startswith("gpt"):
            text = T.randint(0, WORDS, (BATCH, LENGTH + 1), generator=g, device="cpu").to(DEVICE)
            yield text[:, :-1], text[:, 1:]
        else:
            x = T.randn((BATCH, 1, 8, 8) if model in ("cnn", "cnn9", "bn") else (BATCH, 10), generator=g, device="cpu")
            yield x.to(DEVICE), T.randint(0, 3, (BATCH,), generator=g, device="cpu").to(DEVICE)


def loss_of(out, y):
    return F.cross_entropy(out.flatten(0, -2), y.flatten())


def made(model):
    T.manual_seed(0)
    with T.device("cpu"):
        return MODELS[model]().to(DEVICE)


def optimizer_of(params):
    return T.optim.SGD(params, lr=0.1, momentum=0.9)


def clipped(net):
    if hasattr(net, "clip_grad_norm_"):
        net.clip_grad_norm_(CLIP)
    else:
        nn.utils.clip_grad_norm_(net.parameters(), CLIP)


def train(net, optimizer, model, part=lambda t: t, mean=False):
    losses = []
    for x, y in batches(model):
        loss = loss_of(net(part(x)), part(y))
        loss.backward()
        if clipping:
            clipped(net)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        if mean:
            dist.all_reduce(total)
            total /= dist.get_world_size()
        losses.append(total.item())
    return losses


def whole(t):
    return (t.full_tensor() if isinstance(t, tensor.DTensor) else t).detach()


def tp(model, mesh):
    """Tensor parallel: columns, then rows."""
    col, row, R = parallel.ColwiseParallel, parallel.RowwiseParallel, tensor.Replicate()
    net = made(model)
    if model.startswith("gpt"):
        plan = {"tok": row(input_layouts=R), "head": col(output_layouts=R)}
        plan.update({"blocks.*." + name: col() for name in ("q", "k", "v", "up")}, **{"blocks.*." + name: row() for name in ("o", "down")})
    elif model == "cnn":  # the layers that have a style
        plan = {"6": col(output_layouts=R)}
    else:
        plan = {"0": col(), "2": row()}
    parallel.parallelize_module(net, mesh, plan)
    return net, train(net, optimizer_of(net.parameters()), model)


def sp(model, mesh):
    """Sequence parallel: what is between the layers is cut along the sequence."""
    col, row, R, S = parallel.ColwiseParallel, parallel.RowwiseParallel, tensor.Replicate(), tensor.Shard(1)
    net = made(model)
    if model == "mlp":  # of which the batch is the sequence
        whole_rows = tensor.Shard(0)
        parallel.parallelize_module(net, mesh, {"0": col(), "2": row(output_layouts=whole_rows), "3": parallel.SequenceParallel(sequence_dim=0),
                                                "4": col(input_layouts=whole_rows, output_layouts=R)})
        return net, train(net, optimizer_of(net.parameters()), model)
    plan = {"tok": row(input_layouts=R, output_layouts=S), "pos": row(input_layouts=R, output_layouts=tensor.Shard(0)), "norm": parallel.SequenceParallel(),
            "head": col(input_layouts=S, output_layouts=R)}
    for name in ("blocks.*.ln1", "blocks.*.ln2"):
        plan[name] = parallel.SequenceParallel()
    plan.update({"blocks.*." + name: col(input_layouts=S) for name in ("q", "k", "v", "up")},
                **{"blocks.*." + name: row(output_layouts=S) for name in ("o", "down")})
    parallel.parallelize_module(net, mesh, plan)
    return net, train(net, optimizer_of(net.parameters()), model)


def rows(t):
    return t.chunk(dist.get_world_size())[dist.get_rank()]


def fsdp2(model, mesh):
    """Each module with parameters by itself, then the rest."""
    net = made(model)
    for module in net.blocks if model.startswith("gpt") else [m for m in net if list(m.parameters())][1:]:
        fsdp.fully_shard(module, mesh=mesh)
    fsdp.fully_shard(net, mesh=mesh)
    return net, train(net, optimizer_of(net.parameters()), model, rows, True)


def both(model, mesh):
    """Tensor parallel by pairs of processes, whose pieces are in pieces again."""
    if mesh.size() == 4:
        mesh = dist.init_device_mesh(KIND, (2, 2), mesh_dim_names=("dp", "tp"))
    else:
        mesh = dist.init_device_mesh(KIND, (1, mesh.size()), mesh_dim_names=("dp", "tp"))
    net = made(model)
    parallel.parallelize_module(net, mesh["tp"], {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()})
    fsdp.fully_shard(net, mesh=mesh["dp"])
    n, r = mesh["dp"].size(), mesh["dp"].get_local_rank()
    return net, train(net, optimizer_of(net.parameters()), model, lambda t: t.chunk(n)[r], True)


def wrapped(strategy, original):
    def case(model, mesh):
        wrap = import_module(T.__name__ + ".distributed.fsdp.wrap")
        kinds = {Block} if model.startswith("gpt") else {nn.Linear, nn.Conv2d}
        net = fsdp.FullyShardedDataParallel(made(model), auto_wrap_policy=wrap.ModuleWrapPolicy(kinds), device_id=DEVICE,
                                            sharding_strategy=fsdp.ShardingStrategy[strategy], use_orig_params=original)
        losses = train(net, optimizer_of(net.parameters()), model, rows, True)
        with fsdp.FullyShardedDataParallel.state_dict_type(net, fsdp.StateDictType.FULL_STATE_DICT):
            return net.state_dict(), losses
    return case


full, gradop, noshard, original = wrapped("FULL_SHARD", False), wrapped("SHARD_GRAD_OP", False), wrapped("NO_SHARD", False), wrapped("FULL_SHARD", True)


def spread(net, **options):
    return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.001, device_ids=None if KIND == "cpu" else [DEVICE.index], **options)


def ddp(model, mesh):
    net = made(model)
    return net, train(spread(net), optimizer_of(net.parameters()), model, rows, True)


def sync(model, mesh):
    """Batch norm over all processes."""
    net = nn.SyncBatchNorm.convert_sync_batchnorm(made(model))
    return net, train(spread(net), optimizer_of(net.parameters()), model, rows, True)


def hooked(module, name, state=lambda: None):
    def case(model, mesh):
        net = made(model)
        hooks = import_module(T.__name__ + ".distributed.algorithms.ddp_comm_hooks." + module)
        around = nn.parallel.DistributedDataParallel(net)
        around.register_comm_hook(hooks.PowerSGDState(None, **state()) if state() else None, getattr(hooks, name))
        return net, train(around, optimizer_of(net.parameters()), model, rows, True)
    return case


fp16, bf16 = hooked("default_hooks", "fp16_compress_hook"), hooked("default_hooks", "bf16_compress_hook")
powersgd = hooked("powerSGD_hook", "powerSGD_hook", lambda: {"matrix_approximation_rank": 2, "start_powerSGD_iter": 3, "min_compression_rate": 1})


def joined(model, mesh):
    """Rank r stops after STEPS - r batches; the losses are rank 0's."""
    net = made(model)
    around, rank = spread(net), dist.get_rank()
    optimizer, losses = optimizer_of(net.parameters()), []
    with around.join():
        for step, (x, y) in enumerate(batches(model)):
            if step == STEPS - rank:
                break
            loss = loss_of(around(rows(x)), rows(y))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    box = [losses]
    dist.broadcast_object_list(box)
    return net, box[0]


def cp(model, mesh):
    """Attention over a sequence of which each process has a part."""
    experimental = import_module(T.__name__ + ".distributed.tensor.experimental")
    net, losses = made(model), []
    optimizer = optimizer_of(net.parameters())
    for x, y in batches(model):
        x, y, at = x.clone(), y.clone(), T.arange(LENGTH, device=DEVICE)
        with experimental.context_parallel(mesh, buffers=[x, y, at], buffer_seq_dims=[1, 1, 0], no_restore_buffers={x, y, at}):
            loss = loss_of(net(x, at), y)
            loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= mesh.size()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / mesh.size())
    return net, losses


def zero(model, mesh):
    optim = import_module(T.__name__ + ".distributed.optim")
    net = made(model)
    ddp = nn.parallel.DistributedDataParallel(net)
    return net, train(ddp, optim.ZeroRedundancyOptimizer(ddp.parameters(), T.optim.SGD, lr=0.1, momentum=0.9), model, rows, True)


def stages(model, n):
    """The modules of a model in n parts."""
    net = made(model)
    if model.startswith("gpt"):
        class Ends(nn.Module):
            def __init__(self, first, blocks, last):
                super().__init__()
                self.parts = nn.ModuleDict({**first, "blocks": blocks, **last})

            def forward(self, x):
                if "tok" in self.parts:
                    x = self.parts["tok"](x) + self.parts["pos"](T.arange(LENGTH, device=x.device))
                for block in self.parts["blocks"].values():
                    x = block(x)
                return self.parts["head"](self.parts["norm"](x)) if "head" in self.parts else x
        ends = {"tok": net.tok, "pos": net.pos}, {"norm": net.norm, "head": net.head}
        count = len(net.blocks)
        per = [[i for i in range(count) if i * n // count == s] for s in range(n)]
        return [Ends(ends[0] if s == 0 else {}, nn.ModuleDict({str(i): net.blocks[i] for i in per[s]}), ends[1] if s == n - 1 else {}) for s in range(n)], "parts."
    layers = list(net.named_children())
    class Part(nn.Sequential):
        pass
    cuts = [len(layers) * s // n for s in range(n + 1)]
    out = []
    for a, b in zip(cuts, cuts[1:]):
        part = Part()
        for name, layer in layers[a:b]:
            part.add_module(name, layer)
        out.append(part)
    return out, ""


def pipe(kind, loops=1, v=False):
    def case(model, mesh):
        pp = import_module(T.__name__ + ".distributed.pipelining")
        n, rank = mesh.size() * loops, dist.get_rank()
        parts, prefix = stages(model, n)
        own = [rank, n - 1 - rank] if v else [s for s in range(n) if s % mesh.size() == rank]
        made_stages = [pp.PipelineStage(parts[s], s, n, DEVICE) for s in own]
        schedule = getattr(pp, kind)(made_stages[0] if loops == 1 else made_stages, 4, loss_fn=loss_of)
        optimizer = optimizer_of([p for s in own for p in parts[s].parameters()] or [nn.Parameter(T.zeros(1, device=DEVICE))])
        last, all_losses = 0 if v else (n - 1) % mesh.size(), []
        for x, y in batches(model):
            losses = []
            schedule.step(*([x] if rank == 0 else []), **({"target": y, "losses": losses} if rank == last else {}))
            optimizer.step()
            optimizer.zero_grad()
            total = T.tensor(sum(v.item() for v in losses) / 4, device=DEVICE)
            dist.broadcast(total, last)
            all_losses.append(total.item())
        return {k[len(prefix):]: v for s in own for k, v in parts[s].state_dict().items()}, all_losses
    return case


gpipe, pipe1f1b, loopedbfs, interleaved = pipe("ScheduleGPipe"), pipe("Schedule1F1B"), pipe("ScheduleLoopedBFS", 2), pipe("ScheduleInterleaved1F1B", 2)
zerobubble, zbv, dualpipe = pipe("ScheduleInterleavedZeroBubble", 2), pipe("ScheduleZBVZeroBubble", 2, True), pipe("ScheduleDualPipeV", 2, True)
PIPES, LOSSY = ("gpipe", "pipe1f1b", "loopedbfs", "interleaved", "zerobubble", "zbv", "dualpipe"), ("fp16", "bf16", "powersgd", "joined")


def main():
    global clipping
    cases, url, rank, size = sys.argv[2].split(","), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    if KIND != "cpu":
        T.accelerator.set_device_index(DEVICE.index)
    dist.init_process_group(os.environ.get("BACKEND", "gloo"), init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=120))
    mesh = dist.init_device_mesh(KIND, (size,))
    alone = {}
    for case in cases:
        how, model = case.split("-")
        clipping = how.endswith("clip")
        if (model, clipping) not in alone:
            net = made(model)
            train(net, optimizer_of(net.parameters()), model)
            alone[model, clipping] = net.state_dict()
        net, losses = globals()[how.removesuffix("clip")](model, mesh)
        want = alone[model, clipping]
        got = net if isinstance(net, dict) else net.state_dict()
        worst = max((whole(v) - want[k]).abs().max().item() for k, v in got.items()) if got else 0.0
        assert set(got) <= set(want) and (how in PIPES or len(got) == len(want))
        print(case, " ".join("%.5f" % v for v in losses), "%.1e" % worst, sep="\t", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
