#!/usr/bin/env python3
"""What a training step takes on n processes: a model of the schedules, checked on this machine and printed for machines that nobody has here.

    bench/scale.py check [--sizes 1,2,4,8]   measures what a message costs between two processes and a layer in one, predicts steps on n, runs them
    bench/scale.py predict                   the tables of docs/scale.md

A message of s bytes takes latency + s / bandwidth. Collectives are made of messages (ring, tree, or by machines first), steps of collectives and of
layers; a process computes one thing at a time and sends one thing at a time, both beside each other. `rank` is what the launched processes of `check` run.
"""
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))


@dataclass(frozen=True)
class Net:
    """seconds per message, and per byte"""
    latency: float
    byte: float


@dataclass(frozen=True)
class Cluster:
    """`per`: processes of a machine; `within` and `between` machines."""
    within: Net
    between: Net
    per: int = 8


@dataclass(frozen=True)
class Layer:
    """seconds of its passes on one microbatch, bytes of its parameters, of what it hands on"""
    forward: float
    backward: float
    weights: int
    out: int = 0


# ---- collectives over n processes, of s bytes in all

def ring(net, n, s):
    """Reduce-scatter, or all-gather: n - 1 messages of a piece."""
    return (n - 1) * (net.latency + s / n * net.byte)


def ring_all_reduce(net, n, s):
    return 2 * ring(net, n, s)


def tree_all_reduce(net, n, s):
    """Halving, then doubling."""
    return 2 * (math.ceil(math.log2(n)) * net.latency + (n - 1) / n * s * net.byte) if n > 1 else 0.0


def slowest(cluster, n):
    return cluster.within if n <= cluster.per else cluster.between


def all_reduce(cluster, n, s, way):
    """way: ring, tree, or machines: within each machine, then between the processes of equal number, then within again."""
    if way != "machines" or n <= cluster.per:
        return (tree_all_reduce if way == "tree" else ring_all_reduce)(slowest(cluster, n), n, s)
    k, m = cluster.per, n // cluster.per
    return 2 * ring(cluster.within, k, s) + min(f(cluster.between, m, s / k) for f in (ring_all_reduce, tree_all_reduce))


def gather(cluster, n, s, way):
    """All-gather, or reduce-scatter."""
    if way == "ring" or n <= cluster.per:
        return ring(slowest(cluster, n), n, s)
    net, k = cluster.between, cluster.per
    if way == "tree":
        return math.ceil(math.log2(n)) * net.latency + (n - 1) / n * s * net.byte
    m = n // k
    return math.ceil(math.log2(m)) * net.latency + (m - 1) / m * s / k * net.byte + ring(cluster.within, k, s)


# ---- steps

class Line:
    """Something that does one thing at a time."""

    def __init__(self):
        self.free = 0.0

    def run(self, ready, takes):
        self.free = max(self.free, ready) + takes
        return self.free


def buckets(layers, first=1 << 20, then=25 << 20):
    """[(layers whose gradients are in it, bytes)], the last layers first, as DistributedDataParallel deals them."""
    out, size, some = [], 0, []
    for i in reversed(range(len(layers))):
        some.append(i)
        size += layers[i].weights
        if size >= (then if out else first) or i == 0:
            out.append((some, size))
            size, some = 0, []
    return out


def ddp(layers, reduce):
    """reduce(bytes): seconds of an all_reduce. Buckets go while the backward pass goes on."""
    net, now = Line(), sum(x.forward for x in layers)
    done = {}
    for i in reversed(range(len(layers))):
        now += layers[i].backward
        done[i] = now
    return max([now] + [net.run(max(done[i] for i in some), reduce(size)) for some, size in buckets(layers)])


def fsdp(layers, gathers, scatters, ahead):
    """Weights are gathered before each pass of a layer, `ahead` of it; gradients are scattered after."""
    net, compute, ends = Line(), Line(), []
    passes = [(x, x.forward, False) for x in layers] + [(x, x.backward, True) for x in reversed(layers)]
    for number, (x, seconds, back) in enumerate(passes):
        at = ends[number - 1 - ahead] if number > ahead else 0.0
        here = net.run(at, gathers(x.weights))
        ends.append(compute.run(here, seconds))
        if back:
            scattered = net.run(ends[-1], scatters(x.weights))
            if not ahead:
                compute.free = scattered
    return max(compute.free, net.free)


