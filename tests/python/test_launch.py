"""The launcher: what its processes get, and that nothing is left of a job that fails or is ended."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import places
import pytest
import rushlight.distributed as dist
from test_dist import port


def launch(*args, **options):
    return subprocess.Popen([sys.executable, "-m", "rushlight.distributed.run", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)


def finish(process, limit=120):
    try:
        out, err = process.communicate(timeout=limit)
    finally:
        if process.poll() is None:
            process.kill()
    return process.returncode, out, err


def program(tmp_path, text):
    path = tmp_path / "job.py"
    path.write_text("import os, sys, time\nimport torch\nimport torch.distributed as dist\nrank = int(os.environ['RANK'])\n" + text)
    return str(path)


def alive(pid):
    """Is it a process that runs (and not only waits to be buried)?"""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, limit=10):
    end = time.monotonic() + limit
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(alive, pids))


def test_a_job(tmp_path):
    script = program(tmp_path, """
dist.init_process_group("gloo")
t = torch.ones(1) * rank
dist.all_reduce(t)
e = os.environ
print(rank, t.item(), e["WORLD_SIZE"], e["LOCAL_RANK"], e["LOCAL_WORLD_SIZE"], dist.is_torchelastic_launched(), sys.argv[1:])
dist.destroy_process_group()
""")
    code, out, err = finish(launch("--standalone", "--nproc-per-node=3", "--log-dir", str(tmp_path / "log"), "--tee", "3", script, "--lr", "1"))
    assert code == 0, err
    assert sorted(out.splitlines()) == [f"{r} 3.0 3 {r} 3 True ['--lr', '1']" for r in range(3)]
    logs = sorted((tmp_path / "log").rglob("stdout.log"))
    assert len(logs) == 3 and logs[0].read_text() in out


def test_the_launcher_before_torchrun(tmp_path):
    script = tmp_path / "job.py"
    script.write_text("import os, sys\nprint(os.environ['LOCAL_RANK'], sys.argv[1:])\n")
    for option, told in (("--nproc-per-node=2", True), ("--use_env", False), ("--virtual-local-rank", True)):
        words = [sys.executable, "-m", "rushlight.distributed.launch", "--nproc_per_node", "2", option, str(script), "--lr", "1"]
        code, out, err = finish(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        assert code == 0 and "deprecated" in err
        ranks = [0, 0] if "virtual" in option else [0, 1]
        assert sorted(out.splitlines()) == [f"{r} {[f'--local-rank={r}'] * told + ['--lr', '1']}" for r in ranks]


def test_all_that_was_said_is_told(tmp_path):
    """Also what was not yet read when all programs had ended."""
    script = tmp_path / "job.py"
    script.write_text("import os\nfor i in range(100): os.write(1, b'%01023d\\n' % i)\n")
    job, size = launch("--nproc-per-node", "2", str(script)), 0
    while size < 2 * 100 * 1024:
        got = len(os.read(job.stdout.fileno(), 4096))
        if size < 100 * 1024 <= size + got:
            time.sleep(2)   # what is left fits into pipes
        size += got
        assert got, size
    assert finish(job)[0] == 0


def test_seconds_between_the_signals(tmp_path):
    script = program(tmp_path, """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(os.path.join(os.path.dirname(__file__), f"ready{rank}"), "w").close()
while not os.path.exists(os.path.join(os.path.dirname(__file__), f"ready{1 - rank}")):
    time.sleep(0.01)
if rank == 1:
    open(os.path.join(os.path.dirname(__file__), "left"), "w").write(str(time.monotonic()))
    sys.exit(3)
time.sleep(600)
""")
    took = []
    for seconds in (0, 4):
        assert finish(launch("--nproc-per-node=2", f"--shutdown-timeout={seconds}", script))[0] == 1
        took.append(time.monotonic() - float((tmp_path / "left").read_text()))  # without what it takes to begin
        for rank in range(2):
            (tmp_path / f"ready{rank}").unlink()
    assert took[0] < took[1] and took[1] > 4


def test_the_first_failure_ends_all_and_is_shown_last(tmp_path):
    script = program(tmp_path, f"""
