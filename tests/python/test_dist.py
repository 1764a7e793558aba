"""torch.distributed: ranks are processes of their own, and no test waits for one longer than its limit."""
import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import rushlight as torch
import rushlight.distributed as dist

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 120


def port():
    """A free one, below those that the system gives to connections: none of them takes it before the job does."""
    for number in random.SystemRandom().sample(range(15000, 32000), 100):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", number))
            return number
    raise OSError("a hundred ports are taken")


class Ranks:
    """A job: `size` processes of a program, or of the text of one."""

    def __init__(self, size, program, *args, url=None, env=()):
        url = url or f"tcp://127.0.0.1:{port()}"
        start = [program] if program.endswith(".py") else ["-c", HEAD + program]
        self.processes = [subprocess.Popen([sys.executable, *start, *args, url, str(r), str(size)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **dict(env)}) for r in range(size)]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for p in self.processes:
            if p.poll() is None:
                p.kill()
            p.stdout.close()
            p.stderr.close()
            p.wait()

    def line(self, rank):
        """The next line that a rank prints."""
        return self.processes[rank].stdout.readline().strip()

    def ends(self, limit=LIMIT):
        """[(exit code, output, errors)] of all."""
        end = time.monotonic() + limit
        return [(*(p.communicate(timeout=max(0.1, end - time.monotonic()))), p.returncode) for p in self.processes]

    def outputs(self):
        done = self.ends()
        assert all(code == 0 for _, _, code in done), "\n".join(e[-2000:] for _, e, _ in done)
        return [out for out, _, _ in done]


HEAD = """
import datetime, os, sys, time
import rushlight as torch
import rushlight.distributed as dist
url, rank, size = sys.argv[-3], int(sys.argv[-2]), int(sys.argv[-1])
def init(seconds=60):
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size, timeout=datetime.timedelta(seconds=seconds))
"""


def expected(size):
    want = {}
    with open(os.path.join(HERE, "dist.tsv")) as file:
        for line in file:
            n, rank, case, values = line.rstrip("\n").split("\t")
            if int(n) == size:
                want.setdefault(int(rank), {})[case] = values
    return want


@pytest.mark.parametrize("size", [2, 3])
def test_every_collective_as_pytorch(size):
    with Ranks(size, os.path.join(HERE, "dist_cases.py"), "rushlight") as job:
        outputs = job.outputs()
    want = expected(size)
    assert sorted(want) == list(range(size))
    for rank, out in enumerate(outputs):
        got = dict(line.split("\t", 1) for line in out.splitlines())
        assert {k: v for k, v in got.items() if v != want[rank].get(k)} == {} and set(got) == set(want[rank])


def test_results_over_what_is_still_to_be_sent():
    """A result may be a tensor of the list that it is made from (PyTorch sends what it has overwritten)."""
    program = """
init()
def fresh():
    return [torch.arange(3.) + 10 * rank + 100 * i for i in range(size)]
a, b = fresh(), fresh()
dist.reduce_scatter(a[(rank + 1) % size], a)
dist.scatter(b[1], b if rank == 0 else None)
print(a[(rank + 1) % size].tolist(), b[1].tolist())
"""
    with Ranks(2, program) as job:
        assert job.outputs() == ["[10.0, 12.0, 14.0] [0.0, 1.0, 2.0]\n", "[210.0, 212.0, 214.0] [100.0, 101.0, 102.0]\n"]


def test_every_collective_by_mpi(tmp_path):
    """With any MPI of the standard's binary interface; the PyPI package mpich has one, and mpiexec."""
    if not dist.is_mpi_available() or not shutil.which("mpiexec"):
        pytest.skip("no mpiexec, or no library of the MPI ABI (libmpi_abi.so.1, or RUSHLIGHT_MPI)")
    done = subprocess.run(["mpiexec", "-n", "3", sys.executable, os.path.join(HERE, "dist_cases.py"), "rushlight", "mpi", "0", "0"], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "ANSWERS": str(tmp_path)}, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    for rank, want in expected(3).items():
        got = dict(line.split("\t", 1) for line in (tmp_path / str(rank)).read_text().splitlines())
        want["empty"] = want["empty"].replace("gloo", "mpi")
        assert got == want


