"""The launcher: starts the processes of a job on this machine, watches them, and ends all when one fails.

    python -m rushlight.distributed.run --nproc-per-node 4 train.py ARGS
    python -m rushlight.distributed.run --nnodes 2 --node-rank 0 --master-addr HOST --master-port PORT --nproc-per-node 4 train.py
    python -m rushlight.distributed.run --nnodes 2 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --nproc-per-node 4 train.py
    python -m rushlight.distributed.run --no-python --nproc-per-node 4 ./program

The launcher of the first machine serves the store in which the processes meet. Each process is started with the environment that torchrun
gives (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, ...), in a session of its own, and is killed with its children when the launcher goes, however that
goes. When one fails the others get SIGTERM, and 5 seconds later SIGKILL; then all are started again, up to --max-restarts times. In the
end the first process that failed is shown with the last lines of what it said.
"""
import argparse
import collections
import ctypes
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
import uuid

__all__ = ["get_args_parser", "main", "parse_args", "run"]

GRACE = 5
FOREVER = datetime.timedelta(days=365)


def get_args_parser():
    p = argparse.ArgumentParser(prog="torchrun", description="Starts the processes of a distributed job.")

    def add(*names, **options):  # torchrun knows --nproc-per-node and --nproc_per_node
        p.add_argument(*names, *[n[:2] + n[2:].replace("-", "_") for n in names if n.startswith("--") and "-" in n[2:]], **options)
    add("--nnodes", default="1", help="machines, or MIN:MAX")
    add("--nproc-per-node", default="1", help="processes on each: a number, auto, cpu or gpu")
    add("--rdzv-backend", default="static", choices=["static", "c10d"], help="how machines are numbered")
    add("--rdzv-endpoint", default="", help="HOST:PORT of the machine that serves the store")
    add("--rdzv-id", default="none", help="the job's name")
    add("--rdzv-conf", default="", help="timeout=SECONDS,...")
    add("--standalone", action="store_true", help="one machine, any free port")
    add("--max-restarts", type=int, default=0)
    add("--monitor-interval", type=float, default=0.1)
    add("--start-method", default="spawn", help="not used")
    add("--role", default="default")
    add("--log-dir", default=None, help="a folder for what the processes say")
    add("--redirects", "-r", default="0", help="1: their output goes to the log, 2: their errors, 3: both")
    add("--tee", "-t", default="0", help="as --redirects, and on the terminal, too")
    add("--node-rank", type=int, default=0)
    add("--master-addr", default="127.0.0.1")
    add("--master-port", type=int, default=29500)
    add("--local-addr", default=None)
    p.add_argument("-m", "--module", action="store_true", help="the program is a module")
    add("--no-python", action="store_true", help="the program is not Python's")
    add("--run-path", action="store_true", help="not used")
    p.add_argument("training_script")
    p.add_argument("training_script_args", nargs=argparse.REMAINDER)
    return p


def parse_args(args=None):
    return get_args_parser().parse_args(args)


def _processes(text):
    return int(text) if text.isdigit() else len(os.sched_getaffinity(0))


def _die_with_launcher():
    """In the child: SIGKILL when the launcher's thread ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Worker:
    """One process of the job."""

    def __init__(self, command, env, folder, redirects, tee):
        self.rank, self.tail = int(env["RANK"]), collections.deque(maxlen=40)
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_die_with_launcher)
        self.pumps = []
        for bit, name, pipe, out in ((1, "stdout", self.process.stdout, sys.stdout), (2, "stderr", self.process.stderr, sys.stderr)):
            logged = folder is not None and bool((redirects | tee) & bit)
            if logged:
                os.makedirs(folder, exist_ok=True)
            log = open(os.path.join(folder, name + ".log"), "wb") if logged else None
            shown = not redirects & bit or bool(tee & bit)
            thread = threading.Thread(target=self._pump, args=(pipe, log, out if shown else None, name == "stderr"), daemon=True)
            thread.start()
            self.pumps.append(thread)

    def _pump(self, pipe, log, out, remember):
        with pipe:
            for line in iter(pipe.readline, b""):
                if log:
                    log.write(line)
                    log.flush()
                if out:
                    out.buffer.write(line)
                    out.flush()
                if remember:
                    self.tail.append(line.decode(errors="replace"))
        if log:
            log.close()

    def poll(self):
        return self.process.poll()

    def send(self, number):
        """A signal to the process and its children."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def finish(self):
        for thread in self.pumps:
            thread.join(timeout=1)


