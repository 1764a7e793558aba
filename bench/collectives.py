#!/usr/bin/env python3
"""Collectives beside PyTorch's gloo: bench/collectives.py ORACLE [--ranks 2,4] [--rounds 5] [--only NAME]

For each number of ranks there are two jobs, one of each library, which stay; a call is measured in the one and in the other by turns, and of each
the smallest time counts: that of the slowest rank, per call. ORACLE is a Python that has PyTorch. Printed: microseconds of both and PyTorch's
divided by ours, then the least and the mean (geometric) of these ratios.
"""
import argparse
import math
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = [1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25, 1 << 28]  # bytes of the larger side
NAMES = ["all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "barrier"]


# ---- a rank: it reads "name bytes calls" and says how many seconds the calls took

def call_of(d, T, name, n, rank, size, memory):
    """The call as a function; its tensors are parts of two that stay."""
    whole, other = memory(n), memory(n, 1)
    part = whole[:n // size]
    parts = list(other[:n // size * size].chunk(size))
    return {"all_reduce": lambda: d.all_reduce(whole), "broadcast": lambda: d.broadcast(whole, 0), "reduce": lambda: d.reduce(whole, 0),
            "all_gather": lambda: d.all_gather_into_tensor(other[:n // size * size], part),
            "gather": lambda: d.gather(part, parts if rank == 0 else None), "scatter": lambda: d.scatter(part, parts if rank == 0 else None),
            "reduce_scatter": lambda: d.reduce_scatter_tensor(part, other[:n // size * size]),
            "all_to_all": lambda: d.all_to_all_single(whole[:n // size * size], other[:n // size * size]), "barrier": d.barrier}[name]


def rank_main(library, url, rank, size):
    if library == "torch":
        import torch as T
        import torch.distributed as d
    else:
        sys.path.insert(0, str(ROOT / "python"))
        import rushlight as T
        import rushlight.distributed as d
    d.init_process_group("gloo", init_method=url, rank=rank, world_size=size)
    kept = {}

    def memory(n, which=0):
        if which not in kept or kept[which].numel() < n:
            kept[which] = T.zeros(n)
        return kept[which][:n]
    for line in sys.stdin:
        name, n, calls = line.split()
        call = call_of(d, T, name, max(int(n) // 4, size), rank, size, memory)
        call()
        d.barrier()
        began = time.perf_counter()
        for _ in range(int(calls)):
            call()
        print((time.perf_counter() - began) / int(calls), flush=True)


# ---- the jobs

class Job:
    def __init__(self, python, library, size):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            url = f"tcp://127.0.0.1:{s.getsockname()[1]}"
        self.ranks = [subprocess.Popen([python, __file__, "rank", library, url, str(r), str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "OMP_NUM_THREADS": "1"}) for r in range(size)]

    def seconds(self, name, n, calls):
        for p in self.ranks:
            p.stdin.write(f"{name} {n} {calls}\n")
            p.stdin.flush()
        return max(float(p.stdout.readline()) for p in self.ranks)

    def end(self):
        for p in self.ranks:
            p.stdin.close()
        for p in self.ranks:
            p.wait(60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("oracle")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=int, default=SIZES[-1])
    options = parser.parse_args()
    ratios = []
    print("ranks  call             bytes     rushlight us    pytorch us   ratio")
    for size in map(int, options.ranks.split(",")):
        jobs = [Job(sys.executable, "rushlight", size), Job(options.oracle, "torch", size)]
        for name in NAMES:
            if options.only not in name:
                continue
            for n in [0] if name == "barrier" else [s for s in SIZES if s <= options.most]:
                calls = max(1, min(200, (1 << 24) // max(n, 1 << 14)))
                best = [math.inf, math.inf]
                for _ in range(options.rounds):
                    for i, job in enumerate(jobs):
                        best[i] = min(best[i], job.seconds(name, n, calls))
                ratios.append((best[1] / best[0], name, n, size))
                print(f"{size:5d}  {name:14s} {n:10d}  {best[0] * 1e6:12.1f}  {best[1] * 1e6:12.1f}  {best[1] / best[0]:6.2f}", flush=True)
        for job in jobs:
            job.end()
    least = min(ratios)
    mean = math.exp(sum(math.log(r[0]) for r in ratios) / len(ratios))
    print(f"{len(ratios)} rows: least {least[0]:.2f} ({least[1]}, {least[2]} bytes, {least[3]} ranks), mean {mean:.2f}, "
          f"{sum(r[0] < 1 for r in ratios)} below 1")


if __name__ == "__main__":
    rank_main(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])) if sys.argv[1:2] == ["rank"] else main()
