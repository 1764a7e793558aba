"""Remote calls."""
from .._absent import absent

globals().update(absent(
    "RRef BackendType TensorPipeRpcBackendOptions WorkerInfo",
    "init_rpc shutdown rpc_sync rpc_async remote get_worker_info", "rpc."))


def is_available():
    """Whether this build can call remotely."""
    return False