@pytest.mark.parametrize("method", ["env", "file"])
def test_ways_to_meet(method, tmp_path):
    at = str(port())
    program = """
if url == "env":
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="localhost")
    dist.init_process_group()
else:
    init()
t = torch.ones(2); dist.all_reduce(t); print(t.tolist(), dist.get_backend())
dist.destroy_process_group(); print(dist.is_initialized())
"""
    with Ranks(2, program, url="env" if method == "env" else f"file://{tmp_path}/meet", env={"MASTER_PORT": at}) as job:
        outs = job.outputs()
    assert outs == ["[2.0, 2.0] %s\nFalse\n" % ("undefined" if method == "env" else "gloo")] * 2


@contextlib.contextmanager
def slow_way(to):
    """A port whose connections go on to another one, each piece a tenth of a second late."""
    def pump(a, b):
        with contextlib.suppress(OSError):  # a side has gone: so does the other
            while data := a.recv(65536):
                time.sleep(0.1)
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)

    def connected():
        for _ in range(200):
            with contextlib.suppress(OSError):  # nobody listens yet
                return socket.create_connection(("127.0.0.1", to))
            time.sleep(0.05)

    def accept():
        with contextlib.suppress(OSError):  # the test is over
            while True:
                a, b = listener.accept()[0], connected()
                for pair in (a, b), (b, a):
                    threading.Thread(target=pump, args=pair, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("size", (1, 2))
def test_on_one_machine_libgloo_is_not_needed(size):
    """Not by a group of one, either."""
    program = """
init()
n = dist.get_world_size()
x, part = torch.ones(3), torch.empty(3)
dist.all_reduce(x)
dist.scatter(part, [x * i for i in range(n)] if rank == 0 else None)
parts = [torch.empty(3) for _ in range(n)] if rank == 0 else None
dist.gather(part, parts)
dist.all_to_all_single(torch.empty(n), torch.ones(n))
print(parts[-1].tolist() == [n * (n - 1.)] * 3 if rank == 0 else True, dist.is_gloo_available())
"""
    with Ranks(size, program, env={"RUSHLIGHT_GLOO": "/nowhere/librushlight_gloo.so"}) as job:
        assert all(out.split() == ["True", "True"] for out in job.outputs())


@pytest.mark.skipif(torch._C._dist_missing("libgloo") is not None, reason="no libgloo in this build (libgloo-dev)")
def test_nobody_leaves_before_all_have_met():
    """Rank 0, which serves the store, ends at once, while rank 2 still reads it."""
    for _ in range(4):
        at = port()
        with slow_way(at) as slow, Ranks(3, """
if rank == 2:
    url = "tcp://127.0.0.1:" + os.environ["SLOW"]
init()
""", url=f"tcp://127.0.0.1:{at}", env={"SLOW": str(slow), "RUSHLIGHT_DIST_SHARED": "0"}) as job:
            job.outputs()


@pytest.mark.parametrize("ends", [False, True])
def test_who_leaves_waits_for_those_who_read(ends):
    """What is still on its way is not lost with the connection; but a rank that is stopped does not keep the others."""
    with Ranks(2, """
init()
t = torch.full((1 << 18,), 1. - rank)
dist.barrier()
print("ready", flush=True)
if rank == 0:
    time.sleep(0.5)
    dist.send(t, 1)
else:
    work = dist.irecv(t, 0)
    work.wait()
    print(t.sum().item())
dist.destroy_process_group()
""") as job:
        assert [job.line(r) for r in range(2)] == ["ready"] * 2
        time.sleep(0.2)
        job.processes[1].send_signal(signal.SIGSTOP)
        if ends:
            time.sleep(2)
            assert job.processes[0].poll() is None
            job.processes[1].send_signal(signal.SIGCONT)
            assert job.outputs() == ["", f"{float(1 << 18)}\n"]
        else:
            assert job.processes[0].wait(20) == 0  # after 4 s on a machine that has time
            job.processes[1].kill()


def errors(job, limit=20):
    """What the ranks raised, of those that ended by an exception."""
    return [re.findall(r"^\S*(?:Error|Interrupt): .*", e, re.M)[-1] if code == 1 else code for _, e, code in job.ends(limit)]


DEATH = """
init()
dist.all_reduce(torch.ones(4))
print("ready", flush=True)
%s
"""


CALLS = {"all_reduce": "dist.all_reduce(torch.ones(2, 3))", "barrier": "dist.barrier()", "recv": "dist.recv(torch.ones(3), src=1)",
         "broadcast": "dist.broadcast(torch.ones(5), src=1)"}


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_death_is_told_within_five_seconds(how):
    """Rank 1 never comes to the call. Its death, or its silence, ends all others with an error that says who it was and in which call.
    The jobs, one per call, wait side by side."""
    with contextlib.ExitStack() as open_jobs:
        jobs = {where: open_jobs.enter_context(Ranks(3, DEATH % f"time.sleep(60) if rank == 1 else {call}")) for where, call in CALLS.items()}
        for job in jobs.values():
            assert [job.line(r) for r in range(3)] == ["ready"] * 3
        time.sleep(0.3)
        began = time.monotonic()
        for job in jobs.values():
            os.kill(job.processes[1].pid, getattr(signal, how))
        for where, job in jobs.items():
            said = [job.processes[r].communicate(timeout=60)[1].splitlines()[-1] for r in (0, 2)]
            assert [job.processes[r].returncode for r in (0, 2)] == [1, 1]
            assert any("rank 1 on host" in s for s in said) and all(where in s for s in said), said
        took = time.monotonic() - began
    assert took < 45, took  # five seconds, and some for a busy machine; without anybody telling, it would be a minute


@pytest.mark.parametrize("calls, words", [
    (("dist.all_reduce(torch.ones(4))", "dist.broadcast(torch.ones(4), 0)"), ("all_reduce", "broadcast")),
    (("dist.all_reduce(torch.ones(4))", "dist.all_reduce(torch.ones(5))"), ("4 numbers", "5 numbers")),
    (("dist.all_reduce(torch.ones(4))", "dist.all_reduce(torch.ones(4, dtype=torch.float64))"), ("float32", "float64")),
    (("dist.broadcast(torch.ones(4), 0)", "dist.broadcast(torch.ones(4), 1)"), ("of rank 0", "of rank 1")),
])
def test_calls_that_do_not_match(calls, words):
    with Ranks(2, "init()\n%s if rank == 0 else %s\ndist.barrier()" % calls) as job:
        said = errors(job)
    assert all(isinstance(s, str) for s in said) and any("do not agree" in s and words[0] in s and words[1] in s for s in said), said


def test_a_rank_that_leaves():
    """One ends normally without the others' call: they are told at once. What it did before counts."""
    with Ranks(3, "init()\nt = torch.ones(1); dist.all_reduce(t); print(t.item(), flush=True)\nif rank != 1: dist.all_reduce(t)") as job:
        done = job.ends()
    assert [d[0] for d in done] == ["3.0\n"] * 3 and [d[2] for d in done] == [1, 0, 1]
    assert any("rank 1 on host" in d[1] and "left the group after its collective 0" in d[1] for d in done)


def test_an_exception_in_one_rank_ends_all():
    with Ranks(3, "init()\ndist.barrier()\nif rank == 2: raise ValueError('mine')\ndist.barrier()") as job:
        assert [d[2] for d in job.ends()] == [1, 1, 1]


def test_interruption_ends_a_wait():
    program = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background ignore it
init()
print('ready', flush=True)
if rank: time.sleep(60)
dist.all_reduce(torch.ones(2))
"""
    with Ranks(2, program) as job:
        assert [job.line(r) for r in range(2)] == ["ready"] * 2
        time.sleep(0.3)
        job.processes[0].send_signal(signal.SIGINT)
        _, err = job.processes[0].communicate(timeout=60)
        assert job.processes[0].returncode != 0 and "KeyboardInterrupt" in err


def test_timeouts_say_who_is_late():
    program = "init(4)\nif rank == 1: time.sleep(60)\ndist.all_reduce(torch.ones(2))"
    with Ranks(2, program) as job:
        _, err = job.processes[0].communicate(timeout=60)
    assert "waited 4.0 s for rank 1" in err and "all_reduce" in err


def test_monitored_barrier_names_the_missing():
    program = "init(60)\nif rank == 1: time.sleep(60)\ndist.monitored_barrier(timeout=datetime.timedelta(seconds=1))"
    with Ranks(3, program) as job:
        _, err = job.processes[0].communicate(timeout=60)
    assert "Rank 1 failed to pass monitoredBarrier in 1000 ms" in err


def test_init_says_who_did_not_come():
    program = """
store = dist.TCPStore("127.0.0.1", 0, 1, True)
try:
    dist.init_process_group("gloo", store=store, rank=0, world_size=3, timeout=datetime.timedelta(seconds=0.5))
except dist.DistBackendError as e:
    print(e)
"""
    with Ranks(1, program) as job:
        assert "waited 0.5 s for rank 1, 2, which did not come" in job.outputs()[0]


def test_mistakes_are_told():
    program = """
init()
def told(f):
    try:
        f()
    except Exception as e:
        print(type(e).__name__, str(e).splitlines()[0])
told(lambda: dist.all_reduce(3))
told(lambda: dist.broadcast(torch.ones(2), 7))
told(lambda: dist.send(torch.ones(2), 0))
told(lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND))
told(lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), dist.ReduceOp.MAX))
told(lambda: dist.gather(torch.ones(2), dst=0))
told(lambda: dist.init_process_group("gloo"))
told(lambda: dist.new_group([0, 5]))
told(lambda: dist.all_gather([torch.ones(3)], torch.ones(2)))
dist.destroy_process_group()
told(lambda: dist.all_reduce(torch.ones(2)))
told(lambda: dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1))
"""
    with Ranks(1, program) as job:
        lines = job.outputs()[0].splitlines()
    assert [line.split()[0] for line in lines] == ["TypeError", "RuntimeError", "ValueError", "RuntimeError", "ValueError", "ValueError", "ValueError",
                                                   "ValueError", "RuntimeError", "ValueError", "ValueError"], lines
    assert "Expected parameter `tensor` of type torch.Tensor" in lines[0] and "invalid root rank: 7" in lines[1]


def test_one_process_plays_a_rank():
    program = """
