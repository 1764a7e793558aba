"""The launcher as it was before torchrun: the program is told its place on the machine by an argument, too.

    python -m torch.distributed.launch --nproc-per-node 4 train.py ARGS        train.py --local-rank=0 ARGS, ...
    python -m torch.distributed.launch --use-env --nproc-per-node 4 train.py ARGS

All other options are those of run.py.
"""
import sys
import warnings

from . import run as _run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args=None):
    p = _run.get_args_parser()
    p.add_argument("--use-env", "--use_env", action="store_true", help="do not add --local-rank to the program's arguments")
    return _run.parse_args(args, p)


def launch(args):
    """Starts the job that parse_args() returned, and waits for it; the launcher's exit code."""
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    if not args.use_env:
        args.training_script_args = ["--local-rank=${local_rank}", *args.training_script_args]
    return _run.run(args)


def main(args=None):
    warnings.warn("The module torch.distributed.launch is deprecated; use torchrun, whose programs read os.environ['LOCAL_RANK'].", FutureWarning, stacklevel=2)
    sys.exit(launch(parse_args(args)))


if __name__ == "__main__":
    main()
