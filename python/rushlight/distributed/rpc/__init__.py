"""Remote calls."""
from .._absent import absent

globals().update(absent(
    "RRef",
    "init_rpc shutdown rpc_sync rpc_async remote", "rpc."))


def is_available():
    """Whether this build can call remotely."""
    return False
