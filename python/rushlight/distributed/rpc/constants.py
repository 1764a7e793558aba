"""The settings of who does not give any."""
DEFAULT_RPC_TIMEOUT_SEC, DEFAULT_NUM_WORKER_THREADS, DEFAULT_INIT_METHOD, DEFAULT_SHUTDOWN_TIMEOUT = 60.0, 16, "env://", 0
UNSET_RPC_TIMEOUT = -1.0  # as for all calls of the worker
