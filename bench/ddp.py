#!/usr/bin/env python3
"""What DistributedDataParallel adds to a training step, under PyTorch and under rushlight in turn.

    bench/ddp.py ORACLE [--ranks 2] [--rounds 5]

ORACLE is a Python with PyTorch. Each round starts the ranks of one library, then those of the other; a rank times steps (forward, backward, SGD) of the
plain model and of the wrapped one by turns. Of each the fastest step of the slowest rank in all rounds counts; the overhead is the difference.
"""
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def nets(nn):
    """name: (model, shape of a batch)"""
    deep = [m for _ in range(50) for m in (nn.Linear(32, 32), nn.ReLU())]
    return {"small MLP, 6 parameters": (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)), (16, 64)),
            "deep MLP, 100 parameters": (nn.Sequential(*deep), (16, 32)),
            "CNN": (nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 11 * 11, 10)),
                    (16, 1, 28, 28)),
            "wide MLP, 4.2 M numbers": (nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024)), (32, 1024))}


def rank_main(library, url, rank, size):
    if library == "torch":
        import torch
        import torch.distributed as dist
    else:
        import rushlight as torch
        import rushlight.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size)

    def step_of(net, shape, parameters):
        x, optimizer = torch.randn(shape), torch.optim.SGD(parameters, lr=1e-4)

        def step():
            net(x).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        return step
    for name, (net, shape) in nets(torch.nn).items():
        both = [step_of(net, shape, net.parameters())]
        wrapped = torch.nn.parallel.DistributedDataParallel(net)
        ends, best = time.perf_counter() + 1.5, [1e9, 1e9]
        both.append(step_of(wrapped, shape, net.parameters()))
        both[0](), both[1](), both[1]()
        on = torch.ones(1)
        while on.item():
            for which, step in enumerate(both):
                dist.barrier()
                begin = time.perf_counter()
                for _ in range(10):
                    step()
                took = torch.tensor([(time.perf_counter() - begin) / 10])
                dist.all_reduce(took, dist.ReduceOp.MAX)
                best[which] = min(best[which], took.item())
            on = torch.tensor([float(time.perf_counter() < ends)])
            dist.broadcast(on, 0)
        if rank == 0:
            print(name, best[0], best[1], sep="\t", flush=True)
    dist.destroy_process_group()


def run(python, library, size):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{s.getsockname()[1]}"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "" if library == "torch" else str(ROOT / "python")}
    ranks = [subprocess.Popen([python, __file__, "rank", library, url, str(r), str(size)], stdout=subprocess.PIPE, text=True, env=env) for r in range(size)]
    out = [p.communicate(timeout=300)[0] for p in ranks]
    if any(p.returncode for p in ranks) and not (library == "torch" and out[0]):  # ranks of PyTorch sometimes abort at their end, after all rows
        raise SystemExit(f"ranks of {library} failed")
    return {name: (float(alone), float(wrapped)) for name, alone, wrapped in (line.split("\t") for line in out[0].splitlines())}


def main():
    if sys.argv[1:2] == ["rank"]:
        return rank_main(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    oracle, rest = sys.argv[1], sys.argv[2:]
    size, rounds = (int(rest[rest.index(name) + 1]) if name in rest else default for name, default in (("--ranks", 2), ("--rounds", 5)))
    best = {}
    for _ in range(rounds):
        for library, python in (("torch", oracle), ("rushlight", sys.executable)):
            for name, times in run(python, library, size).items():
                before = best.setdefault(name, {}).get(library, times)
                best[name][library] = tuple(map(min, before, times))
    print(f"{size} ranks, microseconds a step\n\n| model | PyTorch alone | wrapped | overhead | rushlight alone | wrapped | overhead | ratio |\n"
          "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, found in best.items():
        (a, b), (c, d) = ((1e6 * t for t in found[library]) for library in ("torch", "rushlight"))
        print(f"| {name} | {a:.0f} | {b:.0f} | {b - a:.0f} | {c:.0f} | {d:.0f} | {d - c:.0f} | {(b - a) / (d - c):.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
