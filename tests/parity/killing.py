#!/usr/bin/env python3
"""Ranks that die: tests/parity/killing.py [--rounds N] [--size N] [--points TEXT] [--jobs N]

A job for each point and round: one of its ranks is killed or stopped there, by turns. The others must end by themselves, with an error that names
a rank, and an exit code that is not 0. Printed: jobs, hangs (nobody ended in 60 s), survivors without such an error, how long after the death the
last survivor ended, and checkpoints that load although their save did not end.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CALLS = ["all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "barrier", "monitored_barrier", "message",
         "object", "ddp", "fsdp"]
POINTS = ["init-before", "init-in", "init-after"] + [f"{call}-{when}" for call in CALLS for when in ("before", "in", "after")] + \
         ["save-before", "save-in", "save-written", "save-after", "end-before"]
HANG = 60


# ---- a rank

def rank_main():
    import datetime
    import threading

    import rushlight as torch
    import rushlight.distributed as dist
    import rushlight.distributed.checkpoint as dcp
    point, how, seed, folder, url, rank, size = sys.argv[2:9]
    rank, size, call, when = int(rank), int(size), *point.rsplit("-", 1)
    victim = int(seed) % size == rank

    def die():
        print("dies", flush=True)
        os.kill(os.getpid(), getattr(signal, how))

    def at(name, moment):
        if victim and (name, moment) == (call, when):
            die()

    def soon():
        threading.Timer(0.002 * (int(seed) % 7), die).start()

    big, n = torch.ones(1 << 20), 1 << 20
    at("init", "before")
    if victim and point == "init-in":
        soon()
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=4 if call == "init" else 50))
    at("init", "after")
    net = torch.nn.Linear(64, 64)
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 64)))
    fsdp = dist.fsdp.fully_shard(torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 64)))
    parts = [torch.empty(n) for _ in range(size)]
    nobody = None
    things = {
        "all_reduce": lambda: dist.all_reduce(big), "broadcast": lambda: dist.broadcast(big, 0), "reduce": lambda: dist.reduce(big, 0),
        "all_gather": lambda: dist.all_gather(parts, big), "gather": lambda: dist.gather(big, parts if rank == 0 else nobody),
        "scatter": lambda: dist.scatter(big, [big.clone() for _ in range(size)] if rank == 0 else nobody),
        "reduce_scatter": lambda: dist.reduce_scatter(big, [big.clone() for _ in range(size)]), "all_to_all": lambda: dist.all_to_all(parts, [big] * size),
        "barrier": dist.barrier, "monitored_barrier": dist.monitored_barrier,
        "message": lambda: [w.wait() for w in (dist.isend(big, (rank + 1) % size), dist.irecv(parts[0], (rank - 1) % size))],
        "object": lambda: dist.all_gather_object([None] * size, "x" * 100000), "ddp": lambda: ddp(torch.ones(8, 64)).sum().backward(),
        "fsdp": lambda: fsdp(torch.ones(8, 64)).sum().backward(), "save": lambda: None, "init": lambda: None, "end": lambda: None}
    things[call]()  # once before, all of them
    at(call, "before")
    if call == "save":
        write = dcp.FileSystemWriter._write_file

        def slow(self, name, items, planner):
            if victim and when == "in":
                soon()
                time.sleep(1)
            results = write(self, name, items, planner)
            at("save", "written")
            return results
        dcp.FileSystemWriter._write_file = slow
        dcp.save({"w": net.weight, "mine%d" % rank: torch.ones(1000)}, checkpoint_id=folder)
    elif victim and when == "in":
        soon()
        while True:
            things[call]()
    else:
        things[call]()
    at(call, "after")
    while True:  # survivors go on until they are told
        things["all_reduce"]()


# ---- the jobs

def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def whole(folder):
    """Does the folder say that it is a checkpoint?"""
    return os.path.exists(os.path.join(folder, ".metadata"))


def job(point, how, seed, size):
    """(seconds from the death to the last survivor's end, [what is wrong])"""
    folder = tempfile.mkdtemp()
    url, victim, wrong = f"tcp://127.0.0.1:{port()}", seed % size, []
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "python")}
    ranks = [subprocess.Popen([sys.executable, __file__, "rank", point, how, str(seed), folder, url, str(r), str(size)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env) for r in range(size)]
    try:
        if ranks[victim].stdout.readline().strip() != "dies":
            return 0.0, [f"{point} {how} {seed}: the victim did not come to its point: {ranks[victim].stderr.read()[-300:]}"]
        died = time.monotonic()
        for r, p in enumerate(ranks):
            if r == victim:
                continue
            try:
                errors = p.communicate(timeout=HANG)[1]
            except subprocess.TimeoutExpired:
                wrong.append(f"{point} {how} {seed}: rank {r} hangs")
                continue
            found = re.findall(r"^\S*(?:Error|Exception)\S*.*", errors, re.M)
            if p.returncode == 0 or not found or not re.search(r"rank|clients joined|store|server|127\.0\.0\.1|came", errors[errors.rindex(found[-1]):]):
                wrong.append(f"{point} {how} {seed}: rank {r} ended with {p.returncode}: {errors[-300:]}")
        took = time.monotonic() - died
        if point in ("save-before", "save-in", "save-written") and whole(folder):
            wrong.append(f"{point} {how} {seed}: half a checkpoint counts as whole")
        return took, wrong
    finally:
        for p in ranks:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--points", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    begun, plans = time.monotonic(), [(p, how, 7 * n + i) for n in range(options.rounds) for i, p in enumerate(POINTS) if options.points in p
                                      for how in ("SIGKILL", "SIGSTOP")]
    times, wrong, done = {"SIGKILL": [], "SIGSTOP": []}, [], 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        for (point, how, seed), (took, bad) in zip(plans, threads.map(
                lambda plan: job(*plan, options.size) if time.monotonic() - begun < options.seconds else (None, []), plans)):
            if took is None:
                continue
            done += 1
            wrong += bad
            if not point.startswith("init"):  # those wait for ranks that never came, up to the timeout
                times[how].append((took, point))
            for text in bad:
                print(text, flush=True)
    for how, values in times.items():
        if values:
            late = [v for v in values if v[0] > 5]
            print(f"{how}: {len(values)} jobs, the last survivor ended after {sorted(values)[len(values) // 2][0]:.2f} s in the median, "
                  f"{max(values)[0]:.2f} s at most ({max(values)[1]}); {len(late)} later than 5 s")
    print(f"{done} jobs, {sum('hangs' in w for w in wrong)} hangs, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(rank_main() if sys.argv[1:2] == ["rank"] else main())
