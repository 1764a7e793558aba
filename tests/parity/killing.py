#!/usr/bin/env python3
"""Ranks that die: tests/parity/killing.py [--rounds N] [--size N] [--points TEXT] [--jobs N]

A job for each point and round: one of its ranks is killed, and in a second job stopped, there. The others must end by themselves, with an exit code
that is not 0 and an error that names the rank and its host, and of a collective the number, the operation and the shapes. Nothing may be left: no
process, no listener at the port of the store, no shared memory, no file outside of the checkpoint. A checkpoint whose save did not end does not
load; where it was saved over an older one, that one loads. Printed: jobs, hangs (somebody has not ended in 60 s), all that is wrong, and how long
after the death the last survivor ended.
"""
import argparse
import atexit
import concurrent.futures
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = os.environ.get("PYTHONPATH") or str(ROOT / "python")
CALLS = ["all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all", "barrier", "monitored_barrier", "message",
         "object", "ddp", "fsdp", "new_group"]
POINTS = ["init-before", "init-in", "init-after"] + [f"{call}-{when}" for call in CALLS for when in ("before", "in", "after")] + \
         ["save-before", "save-in", "save-written", "save-after", "end-before"]
SMOKE = [("all_reduce-in", "SIGKILL", 1), ("new_group-in", "SIGKILL", 0), ("save-written", "SIGKILL", 1), ("broadcast-in", "SIGSTOP", 2)]
HANG, LOADING = 60, threading.Lock()
INIT = 4  # seconds that in init the others wait for a rank that they know nothing of
forked = False
# "all_reduce.SUM, float32, 4 numbers [4] (collective 5) of group '0', rank 0 of 3 on host a: rank 1 on host a is gone: ..."
IN_A_CALL = re.compile(r"\w+(?:, \w+)?.*\((?:after )?collective -?\d+\) of group '.*', rank \d+ of \d+ on host \S+: .*[Rr]ank \d+ on host \S+")
WHILE_MEETING = re.compile(r"[Rr]ank \d+ on host \S+|for rank \d|clients joined|the store at|\(127\.0\.0\.1, \d+\)")


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
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=INIT if call == "init" else 50))
    at("init", "after")
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
        "fsdp": lambda: fsdp(torch.ones(8, 64)).sum().backward(), "new_group": dist.new_group,
        "save": lambda: None, "init": lambda: None, "end": lambda: None}
    things[call]()  # once before, all of them

    def state(value):
        return {"w": torch.full((64, 64), value), "mine%d" % rank: torch.full((1000,), value)}
    if call == "save" and int(seed) % 2:
        dcp.save(state(1.), checkpoint_id=folder)
        dist.barrier()
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
        dcp.save(state(2.), checkpoint_id=folder)
    elif when == "in" and call != "init":
        if victim:
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


def loaded(folder, size):
    """The value that all tensors of a checkpoint have; None when it does not load."""
    import rushlight as torch
    import rushlight.distributed.checkpoint as dcp
    state = {"w": torch.zeros(64, 64), **{f"mine{r}": torch.zeros(1000) for r in range(size)}}
    try:
        with LOADING:
            dcp.load(state, checkpoint_id=folder)
    except dcp.CheckpointException as e:
        return None if "metadata" in str(e) else e
    except (FileNotFoundError, ValueError) as e:
        return None if "metadata" in str(e) or "checkpoint" in str(e) else e
    values = {v for t in state.values() for v in t.unique().tolist()}
    return values.pop() if len(values) == 1 else values


def processes_of(url, pids):
    """The processes of a job: those that have its address among their arguments, and children of its ranks."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if url.encode() in (folder / "cmdline").read_bytes() or int((folder / "stat").read_text().rpartition(")")[2].split()[1]) in pids:
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def shared_memory(pids):
    """The named segments of a job's processes."""
    return {name for name in os.listdir("/dev/shm") if "rushlight" in name or {str(pid) for pid in pids} & set(re.findall("[0-9]+", name))}


def left_behind(url, pids, temporary, before):
    """What is there though all processes of the job have ended; `before`: the segments of other processes, which had the same numbers."""
    left = [f"process {pid}" for pid in processes_of(url, pids)] + [f"file {name}" for name in os.listdir(temporary)]
    left += [f"shared memory {name}" for name in shared_memory(pids) - before]
    with socket.socket() as s:
        s.settimeout(2)
        if not s.connect_ex(("127.0.0.1", int(url.rpartition(":")[2]))):
            left.append("a listener at " + url)
    return left