dist.init_process_group("fake", rank=1, world_size=4, store=dist.HashStore())
parts = [torch.zeros(2) for _ in range(4)]
dist.all_gather(parts, torch.ones(2)); dist.barrier(); dist.all_reduce(parts[0])
print(dist.get_rank(), dist.get_world_size(), dist.get_backend(), torch.stack(parts).sum().item())
"""
    with Ranks(1, program) as job:
        assert job.outputs() == ["1 4 fake 8.0\n"]


def test_who_has_done_its_part_may_leave():
    """A rank that comes late to a collective does not need one that is through with it."""
    program = """
init()
t = torch.full((2,), float(rank))
dist.all_reduce(torch.ones(1))
if rank == 2:
    until = time.monotonic() + 20
    while not os.path.exists(os.environ["GONE"]) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.3)
dist.broadcast(t, 0)
print(t.tolist())
if rank == 1:
    dist.destroy_process_group()
    open(os.environ["GONE"], "w").close()
"""
    import tempfile
    with tempfile.TemporaryDirectory() as folder, Ranks(3, program, env={"GONE": os.path.join(folder, "gone")}) as job:
        assert job.outputs() == ["[0.0, 0.0]\n"] * 3


def test_some_ranks_are_killed():
    """Four jobs of tests/parity/killing.py, side by side: nobody hangs, the errors say who, nothing is left, half a checkpoint does not load."""
    script = os.path.join(HERE, os.pardir, "parity", "killing.py")
    done = subprocess.run([sys.executable, "-W", "ignore", script, "--smoke"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0 and "4 jobs, 0 hangs, 0 wrong" in done.stdout, done.stdout + done.stderr


def test_the_flight_recorder(tmp_path):
    """What a job that fails leaves where it is asked to: the calls of each rank, with shapes, and who had come how far."""
    import json
    program = "init()\ndist.all_reduce(torch.ones(2, 3))\nif rank == 1: os._exit(3)\ndist.broadcast(torch.ones(4), 1)"
    with Ranks(2, program, env={"TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "trace")}) as job:
        assert [d[2] for d in job.ends()] == [1, 3]
    with open(tmp_path / "trace0") as file:
        trace = json.load(file)
    assert [(e["profiling_name"], e["state"], e["output_sizes"], e["output_dtypes"]) for e in trace["entries"]] == [
        ("gloo:all_reduce", "completed", [[2, 3]], ["Float"]), ("gloo:broadcast", "failed", [[4]], ["Float"])]
    assert "rank 1 on host" in trace["error"] and [r["last_begun"] for r in trace["ranks"]] == [1, 0] and os.listdir(tmp_path) == ["trace0"]


def test_processes_of_several_jobs_meet_in_a_group():
    """As trainers send weights to servers of models, neither of which knows the other's default group."""
    program = """
from rushlight.distributed.distributed_c10d import Backend, PrefixStore, _new_process_group_helper, _world, default_pg_timeout, rendezvous
if rank == 1:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
store, _, _ = next(rendezvous(url, rank, size, timeout=default_pg_timeout))
make = lambda: _new_process_group_helper(size, rank, [], Backend("gloo"), PrefixStore("weights", store), group_name="weights", timeout=default_pg_timeout)
group, _ = make()
_world.pg_group_ranks[group] = {i: i for i in range(size)}
t = torch.full((2,), rank + 1.0)
dist.broadcast(t, src=0, group=group)
u = torch.full((1,), rank + 1.0)
dist.all_reduce(u, group=group)
print(t.tolist(), u.tolist(), group.rank(), group.size(), _world.pg_group_ranks[group], dist.get_process_group_ranks(group), dist.is_initialized())
try:
    make()
except ValueError as error:
    print(error)
dist.barrier(group=group)
dist.destroy_process_group(group)
print(len(_world.pg_group_ranks))
"""
    with Ranks(2, program) as job:
        outs = job.outputs()
    for rank, out in enumerate(outs):
        assert out.splitlines() == ["[1.0, 1.0] [3.0] %d 2 {0: 0, 1: 1} [0, 1] %s" % (rank, rank == 1),
                                    "The specified group name has already been created, please use a different group name", str(rank)]


