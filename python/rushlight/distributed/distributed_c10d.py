"""The names of torch.distributed by their home module."""
from ._absent import absent

globals().update(absent(
    "ProcessGroup Work",
    "_get_default_group _get_default_store _find_pg_by_ranks_and_tag _get_group_size _get_pg_default_device "
    "_world_not_available", "distributed_c10d."))

from . import *  # noqa: E402,F401,F403
from . import GroupMember, group, PrefixStore, ReduceOp, Backend, Store, TCPStore  # noqa: E402,F401
from .constants import default_pg_timeout  # noqa: E402,F401
