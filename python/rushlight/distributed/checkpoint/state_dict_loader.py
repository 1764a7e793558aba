"""load(): all processes load one checkpoint, each what its tensors need."""
import warnings

import rushlight.distributed as dist

from .api import Steps
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_saver import alone, storage_for
from .stateful import Stateful

__all__ = ["load", "load_state_dict"]


def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None, no_dist=False):
    """Fill a dict like that of save(): tensors in place, other entries are replaced, what has load_state_dict() gets its part."""
    single = alone(no_dist, "load")
    reader = storage_for(storage_reader, checkpoint_id, FileSystemReader)
    states = {}
    for key in sorted(state_dict, key=str):
        value = state_dict[key]
        states[key] = value.state_dict() if isinstance(value, Stateful) else value
    _load_state_dict(states, reader, process_group, no_dist=single, planner=planner)
    for key, loaded in states.items():
        if isinstance(state_dict.get(key), Stateful):
            state_dict[key].load_state_dict(loaded)
        else:
            state_dict[key] = loaded


def _load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    steps, planner = Steps(process_group, no_dist, coordinator_rank), planner or DefaultLoadPlanner()

    def plan():
        metadata = storage_reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, steps.is_coordinator)
        storage_reader.set_up_storage_reader(metadata, steps.is_coordinator)
        return storage_reader.prepare_local_plan(planner.create_local_plan())

    def plan_together(plans):
        return storage_reader.prepare_global_plan(planner.create_global_plan(plans))

    mine = steps.step("plan", plan, plan_together)
    steps.everywhere("read", lambda: storage_reader.read_data(planner.finish_plan(mine), planner).wait())


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """Of old: load()."""
    warnings.warn("'load_state_dict' is deprecated and will be removed in future versions. Please use 'load' instead.", FutureWarning, stacklevel=2)
    storage_reader.reset()
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict_from_keys(keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None):
    """The entries of some keys, or all, as a dict."""
    single = alone(False, "load")
    reader = storage_for(storage_reader, checkpoint_id, FileSystemReader)
    keys = {keys} if isinstance(keys, str) else keys
    state = {}
    _load_state_dict(state, reader, process_group, no_dist=single, planner=_EmptyStateDictLoadPlanner(keys))
    return state
