"""The part of a job that runs on one machine: starts its processes, watches them, ends all when one fails."""
import datetime
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
import uuid

from ._rendezvous import Meeting
from ._worker import FunctionWorker, Worker

__all__ = ["Job", "JobFailed", "bits"]

GRACE = 5
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


class JobFailed(Exception):
    """A process failed and there are no restarts left. `worker`: it, or None where it was on another machine; `why` says which."""

    def __init__(self, why, worker=None):
        super().__init__(why)
        self.worker = worker


def bits(text, local):
    """"3", or "0:1,1:2" by local rank: of --redirects and --tee."""
    text = str(text or 0)
    return int(dict(pair.split(":") for pair in text.split(",")).get(str(local), 0)) if ":" in text else int(text)


class Job:
    """`config` is a LaunchConfig; `command` a list of words, or a function with `args`."""

    def __init__(self, config, command, args=(), signals=ENDING):
        self.config, self.command, self.args, self.signals = config, command, args, signals
        self.id, self.workers, self.asked, self.round, self.folder = config.run_id or uuid.uuid4().hex[:8], [], None, None, None
        conf = config.rdzv_configs
        seconds = float(conf.get("timeout", conf.get("join_timeout", 600)))
        self._serve(seconds)
        silence = float(conf.get("keep_alive_interval", 5)) * int(conf.get("keep_alive_max_attempt", 3))
        self.store.set_timeout(datetime.timedelta(seconds=silence + 5))  # no request waits for others: an answer that takes longer does not come
        from .. import PrefixStore
        self.meeting = Meeting(PrefixStore(f"/rendezvous/{self.id}", self.store), config.min_nodes, config.max_nodes, config.nproc_per_node,
                               None if self.elastic else int(conf.get("rank", 0)), seconds, float(conf.get("last_call_timeout", 30)), silence)

    def _serve(self, seconds):
        """The store of the job. Static: machine 0 serves it; c10d: the first on the machine of the endpoint, which need not get seat 0."""
        from .. import DistNetworkError, TCPStore
        config = self.config
        self.elastic = config.rdzv_backend == "c10d" and config.max_nodes > 1
        host, _, port = config.rdzv_endpoint.rpartition(":")
        options = {"timeout": datetime.timedelta(seconds=seconds), "wait_for_workers": False}
        if self.elastic:
            said = config.rdzv_configs.get("is_host")
            self.serves = is_here(host) if said is None else str(said).lower() in ("1", "true", "t", "yes", "y")
        else:
            self.serves = config.max_nodes == 1 or int(config.rdzv_configs.get("rank", 0)) == 0
        try:
            self.store = TCPStore(host, int(port or 0), None, self.serves, **options)
        except DistNetworkError:
            if not self.elastic:
                raise
            self.serves = False
            self.store = TCPStore(host, int(port), None, False, **options)
        self.host, self.port = host, self.store.port

    # ---- processes

    def _env(self, local):
        config, now = self.config, self.round
        rank = str(now.before + local)
        env = {"RANK": rank, "LOCAL_RANK": str(local), "WORLD_SIZE": str(now.world), "LOCAL_WORLD_SIZE": str(config.nproc_per_node),
               "GROUP_RANK": str(now.seat), "GROUP_WORLD_SIZE": str(len(now.machines)), "ROLE_NAME": config.role, "ROLE_RANK": rank,
               "ROLE_WORLD_SIZE": str(now.world), "MASTER_ADDR": self.host, "MASTER_PORT": str(self.port), "TORCHELASTIC_RESTART_COUNT": str(now.number),
               "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts), "TORCHELASTIC_RUN_ID": self.id, "TORCHELASTIC_USE_AGENT_STORE": "True",
               "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCHELASTIC_ERROR_FILE": os.path.join(self.folder, f"attempt_{now.number}", str(local), "error.json")}
        if config.virtual_local_rank:   # each sees its own GPU as the first
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
            env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"] = "0", gpus[local] if local < len(gpus) and gpus[0] else str(local)
        if config.nproc_per_node > 1 and "OMP_NUM_THREADS" not in os.environ:
            env["OMP_NUM_THREADS"] = "1"
        return env

    def start(self):
        config, self.workers = self.config, []
        if self.folder is None:
            self.folder = os.path.join(config.log_dir or tempfile.mkdtemp(prefix="torchelastic_"), self.id)
        for local in range(config.nproc_per_node):
            env, folder = self._env(local), os.path.join(self.folder, f"attempt_{self.round.number}", str(local))
            if callable(self.command):
                os.makedirs(folder, exist_ok=True)
                self.workers.append(FunctionWorker(self.command, self.args, env, os.path.join(folder, "result"), config.start_method))
                continue
            shown = config.local_ranks_filter is None or local in config.local_ranks_filter
            words = [word.replace("${local_rank}", env["LOCAL_RANK"]) for word in (*self.command, *self.args)]
            self.workers.append(Worker(words, {**os.environ, **env}, folder, bits(config.redirects, local), bits(config.tee, local), shown))

    def end_all(self, number=signal.SIGTERM):
        for w in self.workers:
            if w.poll() is None:
                w.send(number)
        grace = self.config.shutdown_timeout
        end = time.monotonic() + float(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", GRACE) if grace is None else grace)
        while time.monotonic() < end and any(w.poll() is None for w in self.workers):
            time.sleep(0.02)
        for w in self.workers:
            w.send(signal.SIGKILL)  # the children of those that have ended, too
            while w.poll() is None:
                time.sleep(0.01)
        self._hear_all()

    def _hear_all(self):
        end = time.monotonic() + GRACE
        for w in self.workers:
            w.finish(end)

    def _first_failed(self):
        failed = [w for w in self.workers if w.poll()]
        return min(failed, key=lambda w: w.failed_at()) if failed else None

    # ---- a round

    def _watch(self):
        """Until the round is over: why (see Meeting.end), or None where all ended well."""
        looked, done = 0.0, False
        while self.asked is None:
            failed = self._first_failed()
            if failed:
                time.sleep(0.1)  # one that failed before it may be seen later
                failed = self._first_failed()
                self.meeting.end("failed", rank=failed.rank, host=self.meeting.about["host"], how=how(failed))
                return self.meeting.over()
            if not done and all(w.poll() == 0 for w in self.workers):
                done = True
                self.meeting.done()
            if done and self.meeting.all_done():
                return None
            if len(self.round.machines) > 1 or self.meeting.high > 1:
                self.meeting.beat()
                if time.monotonic() - looked > 0.5:
                    looked = time.monotonic()
                    why = self.meeting.over()
                    if why:
                        return why
            time.sleep(self.config.monitor_interval)
        return {"kind": "asked"}

    def ask(self, number, frame):
        """A signal for the launcher is for all."""
        self.asked = number

    def pass_on(self, number, frame):
        """One that does not end them."""
        for w in self.workers:
            if w.poll() is None:
                w.send(number)

    def run(self):
        """All rounds. The workers of the last one, which ended well; [] where a signal came (self.asked), or the job was done without this machine."""
        before = {n: signal.signal(n, self.ask) for n in self.signals}
        before.update({n: signal.signal(n, self.pass_on) for n in PASSED_ON if n not in self.signals})
        try:
            return self._rounds()
        finally:
            for w in self.workers:
                w.send(signal.SIGKILL)
            self._hear_all()
            for number, handler in before.items():
                signal.signal(number, handler)
            if self.folder is not None and not self.config.log_dir and not bits(self.config.redirects, 0) and not bits(self.config.tee, 0):
                shutil.rmtree(os.path.dirname(self.folder), ignore_errors=True)

    def _rounds(self):
        while True:
            self.round = self.meeting.join(lambda: self.asked is not None)
            if self.round is None:
                return []
            self.start()
            why = self._watch()
            if why is None:
                for w in self.workers:
                    w.keep_result()
                self.meeting.leave(self.serves)
                return self.workers
            if self.asked is not None:
                self.meeting.end("left", seat=self.round.seat)
                self.end_all(self.asked)
                return []
            self.end_all()
            if why["kind"] == "failed" and why["restarts"] > self.config.max_restarts or not self.elastic and why["kind"] in ("left", "lost"):
                self._give_up(why)
            self._say(why)
            self.meeting.next()

    def _give_up(self, why):
        self.meeting.finish()
        self.meeting.leave(self.serves)
        if why["kind"] != "failed":
            raise JobFailed(f"machine {why['seat']} {'has left' if why['kind'] == 'left' else 'is silent'}, and nobody can take its place")
        raise JobFailed(f"rank {why['rank']} on {why['host']} failed first: it {why['how']}", next((w for w in self.workers if w.rank == why["rank"] and w.poll()), None))

    def _say(self, why):
        left = self.config.max_restarts - why["restarts"]
        text = {"failed": f"rank {why.get('rank')} on {why.get('host')} {why.get('how')}; starting again, {left} of {self.config.max_restarts} restarts left",
                "lost": f"machine {why.get('seat')} ({why.get('host')}) is silent", "left": f"machine {why.get('seat')} has left",
                "came": "another machine has come"}[why["kind"]]
        print(f"torchrun: {text}{'' if why['kind'] == 'failed' else '; the others meet again'}", file=sys.stderr, flush=True)


def is_here(host):
    """Is it a name or an address of this machine?"""
    try:
        places = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in places:
        with socket.socket(family, kind, protocol) as s:
            try:
                s.bind(address)
                return True
            except OSError:
                continue
    return False


def how(worker):
    code = worker.poll()
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


def endpoint(text, port=29500):
    """HOST:PORT, with a port."""
    return text if re.search(r":\d+$", text) else f"{text}:{port}"