def complaint(point, code, errors):
    """What is wrong with the way in which a survivor ended; ""."""
    found = re.findall(r"^\S*(?:Error|Exception)\S*: .*", errors, re.M)
    if code == 0 or not found:
        return f"ended with {code}: {errors[-300:]}"
    meeting = point.startswith(("init", "new_group"))  # "init-after", too: the others may still be in it
    if not IN_A_CALL.search(found[-1]) and not (meeting and WHILE_MEETING.search(found[-1])):
        return "says " + found[-1][:300]
    return ""


class Forked:
    """A rank as a child of this process, which has imported everything: as much of subprocess.Popen as is used here."""

    def __init__(self, arguments, temporary):
        self.returncode, pipes = None, [os.pipe(), os.pipe()]
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._rank(arguments, temporary, pipes)
        for _, write in pipes:
            os.close(write)
        self.stdout, self.stderr = (os.fdopen(read) for read, _ in pipes)

    @staticmethod
    def _rank(arguments, temporary, pipes):
        code = 0
        for (_, write), fd in zip(pipes, (1, 2)):
            os.dup2(write, fd)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ["TMPDIR"], sys.argv = temporary, [__file__, "rank", *arguments]
        try:
            rank_main()
        except BaseException:
            traceback.print_exc()
            code = 1
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).exit(code)  # and what the library does at the end of a process

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout=HANG):
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("a rank", timeout)
            time.sleep(0.005)

    def communicate(self, timeout):
        self.wait(timeout)  # errors are short: they fit into the pipe
        return self.stdout.read(), self.stderr.read()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


def prepare():
    """In a process that forks ranks."""
    global forked
    forked = True
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.path.insert(0, PACKAGE)
    import rushlight.distributed.checkpoint  # noqa: F401
    import rushlight.distributed.fsdp  # noqa: F401


def started(point, how, seed, size, url, checkpoint, temporary):
    if forked:
        return [Forked([point, how, str(seed), checkpoint, url, str(r), str(size)], temporary) for r in range(size)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PACKAGE, "TMPDIR": temporary}
    return [subprocess.Popen([sys.executable, __file__, "rank", point, how, str(seed), checkpoint, url, str(r), str(size)], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=env) for r in range(size)]


def job(point, how, seed, size):
    """(seconds from the death to the last survivor's end, [what is wrong])"""
    folder = tempfile.mkdtemp()
    checkpoint, temporary = os.path.join(folder, "checkpoint"), os.path.join(folder, "temporary")
    os.mkdir(temporary)
    url, victim, wrong = f"tcp://127.0.0.1:{port()}", seed % size, []
    before = set(os.listdir("/dev/shm"))
    ranks = started(point, how, seed, size, url, checkpoint, temporary)
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
                wrong.append(f"rank {r} hangs")
                continue
            wrong += [f"rank {r} {text}" for text in [complaint(point, p.returncode, errors)] if text]
        took = time.monotonic() - died
        ranks[victim].kill()
        ranks[victim].wait()
        wrong += ["left: " + text for text in left_behind(url, [p.pid for p in ranks], temporary, before)]
        if point.startswith("save"):
            value, old = loaded(checkpoint, size), 1.0 if seed % 2 else None
            if value not in ([2.0] if point == "save-after" else [old]):
                wrong.append(f"the checkpoint loads as {value}")
        return took, [f"{point} {how} {seed}: {text}" for text in wrong]
    finally:
        for p in ranks:
            if p.poll() is None:
                p.kill()
            p.wait()
            p.stdout.close()
            p.stderr.close()
        shutil.rmtree(folder)


def job_in_time(plan, size, until):
    return job(*plan, size) if time.monotonic() < until else (None, [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--points", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--smoke", action="store_true", help="four jobs side by side")
    parser.add_argument("--forked", action="store_true", help="ranks are forked from processes that have imported rushlight: less work for many jobs")
    options = parser.parse_args()
    sys.path.insert(0, PACKAGE)
    begun, plans = time.monotonic(), [(p, how, 11 * n + i) for n in range(options.rounds) for i, p in enumerate(POINTS) if options.points in p
                                      for how in ("SIGKILL", "SIGSTOP")]
    if options.smoke:
        plans, options.jobs = SMOKE, len(SMOKE)
    times, wrong, done = {"SIGKILL": [], "SIGSTOP": []}, [], 0
    pool = concurrent.futures.ProcessPoolExecutor(options.jobs, initializer=prepare) if options.forked else concurrent.futures.ThreadPoolExecutor(options.jobs)
    with pool:
        for (point, how, seed), (took, bad) in zip(plans, pool.map(job_in_time, plans, [options.size] * len(plans), [begun + options.seconds] * len(plans))):
            if took is None:
                continue
            done += 1
            wrong += bad
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
