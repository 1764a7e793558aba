"""torch._C._distributed_c10d: the classes under the names that programs import from there, and the flight recorder."""
import json
import pickle
import sys

from rushlight import _C
from rushlight._C import FileStore, HashStore, PrefixStore, Store, TCPStore  # noqa: F401

from .distributed_c10d import (AllreduceOptions, BarrierOptions, BroadcastOptions, DebugLevel, GatherOptions, ProcessGroup, ReduceOp, ReduceOptions,  # noqa: F401
                               ReduceScatterOptions, ScatterOptions, Work, _resolve_process_group, _world, get_debug_level, set_debug_level,
                               set_debug_level_from_env)


def _trace(collectives, only_active):
    """What the flight recorder remembers, and the groups that it is about."""
    trace = json.loads(_C._dist_recorded(collectives, only_active))
    trace["pg_config"] = {g.group_name: {"name": g.group_name, "desc": g.group_desc, "ranks": str(g._ranks)} for g in _world.pg_map}
    trace["pg_status"] = {}
    for e in trace["entries"]:
        status = trace["pg_status"].setdefault(e["process_group"][0], {f"last_{what}_collective": -1 for what in ("enqueued", "started", "completed")})
        reached = {"scheduled": ("enqueued",), "started": ("enqueued", "started"), "failed": ("enqueued", "started")}
        for what in () if e["is_p2p"] else reached.get(e["state"], ("enqueued", "started", "completed")):
            status[f"last_{what}_collective"] = e["collective_seq_id"]
    return trace


def _dump_fr_trace_json(includeCollectives=None, onlyActive=None):
    """The calls of this process's groups that the flight recorder remembers, the oldest first: JSON, as bytes."""
    return json.dumps(_trace(includeCollectives is not False, bool(onlyActive))).encode()


def _dump_fr_trace(includeCollectives=None, includeStackTraces=None, onlyActive=None):
    """The calls of this process's groups that the flight recorder remembers, the oldest first: a pickled dict. Stacks are not remembered."""
    trace = _trace(includeCollectives is not False, bool(onlyActive))
    for e in trace["entries"]:
        e["process_group"], e["frames"] = tuple(e["process_group"]), []
    return pickle.dumps(trace)


_dump_nccl_trace, _dump_nccl_trace_json = _dump_fr_trace, _dump_fr_trace_json


def _reset_fr_recording_nccl():
    """Empties the flight recorder."""
    _C._dist_forget_recorded()


_C._distributed_c10d = sys.modules["rushlight._C._distributed_c10d"] = sys.modules[__name__]