open(f"{tmp_path}/pid{{rank}}", "w").write(str(os.getpid()))
import subprocess
child = subprocess.Popen(["sleep", "100"])
open(f"{tmp_path}/child{{rank}}", "w").write(str(child.pid))
dist.init_process_group("gloo")
dist.barrier()
if rank == 1: raise ValueError("this is the cause")
time.sleep(60)
""")
    began = time.monotonic()
    code, out, err = finish(launch("--standalone", "--nproc-per-node=2", script))
    assert code == 1 and time.monotonic() - began < 60
    assert "rank 1 (pid" in err and err.rstrip().endswith("ValueError: this is the cause")
    pids = [int(p.read_text()) for p in tmp_path.iterdir() if p.name.startswith(("pid", "child"))]
    assert len(pids) == 4 and gone(pids)


def test_restarts(tmp_path):
    script = program(tmp_path, """
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
dist.barrier()
if attempt < 2 and rank == 0: sys.exit(3)
dist.barrier()
if rank == 0: print("attempt", attempt)
""")
    code, out, err = finish(launch("--standalone", "--nproc-per-node=2", "--max-restarts=2", script))
    assert (code, out) == (0, "attempt 2\n"), err


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_signals_leave_nothing(tmp_path, how):
    script = program(tmp_path, f"""
open(f"{tmp_path}/pid{{rank}}", "w").write(str(os.getpid()))
time.sleep(100)
""")
    process = launch("--standalone", "--nproc-per-node=2", script)
    try:
        files, end = [tmp_path / "pid0", tmp_path / "pid1"], time.monotonic() + 60
        while not all(f.exists() and f.read_text() for f in files) and time.monotonic() < end:
            time.sleep(0.05)
        pids = [int(f.read_text()) for f in files]
        process.send_signal(getattr(signal, how))
        process.communicate(timeout=30)
        assert process.returncode == (-9 if how == "SIGKILL" else 128 + getattr(signal, how)) and gone(pids)
    finally:
        process.kill()


@pytest.mark.parametrize("backend", ["static", "c10d"])
def test_two_machines(tmp_path, backend):
    script = program(tmp_path, """
dist.init_process_group("gloo")
every = [None] * dist.get_world_size()
dist.all_gather_object(every, (rank, os.environ["GROUP_RANK"], os.environ["LOCAL_RANK"]))
if rank == 0: print(every)
dist.destroy_process_group()
""")
    at = str(port())
    where = ["--master-addr", "127.0.0.1", "--master-port", at] if backend == "static" else ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:" + at]
    nodes = [launch("--nnodes=2", *(["--node-rank", str(i)] if backend == "static" else []), *where, "--nproc-per-node", "2" if i == 0 else "1", script)
             for i in range(2)]
    done = [finish(n) for n in nodes]
    assert [d[0] for d in done] == [0, 0], done
    lines = "".join(d[1] for d in done)
    ranks = eval(lines)
    assert [r[0] for r in ranks] == [0, 1, 2] and sorted({r[1] for r in ranks}) == ["0", "1"]


def test_machines_come_and_go(tmp_path):
    """One machine begins alone, a second one comes, and goes: each time all processes start again with the machines that are there."""
    script = program(tmp_path, f"""
dist.init_process_group("gloo")
open(f"{tmp_path}/world{{dist.get_world_size()}}.{{os.environ['TORCHELASTIC_RESTART_COUNT']}}.{{rank}}", "w").close()
while not os.path.exists("{tmp_path}/end"):
    time.sleep(0.02)
dist.destroy_process_group()
""")
    where = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port()}", "--rdzv-conf=last_call_timeout=1,timeout=60"]

    def seen(world, rank, after=-1, limit=60):
        """The number of the start in which that many processes ran; how many starts it takes is a matter of time."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            found = [int(p.name.split(".")[1]) for p in tmp_path.glob(f"world{world}.*.{rank}")]
            if found and max(found) > after:
                return max(found)
            time.sleep(0.05)
        raise AssertionError(f"no start with {world} processes after {after}: {sorted(p.name for p in tmp_path.iterdir())}")
    first = launch(*where, script)
    try:
        seen(1, 0)
        second = launch(*where, script)
        try:
            both = seen(2, 1)
            second.terminate()
            assert finish(second)[0] == 128 + signal.SIGTERM
        finally:
            second.kill()
        seen(1, 0, both)
        (tmp_path / "end").touch()
        code, _, err = finish(first)
        assert code == 0 and "another machine has come" in err and "has left" in err, err
    finally:
        first.kill()


