"""Errors of launched processes."""
from ..._absent import absent

globals().update(absent(
    "ChildFailedError",
    "", "elastic.multiprocessing.errors."))


def record(fn, error_handler=None):
    """fn as it is: failures are told by the launcher that is not there."""
    return fn
