"""The launcher of several processes, as functions: elastic_launch(LaunchConfig(...), function or program)(arguments)."""
import dataclasses
import signal
import sys

from ..elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from ._job import ENDING, Job, JobFailed, how

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclasses.dataclass
class LaunchConfig:
    """How many machines and processes, how they meet, how often they are started again, where what they say goes."""
    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: object = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict = dataclasses.field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str = None
    metrics_cfg: dict = dataclasses.field(default_factory=dict)
    local_addr: str = None
    event_log_handler: str = "null"
    numa_options: object = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: object = None
    duplicate_stderr_filters: object = None
    virtual_local_rank: bool = False
    shutdown_timeout: int = None   # seconds between SIGTERM and SIGKILL: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 5
    log_dir: str = None
    redirects: str = "0"
    tee: str = "0"
    local_ranks_filter: object = None

    def __post_init__(self):
        self.rdzv_configs = dict(self.rdzv_configs)
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        if not self.rdzv_endpoint:
            self.rdzv_endpoint = "127.0.0.1:0"


class elastic_launch:
    """Called with arguments it runs the job; {rank: what the function returned} of this machine's processes."""

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config, entrypoint, args):
    """One machine's part of a job. ChildFailedError: a process failed, and there were no restarts left."""
    command = entrypoint if callable(entrypoint) or isinstance(entrypoint, (list, tuple)) else [entrypoint]
    job = Job(config, command, tuple(args), tuple(signal.Signals[name.strip()] for name in config.signals_to_handle.split(",")) or ENDING)
    try:
        workers = job.run()
    except JobFailed as failed:
        w = failed.worker
        if w is None:
            raise
        name = getattr(entrypoint, "__qualname__", entrypoint)
        raise ChildFailedError(str(name), {w.rank: ProcessFailure(w.rank, w.pid, w.poll(), w.error_file, how(w), w.last_words(), w.failed_at())}) from None
    if job.asked is not None:
        raise KeyboardInterrupt if job.asked == signal.SIGINT else SystemExit(128 + job.asked)
    return {w.rank: w.value for w in workers}


def show(failed):
    """The end of a job: which process failed first, and the last of what it said."""
    w = failed.worker
    text = f"\n{failed}\n" if w is None else f"\nrank {w.rank} (pid {w.pid}) failed first: it {how(w)}. The end of what it said:\n{w.last_words()}"
    print(text, file=sys.stderr, end="", flush=True)
