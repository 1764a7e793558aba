"""Remote calls."""
from .._absent import absent

globals().update(absent(
    "",
    "", "rpc.api."))


def _require_initialized(func):
    """func itself: it says so when it is called."""
    return func