class Job:
    """The part of a job that runs on this machine."""

    def __init__(self, args):
        self.args, self.local = args, _processes(args.nproc_per_node)
        low, _, high = args.nnodes.partition(":")
        self.nodes = int(high or low)
        self.id = args.rdzv_id if args.rdzv_id != "none" or not args.standalone else uuid.uuid4().hex[:8]
        self.workers, self.asked = [], None
        self._serve()

    def _serve(self):
        """The store of the job: served by the first machine."""
        from . import PrefixStore, TCPStore
        args, alone = self.args, self.args.standalone or self.nodes == 1
        given = [a.split("=")[0] for a in sys.argv]
        host, _, port = (args.rdzv_endpoint or f"{args.master_addr}:{args.master_port}").rpartition(":")
        if alone and (args.standalone or not {"--master-port", "--master_port", "--rdzv-endpoint", "--rdzv_endpoint"} & set(given)):
            port = 0
        timeout = dict(pair.split("=") for pair in args.rdzv_conf.split(",") if pair)
        seconds = datetime.timedelta(seconds=float(timeout.get("timeout", timeout.get("join_timeout", 600))))
        first = alone or args.rdzv_backend == "static" and args.node_rank == 0
        options = {"timeout": seconds, "wait_for_workers": False}
        if args.rdzv_backend == "c10d" and not alone:
            self.store, self.serves = self._first_or_other(TCPStore, host, int(port), options)
        else:
            self.store, self.serves = TCPStore(host, int(port or 0), None, first, **options), first
        self.host, self.port = host, self.store.port
        self.meeting = PrefixStore(f"/rendezvous/{self.id}", self.store)
        self.node = args.node_rank if alone or args.rdzv_backend == "static" else self.meeting.add("nodes", 1) - 1
        if self.node >= self.nodes:
            raise RuntimeError(f"this is machine {self.node + 1} of a job of {self.nodes}")
        self.meeting.set(f"node/{self.node}", str(self.local))
        counts = [int(self.meeting.get(f"node/{i}")) for i in range(self.nodes)]
        self.before, self.world = sum(counts[:self.node]), sum(counts)

    @staticmethod
    def _first_or_other(TCPStore, host, port, options):
        """Whoever can listen at the endpoint serves, which need not be the machine that gets the number 0."""
        from . import DistNetworkError
        try:
            return TCPStore(host, port, None, True, **options), True
        except DistNetworkError:
            return TCPStore(host, port, None, False, **options), False

    def _command(self):
        args = self.args
        if args.no_python:
            return [args.training_script, *args.training_script_args]
        return [sys.executable, "-u", "-m", "rushlight", *(["-m"] if args.module else []), args.training_script, *args.training_script_args]

    def start(self, attempt):
        args, self.workers = self.args, []
        for local in range(self.local):
            env = {**os.environ, "RANK": str(self.before + local), "LOCAL_RANK": str(local), "WORLD_SIZE": str(self.world),
                   "LOCAL_WORLD_SIZE": str(self.local), "GROUP_RANK": str(self.node), "GROUP_WORLD_SIZE": str(self.nodes), "ROLE_NAME": args.role,
                   "ROLE_RANK": str(self.before + local), "ROLE_WORLD_SIZE": str(self.world), "MASTER_ADDR": self.host, "MASTER_PORT": str(self.port),
                   "TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_MAX_RESTARTS": str(args.max_restarts), "TORCHELASTIC_RUN_ID": self.id,
                   "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}
            if self.local > 1:
                env.setdefault("OMP_NUM_THREADS", "1")
            folder = args.log_dir and os.path.join(args.log_dir, self.id, f"attempt_{attempt}", str(local))
            self.workers.append(Worker(self._command(), env, folder, int(args.redirects), int(args.tee)))

    def end_all(self, number=signal.SIGTERM):
        for w in self.workers:
            if w.poll() is None:
                w.send(number)
        end = time.monotonic() + GRACE
        while time.monotonic() < end and any(w.poll() is None for w in self.workers):
            time.sleep(0.02)
        for w in self.workers:
            w.send(signal.SIGKILL)  # the children of those that have ended, too
            w.process.wait()
            w.finish()

    def watch(self, attempt):
        """Until all have ended well (None), one has failed (it), or another machine says that one has (False)."""
        key, seen = f"failed/{attempt}", time.monotonic()
        while True:
            if self.asked is not None:
                return False
            codes = [w.poll() for w in self.workers]
            failed = next((w for w, c in zip(self.workers, codes) if c), None)
            if failed:
                self.meeting.set(key, str(failed.rank))
                return failed
            if all(c == 0 for c in codes):
                return None
            if self.nodes > 1 and time.monotonic() - seen > 1:
                seen = time.monotonic()
                if self.meeting.check([key]):
                    return False
            time.sleep(self.args.monitor_interval)

    def ask(self, number, frame):
        """A signal for the launcher: is for all."""
        self.asked = number


def _show(worker):
    code = worker.poll()
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
    worker.finish()
    print(f"\nrank {worker.rank} (pid {worker.process.pid}) failed first: it {how}. The end of what it said:\n" + "".join(worker.tail), file=sys.stderr, flush=True)


def run(args):
    """Starts the job and waits for it; the exit code of the launcher."""
    job = Job(args)
    before = {n: signal.signal(n, job.ask) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        for attempt in range(args.max_restarts + 1):
            job.start(attempt)
            failed = job.watch(attempt)
            job.end_all(job.asked or signal.SIGTERM)
            if failed is None:
                return _leave(job, 0)
            if job.asked is not None:
                return 128 + job.asked
            if attempt < args.max_restarts:
                print(f"torchrun: starting again, {args.max_restarts - attempt} of {args.max_restarts} restarts left", file=sys.stderr, flush=True)
        if failed:
            _show(failed)
        return _leave(job, 1)
    finally:
        for w in job.workers:
            w.send(signal.SIGKILL)
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(job, code):
    """The launcher that serves the store does so until the others have gone."""
    if job.nodes > 1:
        job.meeting.add("gone", 1)
        end = time.monotonic() + 30
        while job.serves and job.meeting.add("gone", 0) < job.nodes and time.monotonic() < end:
            time.sleep(0.05)
    return code


def main(args=None):
    sys.exit(run(parse_args(args)))


if __name__ == "__main__":
    main()