def tensor(layers, reduce, each=1):
    """Each layer's result and the gradient of its input are sums over the processes; nothing goes beside."""
    return sum(x.forward + x.backward + 2 * each * reduce(x.out) for x in layers)


def pipeline(kind, size, loops, n, forward, backward, message, processors=None):
    """A stage's passes of one microbatch, and a message between stages, in seconds; the orders are those of torch.distributed.pipelining.

    `processors`: so many for all processes; None: each has its own.
    """
    from rushlight.distributed.pipelining.schedules import order
    stages = size * loops
    work = [order(kind, range(r, stages, size), r, size, stages, n) for r in range(size)]
    lines, cores, at, done = [Line() for _ in range(size)], [0.0] * (processors or size), [0] * size, {}
    for _ in range(sum(map(len, work))):
        ready = []
        for r in range(size):
            if at[r] == len(work[r]):
                continue
            s, m, back = work[r][at[r]]
            needs = (s + 1, m, True) if back and s + 1 < stages else (s, m, False) if back else (s - 1, m, False) if s else None
            if needs is None or needs in done:
                came = 0.0 if needs is None else done[needs] + (message if needs[0] % size != r else 0.0)
                ready.append((max(came, lines[r].free), r))
        if not ready:
            raise RuntimeError(f"{kind} over {size} processes waits for itself")
        when, r = min(ready)
        core = min(range(len(cores)), key=cores.__getitem__) if processors else r
        done[work[r][at[r]]] = cores[core] = lines[r].run(max(when, cores[core]), backward if work[r][at[r]][2] else forward)
        at[r] += 1
    return max(line.free for line in lines)


# ---- this machine: what it costs, what a step is said to take, what it takes

DEPTH, WIDTH, ROWS, MICRO = 8, 512, 64, 4
CASES = ["DDP", "FSDP", "TP", "GPipe", "1F1B"]


def model(nn):
    return nn.Sequential(*(m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())))


def least(step, sync, times=12):
    """The fastest of some, the slowest process counting."""
    step(), step()
    best = 1e9
    for _ in range(times):
        sync()
        begin = time.perf_counter()
        step()
        sync()
        best = min(best, time.perf_counter() - begin)
    return best