def test_functions():
    """elastic_launch: what functions return, and the error of the one that failed first."""
    text = """
import os, sys
import torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
def work(x):
    if x == 3 and os.environ["RANK"] == "1":
        raise ValueError("this is the cause")
    return x * 10 + int(os.environ["RANK"])
config = LaunchConfig(min_nodes=1, max_nodes=1, nproc_per_node=2, max_restarts=0, start_method="fork")
print(elastic_launch(config, work)(4))
try:
    elastic_launch(config, work)(3)
except ChildFailedError as error:
    print(error.get_first_failure()[0], "ValueError: this is the cause" in str(error))
"""
    done = subprocess.run([sys.executable, "-m", "rushlight", "-c", text], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout == "{0: 40, 1: 41}\n1 True\n", done.stderr


# ---- rushlight launch


def started_by_c(*args):
    return subprocess.Popen([places.command(), "launch", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_launch_of_programs(tmp_path):
    script = program(tmp_path, """
dist.init_process_group("gloo")
t = torch.ones(1) * rank
dist.all_reduce(t)
print(rank, t.item(), os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"])
dist.destroy_process_group()
""")
    code, out, err = finish(started_by_c("-n", "3", "--log-dir", str(tmp_path / "log"), sys.executable, "-m", "rushlight", script))
    assert (code, sorted(out.splitlines())) == (0, [f"{r} 3.0 3 {r}" for r in range(3)]), err
    assert (tmp_path / "log" / "attempt_0_rank_1.stdout").read_text() == "1 3.0 3 1\n"


def test_launch_ends_all_when_one_fails(tmp_path):
    text = f"""echo $$ > {tmp_path}/pid$RANK; sleep 100 & echo $! > {tmp_path}/child$RANK
while [ ! -s {tmp_path}/child0 -o ! -s {tmp_path}/child1 ]; do sleep 0.05; done
if [ $RANK = 1 ]; then echo attempt $TORCHELASTIC_RESTART_COUNT failed >&2; exit 7; fi; wait"""
    code, _, err = finish(started_by_c("-n", "2", "--max-restarts", "1", "sh", "-c", text))
    assert code == 1 and "starting again, 0 of 1" in err and "it exited with code 7" in err and err.endswith("attempt 1 failed\n"), err
    assert gone([int(p.read_text()) for p in tmp_path.iterdir()])
    assert finish(started_by_c("-n", "2", "/no/such/program"))[0] == 1 and finish(started_by_c("-n", "0", "true"))[0] == 2


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_launch_leaves_nothing(tmp_path, how):
    process = started_by_c("-n", "2", "sh", "-c", f"echo $$ > {tmp_path}/pid$RANK; exec sleep 100")
    try:
        files, end = [tmp_path / "pid0", tmp_path / "pid1"], time.monotonic() + 30
        while not all(f.exists() and f.read_text() for f in files) and time.monotonic() < end:
            time.sleep(0.02)
        pids = [int(f.read_text()) for f in files]
        process.send_signal(getattr(signal, how))
        process.communicate(timeout=30)
        assert process.returncode == (-9 if how == "SIGKILL" else 128 + getattr(signal, how)) and gone(pids)
    finally:
        process.kill()


def test_launch_on_two_machines(tmp_path):
    at = str(port())
    text = "echo $RANK $WORLD_SIZE $LOCAL_RANK $GROUP_RANK"
    nodes = [started_by_c("-n", "2" if i == 0 else "1", "--nnodes", "2", "--node-rank", str(i), "--master-port", at, "sh", "-c", text) for i in range(2)]
    done = [finish(n) for n in nodes]
    assert [d[0] for d in done] == [0, 0] and sorted("".join(d[1] for d in done).splitlines()) == ["0 3 0 0", "1 3 1 0", "2 3 0 1"], done


def test_a_program_fills_in_the_arguments():
    """As accelerate's launcher does: parse_args() is never called, and its port is taken."""
    from rushlight.distributed import run
    args, _ = run.get_args_parser().parse_known_args(["--training_script", "x.py"])
    args.master_port = "1234"
    assert run._config(args).rdzv_endpoint == "127.0.0.1:1234"
    assert run._config(run.parse_args(["x.py"])).rdzv_endpoint == "127.0.0.1:0"


def test_ranks_of_a_launcher_share_its_store(monkeypatch):
    """As PyTorch's do, whose ranks can be in the same job; what a start left behind is not seen by the next."""
    import rushlight.distributed as dist
    served = dist.TCPStore("127.0.0.1", 0, None, True)
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(served.port), "RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
        monkeypatch.setenv(name, value)
    for attempt, key in ("0", "key"), ("2", "/worker/attempt_2/key"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        next(dist.rendezvous("env://"))[0].set("key", attempt)
        assert served.get(key) == attempt.encode()