def test_dumps_of_the_flight_recorder():
    program = """
import json, pickle
from rushlight.distributed import _c10d
init()
dist.all_reduce(torch.ones(2, 3))
dist.barrier()
both = json.loads(_c10d._dump_fr_trace_json()), pickle.loads(_c10d._dump_nccl_trace())
for trace in both:
    print(trace["pg_config"], trace["pg_status"])
    print([(e["profiling_name"], e["collective_seq_id"], e["input_sizes"], e["state"], tuple(e["process_group"])) for e in trace["entries"]])
print(json.loads(_c10d._dump_fr_trace_json(onlyActive=True))["entries"], json.loads(_c10d._dump_fr_trace_json(includeCollectives=False))["entries"])
_c10d._reset_fr_recording_nccl()
print(json.loads(_c10d._dump_fr_trace_json())["entries"], torch._C._distributed_c10d is _c10d)
"""
    with Ranks(1, program) as job:
        lines = job.outputs()[0].splitlines()
    assert lines[:2] == lines[2:4] == [
        "{'0': {'name': '0', 'desc': 'default_pg', 'ranks': '[0]'}} "
        "{'0': {'last_enqueued_collective': 2, 'last_started_collective': 2, 'last_completed_collective': 2}}",
        "[('gloo:all_reduce', 1, [[2, 3]], 'completed', ('0', 'default_pg')), ('gloo:barrier', 2, [], 'completed', ('0', 'default_pg'))]"]
    assert lines[4:] == ["[] []", "[] True"]
