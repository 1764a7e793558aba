"""save() and async_save(): all processes save one checkpoint."""
import atexit
import dataclasses
import enum
import warnings
from concurrent.futures import Future, ThreadPoolExecutor

import rushlight as torch
import rushlight.distributed as dist

from .api import Steps
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .staging import AsyncStager, BlockingAsyncStager
from .stateful import Stateful

__all__ = ["save", "async_save", "save_state_dict", "AsyncCheckpointerType", "AsyncSaveResponse"]


class AsyncCheckpointerType(enum.Enum):
    THREAD = "thread"
    PROCESS = "process"


@dataclasses.dataclass
class AsyncSaveResponse:
    staging_completion: Future
    upload_completion: Future


def alone(no_dist, intent):
    """Is it about this process only?"""
    if no_dist or dist.is_initialized():
        return no_dist
    warnings.warn(f"torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to {intent} in a single process.", stacklevel=3)
    return True


def storage_for(given, checkpoint_id, cls):
    if given is None:
        if not checkpoint_id:
            raise RuntimeError("`checkpoint_id` must be specified if neither a storage nor a path is given.")
        given = cls(checkpoint_id)
    given.reset(checkpoint_id)
    return given


def _states(state_dict):
    return {key: value.state_dict() if isinstance(value, Stateful) else value for key, value in state_dict.items()}


def save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None, no_dist=False, use_collectives=True):
    """Save a dict of tensors, DTensors, objects, dicts of them, and what has state_dict(). Returns the Metadata."""
    single = alone(no_dist, "save")
    writer = storage_for(storage_writer, checkpoint_id, FileSystemWriter)
    return _save_state_dict(_states(state_dict), writer, process_group, single, planner)


def _save_state_dict(state_dict, storage_writer, process_group=None, no_dist=False, planner=None, coordinator_rank=0):
    steps, planner = Steps(process_group, no_dist, coordinator_rank), planner or DefaultSavePlanner()
    kept = {}

    def plan():
        planner.set_up_planner(state_dict=state_dict, storage_meta=storage_writer.storage_meta(), is_coordinator=steps.is_coordinator)
        storage_writer.set_up_storage_writer(steps.is_coordinator)
        return storage_writer.prepare_local_plan(planner.create_local_plan())

    def plan_together(plans):
        plans, kept["metadata"] = planner.create_global_plan(plans)
        return storage_writer.prepare_global_plan(plans)

    mine = steps.step("plan", plan, plan_together)

    def write():
        return storage_writer.write_data(planner.finish_plan(mine), planner).wait()

    def finish(results):
        storage_writer.finish(metadata=kept["metadata"], results=results)
        return [kept["metadata"]] * len(results)

    return steps.step("write", write, finish)


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank=0, no_dist=False, planner=None):
    """Of old: save()."""
    warnings.warn("'save_state_dict' is deprecated and will be removed in future versions. Please use 'save' instead.", FutureWarning, stacklevel=2)
    storage_writer.reset()
    return _save_state_dict(state_dict, storage_writer, process_group, no_dist, planner, coordinator_rank)


_groups = {}


def _group_of_saves(process_group):
    """A group of the same processes whose calls do not mix with those of the training."""
    group = process_group or dist.group.WORLD
    if group not in _groups:
        _groups[group] = dist.new_group(dist.get_process_group_ranks(group), backend="gloo", use_local_synchronization=True)
    return _groups[group]


_threads = None


def async_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
               async_checkpointer_type=AsyncCheckpointerType.THREAD, async_stager=None, no_dist=False, use_collectives=True):
    """save() in the background, of a copy made at once; returns a Future of the Metadata. Saves follow each other in order.

    The copy is async_stager's, or the storage_writer's, where it can: where that is a Future, an AsyncSaveResponse of two comes back.
    """
    global _threads
    single = alone(no_dist, "save")
    writer = storage_for(storage_writer, checkpoint_id, FileSystemWriter)
    states = _states(state_dict)
    stager = async_stager or (writer if isinstance(writer, AsyncStager) else BlockingAsyncStager())
    copied = stager.stage(states)
    group = None if single else _group_of_saves(process_group)
    if _threads is None:
        _threads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        atexit.register(_threads.shutdown)
    if isinstance(copied, Future):
        staged = Future()
        copied.add_done_callback(lambda done: staged.set_exception(done.exception()) if done.exception() else staged.set_result(None))
        return AsyncSaveResponse(staged, _threads.submit(lambda: _save_state_dict(copied.result(), writer, group, single, planner)))
    saved = _threads.submit(_save_state_dict, copied, writer, group, single, planner)
    if getattr(stager, "should_synchronize_after_execute", False):
        stager.synchronize_staging()
    return saved
