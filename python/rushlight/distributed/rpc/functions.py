"""Functions that are called remotely."""
from .._absent import absent

globals().update(absent(
    "",
    "async_execution", "rpc.functions."))