def rank_main():
    """One process of `check`: prints `name seconds` lines, of rank 0."""
    import rushlight as torch
    import rushlight.distributed as dist
    from rushlight import nn
    from rushlight.distributed import fsdp as sharded, pipelining
    from rushlight.distributed.tensor import Shard, parallel
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh, F = dist.init_device_mesh("cpu", (size,)), nn.functional

    def say(name, seconds):
        if rank == 0:
            print(name, seconds, flush=True)

    def trained(net, rows):
        x, y = torch.randn(rows, WIDTH), torch.randn(rows, WIDTH)

        def step():
            F.mse_loss(net(x), y).backward()
            for p in net.parameters():
                p.grad = None
        return step
    if size == 1:
        for rows in (ROWS, ROWS // MICRO):
            net, x = model(nn), torch.randn(rows, WIDTH)
            say(f"forward{rows}", least(lambda: net(x), dist.barrier) / DEPTH)
            say(f"step{rows}", least(trained(net, rows), dist.barrier) / DEPTH)
        say("DDP", least(trained(model(nn), ROWS), dist.barrier))
        return
    say("barrier", least(dist.barrier, lambda: None, 60))
    for s in (256, 1 << 20, 4 << 20):
        t = torch.zeros(s // 4)
        say(f"all_reduce{s}", least(lambda: dist.all_reduce(t), dist.barrier, 30))
        other = rank ^ 1
        say(f"exchange{s}", least(lambda: (dist.send(t, other), dist.recv(t, other)) if rank < other else (dist.recv(t, other), dist.send(t, other)), dist.barrier, 30) / 2)
    say("DDP", least(trained(nn.parallel.DistributedDataParallel(model(nn)), ROWS), dist.barrier))
    net = model(nn)
    for m in net:
        if list(m.parameters()):
            sharded.fully_shard(m, mesh=mesh)
    say("FSDP", least(trained(sharded.fully_shard(net, mesh=mesh), ROWS), dist.barrier))
    net = model(nn)
    parallel.parallelize_module(net, mesh, {str(2 * i): parallel.ColwiseParallel(output_layouts=Shard(-1)) if i % 2 == 0 else parallel.RowwiseParallel()
                                            for i in range(DEPTH)})
    say("TP", least(trained(net, ROWS), dist.barrier))
    layers = list(model(nn))
    part = nn.Sequential(*layers[2 * DEPTH * rank // size:2 * DEPTH * (rank + 1) // size])
    stage = pipelining.PipelineStage(part, rank, size, torch.device("cpu"))
    x, y = torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH)
    for kind in ("GPipe", "1F1B"):
        schedule = getattr(pipelining, "Schedule" + kind)(stage, MICRO, loss_fn=F.mse_loss)
        say(kind, least(lambda: schedule.step(*([x] if rank == 0 else []), **({"target": y} if rank == size - 1 else {})), dist.barrier))
    dist.destroy_process_group()


def launched(size):
    done = subprocess.run([sys.executable, "-m", "rushlight.distributed.run", "--standalone", "--nproc-per-node", str(size), __file__, "rank"], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}, timeout=300, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return {name: float(seconds) for name, seconds in (line.split() for line in done.stdout.splitlines())}


def said(case, n, one, net, wire, crowd):
    """Seconds of a step on n processes of this machine, of which `crowd` share a processor: computing and copying are work for it alike."""
    local = Cluster(net, net, per=n)
    weights, out = 4 * WIDTH * (WIDTH + 1), 4 * ROWS * WIDTH

    def layers(parts=1, rows=ROWS):
        forward, both = one[f"forward{rows}"], one[f"step{rows}"]
        return [Layer(forward / parts * crowd, (both - forward) / parts * crowd, weights, out)] * DEPTH
    reduce = lambda s: all_reduce(local, n, s, "ring")  # noqa: E731
    if case == "DDP":
        return sum(x.forward + x.backward for x in layers()) + (sum(reduce(s) for _, s in buckets(layers())) if n > 1 else 0)  # no processor is left beside
    if case == "FSDP":
        return fsdp(layers(), lambda s: gather(local, n, s, "ring"), lambda s: gather(local, n, s, "ring"), 0)
    if case == "TP":
        return tensor(layers(n), reduce, 0.5)
    forward = one[f"forward{ROWS // MICRO}"] * DEPTH / n
    backward = one[f"step{ROWS // MICRO}"] * DEPTH / n - forward
    return pipeline(case, n, 1, MICRO, forward, backward, wire.latency + out / MICRO * wire.byte, len(os.sched_getaffinity(0)))


def fitted(little, much, bytes):
    """A net from the times of a message without much in it, and of one with so many bytes."""
    return Net(max(little, 1e-6), max(much - little, 1e-7) / bytes)


def about(net):
    return f"{net.latency * 1e6:.0f} us + bytes / {1e-9 / net.byte:.2f} GB/s"


def check(sizes):
    cores = len(os.sched_getaffinity(0))
    one = launched(1)
    two = launched(2)
    net = fitted(two["all_reduce256"] / 2, two["all_reduce%d" % (1 << 20)] / 2, 1 << 19)  # of two messages of half the bytes
    wire = fitted(two["exchange256"], two["exchange%d" % (1 << 20)], 1 << 20)
    print(f"{cores} processors; a message of a collective: {about(net)}; from one to another: {about(wire)}; a layer: forward {one['forward%d' % ROWS] * 1e6:.0f} us, "
          f"both {one['step%d' % ROWS] * 1e6:.0f} us\n\n| processes | step | predicted ms | measured ms | ratio |\n| ---: | --- | ---: | ---: | ---: |")
    for n in sizes:
        found = one if n == 1 else two if n == 2 else launched(n)
        crowd = max(1.0, n / cores)
        slow, far = (Net(x.latency * crowd, x.byte * crowd) for x in (net, wire))
        for s in (1 << 20, 4 << 20) if n > 1 else ():
            row(n, f"all_reduce of {s >> 20} MiB", ring_all_reduce(slow, n, s), found[f"all_reduce{s}"])
        for case in CASES if n > 1 else ["DDP"]:
            row(n, case, said(case, n, one, slow, far, crowd), found[case])


def row(n, name, predicted, measured):
    print(f"| {n} | {name} | {predicted * 1e3:.2f} | {measured * 1e3:.2f} | {measured / predicted:.2f} |", flush=True)


# ---- machines that nobody has here

GPU = 400e12  # operations per second that a product really gets, of one process
POD = Cluster(Net(3e-6, 1 / 300e9), Net(6e-6, 1 / 45e9), per=8)
SIZES = {"124 M": (12, 768, 1024), "7 B": (32, 4096, 4096), "175 B": (96, 12288, 2048), "1 T": (128, 25600, 2048)}


def transformer(name, rows, parts=1):
    """Layers of a GPT on `rows` sequences: 12 width^2 parameters each, 2 operations per parameter and token forward and 4 backward, attention beside."""
    depth, width, length = SIZES[name]
    forward = rows * length * (24 * width * width + 4 * length * width) / GPU / parts
    return [Layer(forward, 2 * forward, 2 * 12 * width * width // parts, 2 * rows * length * width)] * depth


def line(ranks, what, ideal, seconds):
    print(f"| {ranks:,} | {what} | {ideal * 1e3:,.1f} | {seconds * 1e3:,.1f} | {100 * ideal / seconds:.0f} % |")


def head(text, what):
    print(f"\n{text}\n\n| processes | {what} | computing alone, ms | a step, ms | efficiency |\n| ---: | --- | ---: | ---: | ---: |")


def predict():
    for ranks in (1000, 100000):
        head(f"Data parallel, 124 M parameters, 8 sequences each, {ranks:,} processes.", "all_reduce")
        x = transformer("124 M", 8)
        ideal = sum(a.forward + a.backward for a in x)
        for way in ("ring", "tree", "machines"):
            line(ranks, way, ideal, ddp(x, lambda s: all_reduce(POD, ranks, s, way)))
        head(f"Sharded, 7 B parameters, 2 sequences each, {ranks:,} processes.", "gathered")
        x = transformer("7 B", 2)
        ideal = sum(a.forward + a.backward for a in x)
        for way in ("ring", "tree", "machines"):
            for ahead in (0, 1):
                g = lambda s: gather(POD, ranks, s, way)  # noqa: E731
                line(ranks, f"{way}, {ahead} ahead", ideal, fsdp(x, g, g, ahead))
        g = lambda s: gather(POD, 8, s, "ring")  # noqa: E731
        copies = lambda s: g(s) + all_reduce(Cluster(POD.between, POD.between, 1), ranks // 8, s / 8, "tree")  # noqa: E731
        line(ranks, "within a machine, copies between them, 1 ahead", ideal, fsdp(x, g, copies, 1))
        for name, pipe, micro in (("175 B", 5 if ranks == 1000 else 10, 40), ("1 T", 25, 100)):
            copies_of = ranks // 8 // pipe
            head(f"{name} parameters: tensor parallel by 8, pipeline of {pipe}, {copies_of:,} copies, {micro} microbatches of one sequence.", "schedule")
            x = transformer(name, 1, parts=8)
            depth = len(x) / pipe
            reduce = lambda s: all_reduce(POD, 8, s, "ring")  # noqa: E731
            forward, backward = (depth * (t + 2 * reduce(x[0].out)) for t in (x[0].forward, x[0].backward))
            message = POD.between.latency + x[0].out / 8 * POD.between.byte
            last = all_reduce(Cluster(POD.between, POD.between, 1), copies_of, depth * x[0].weights, "tree")
            ideal = micro * depth * (x[0].forward + x[0].backward)
            for kind, loops in (("GPipe", 1), ("1F1B", 1), ("Interleaved1F1B", 2), ("Interleaved1F1B", 4)):
                line(ranks, f"{kind}{f', {loops} stages each' if loops > 1 else ''}", ideal,
                     pipeline(kind, pipe, loops, micro, forward / loops, backward / loops, message) + last)


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    sizes = sys.argv[sys.argv.index("--sizes") + 1] if "--sizes" in sys.argv else "1,2,4,8"
    if what == "check":
        check([int(n) for n in sizes.split(",")])
    elif what in ("predict", "rank"):
        predict() if what == "predict" else rank_main()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
