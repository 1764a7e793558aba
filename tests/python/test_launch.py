"""The launcher: what its processes get, and that nothing is left of a job that fails or is ended."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import rushlight.distributed as dist
from test_dist import port

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="no gloo in this build (libgloo-dev)")


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
