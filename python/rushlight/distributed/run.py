"""The launcher: starts the processes of a job on this machine, watches them, and ends all when one fails.

    python -m rushlight.distributed.run --nproc-per-node 4 train.py ARGS
    python -m rushlight.distributed.run --nnodes 2 --node-rank 0 --master-addr HOST --master-port PORT --nproc-per-node 4 train.py
    python -m rushlight.distributed.run --nnodes 1:4 --rdzv-backend c10d --rdzv-endpoint HOST:PORT --nproc-per-node 4 train.py
    python -m rushlight.distributed.run --no-python --nproc-per-node 4 ./program

The launcher of the first machine serves the store in which the processes meet. Each process is started with the environment that torchrun
gives (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, ...), in a session of its own, and is killed with its children when the launcher goes, however that
goes. When one fails the others get SIGTERM, and --shutdown-timeout seconds later SIGKILL; then all are started again, up to --max-restarts times. With --nnodes MIN:MAX
machines may come and go: all processes are started again with the machines that are there. TORCHELASTIC_RESTART_COUNT counts every such start. In the
end the first process that failed is shown with the last lines of what it said. An option may be given as PET_OPTION in the environment, too.
"""
import argparse
import os
import sys
import uuid

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def get_args_parser():
    p = argparse.ArgumentParser(prog="torchrun", description="Starts the processes of a distributed job.")

    def add(*names, **options):  # torchrun knows --nproc-per-node and --nproc_per_node, and PET_NPROC_PER_NODE of the environment
        words = next(n[2:] for n in names if n.startswith("--")).replace("-", "_")
        given = os.environ.get("PET_" + words.upper())
        if given is not None:
            options["default"] = bool(int(given)) if options.get("action") == "store_true" else options.get("type", str)(given)
        p.add_argument(*names, *[n[:2] + n[2:].replace("-", "_") for n in names if n.startswith("--") and "-" in n[2:]], **options)
    add("--nnodes", default="1", help="machines, or MIN:MAX")
    add("--nproc-per-node", default="1", help="processes on each: a number, auto, cpu or gpu")
    add("--rdzv-backend", default="static", choices=["static", "c10d"], help="how machines are numbered")
    add("--rdzv-endpoint", default="", help="HOST:PORT of the machine that serves the store")
    add("--rdzv-id", default="none", help="the job's name")
    add("--rdzv-conf", default="", help="timeout=, last_call_timeout=, keep_alive_interval= SECONDS, keep_alive_max_attempt=, ...")
    add("--standalone", action="store_true", help="one machine, any free port")
    add("--max-restarts", type=int, default=0)
    add("--monitor-interval", type=float, default=0.1)
    add("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"], help="of functions; programs are just started")
    add("--event-log-handler", default="null", help="not used")
    add("--role", default="default")
    add("--log-dir", default=None, help="a folder for what the processes say")
    add("--redirects", "-r", default="0", help="1: their output goes to the log, 2: their errors, 3: both; or LOCALRANK:N,...")
    add("--tee", "-t", default="0", help="as --redirects, and on the terminal, too")
    add("--local-ranks-filter", default="", help="whose output is shown: LOCALRANK,...")
    add("--signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals that end the job")
    add("--node-rank", type=int, default=0)
    add("--master-addr", default="127.0.0.1")
    add("--master-port", type=int, default=29500)
    add("--local-addr", default=None)
    add("--shutdown-timeout", type=int, default=None, help="seconds that processes have to end after SIGTERM; TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 5")
    add("--virtual-local-rank", action="store_true", help="LOCAL_RANK is 0 everywhere, and each process sees its own GPU alone")
    p.add_argument("-m", "--module", action="store_true", help="the program is a module")
    add("--no-python", action="store_true", help="the program is not Python's")
    add("--run-path", action="store_true", help="not used")
    p.add_argument("training_script")
    p.add_argument("training_script_args", nargs=argparse.REMAINDER)
    p.set_defaults(port_given=True)  # for who fills in the arguments without parse_args(), as accelerate does
    return p


def parse_args(args=None, parser=None):
    parsed = (parser or get_args_parser()).parse_args(args)
    given = {a.split("=")[0].replace("_", "-") for a in (sys.argv[1:] if args is None else args)}
    parsed.port_given = bool({"--master-port", "--rdzv-endpoint"} & given or {"PET_MASTER_PORT", "PET_RDZV_ENDPOINT"} & set(os.environ))
    return parsed


def _processes(text):
    if text.isdigit() and int(text) > 0:
        return int(text)
    if text not in ("auto", "cpu", "gpu"):
        raise ValueError(f"Unsupported nproc_per_node value: {text}")
    return len(os.sched_getaffinity(0))


def _nodes(text):
    low, _, high = text.partition(":")
    if not low.isdigit() or high and not high.isdigit() or not 1 <= int(low) <= int(high or low):
        raise ValueError(f"nnodes={text} is not in \"MIN:MAX\" format")
    return int(low), int(high or low)


def _config(args):
    from .launcher._job import endpoint
    from .launcher.api import LaunchConfig
    low, high = _nodes(args.nnodes)
    if args.rdzv_backend == "static" and low != high:
        raise ValueError(f"--nnodes {args.nnodes}: machines that come and go need --rdzv-backend c10d")
    where = endpoint(args.rdzv_endpoint) if args.rdzv_endpoint else f"{args.master_addr}:{args.master_port}"
    if high == 1 and (args.standalone or not args.port_given):
        where = where.rpartition(":")[0] + ":0"
    conf = dict(pair.split("=") for pair in args.rdzv_conf.split(",") if pair)
    conf["rank"] = args.node_rank
    name = uuid.uuid4().hex[:8] if args.standalone and args.rdzv_id == "none" else args.rdzv_id
    return LaunchConfig(low, high, _processes(args.nproc_per_node), run_id=name, role=args.role, rdzv_endpoint=where, rdzv_backend=args.rdzv_backend,
                        rdzv_configs=conf, max_restarts=args.max_restarts, monitor_interval=args.monitor_interval, start_method=args.start_method,
                        signals_to_handle=args.signals_to_handle, log_dir=args.log_dir, redirects=args.redirects, tee=args.tee,
                        shutdown_timeout=args.shutdown_timeout, virtual_local_rank=args.virtual_local_rank,
                        local_ranks_filter={int(n) for n in args.local_ranks_filter.split(",")} if args.local_ranks_filter else None)


def _command(args):
    if args.no_python:
        return [args.training_script, *args.training_script_args]
    return [sys.executable, "-u", "-m", "rushlight", *(["-m"] if args.module else []), args.training_script, *args.training_script_args]


def run(args):
    """Starts the job and waits for it; the exit code of the launcher."""
    import signal
    from . import DistError
    from .launcher._job import Job, JobFailed
    from .launcher.api import show
    try:
        config = _config(args)
        job = Job(config, _command(args), (), tuple(signal.Signals[n.strip()] for n in config.signals_to_handle.split(",")))
        job.run()
    except JobFailed as failed:
        show(failed)
        return 1
    except (DistError, RuntimeError, ValueError, OSError) as error:
        print(f"torchrun: {error}", file=sys.stderr, flush=True)
        return 1
    return 0 if job.asked is None else 128 + job.asked


def main(args=None):
    sys.exit(run(parse_args(args)))


if __name__ == "__main__":
    main()
