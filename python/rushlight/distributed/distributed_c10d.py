"""torch.distributed: process groups, collectives, messages. The work is done in C (src/dist); here are the names and their arguments."""
import collections.abc
import contextlib
import ctypes
import datetime
import enum
import hashlib
import io
import os
import pickle
import threading
import warnings

import rushlight as torch
from rushlight import _C
from rushlight._C import (DistBackendError, DistError, DistNetworkError, DistStoreError, FileStore, HashStore, PrefixStore,  # noqa: F401
                          QueueEmptyError, Store, TCPStore)
from rushlight.futures import Future

from .constants import default_pg_timeout, default_pg_nccl_timeout  # noqa: F401
from .rendezvous import register_rendezvous_handler, rendezvous  # noqa: F401

# ORDER: rush_dist_kind in rushlight/dist.h
(_ALL_REDUCE, _BROADCAST, _REDUCE, _ALL_GATHER, _GATHER, _SCATTER, _REDUCE_SCATTER, _ALL_TO_ALL, _BARRIER, _MONITORED_BARRIER, _SEND,
 _RECEIVE) = range(12)


class RedOpType(enum.IntEnum):
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)

    def __str__(self):
        return "RedOpType." + self.name


class ReduceOp:
    """How values of the processes are combined."""
    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = RedOpType

    def __new__(cls, op=RedOpType.SUM):
        return RedOpType(op)


class reduce_op:
    """The older name of ReduceOp."""
    SUM, PRODUCT, MAX, MIN = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MAX, ReduceOp.MIN


class DebugLevel(enum.IntEnum):
    OFF, INFO, DETAIL = range(3)


def get_debug_level():
    level = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if level not in DebugLevel.__members__:
        raise RuntimeError("The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL.")
    return DebugLevel[level]


def set_debug_level(level):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = DebugLevel(level).name


def set_debug_level_from_env():
    get_debug_level()


class Backend(str):
    """The name of a communication library, in lower case."""
    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL, FAKE = "undefined", "gloo", "nccl", "mpi", "ucc", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability = {GLOO: ["cpu", "cuda"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"], FAKE: ["cpu", "cuda", "hpu", "xpu"]}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


class BackendConfig:
    """Which backend serves which type of device: of "gloo" or "cpu:gloo,cuda:nccl"."""

    def __init__(self, backend):
        backend = str(backend)
        if backend == Backend.UNDEFINED:
            device = torch.accelerator.current_accelerator(check_available=True)
            kind = "cpu" if device is None else device.type
            if kind not in Backend.default_device_backend_map:
                raise ValueError(f"We detected accelerator {kind} on your machine. But we don't know which communication backend to use for this accelerator. "
                                 "Please specify the `backend` argument in the `init_process_group` call.")
            self.device_backend_map = {kind: Backend(Backend.default_device_backend_map[kind])}
        elif ":" in backend:
            self.device_backend_map = {}
            for pair in backend.lower().split(","):
                parts = pair.split(":")
                if len(parts) != 2:
                    raise ValueError(f"Invalid device:backend pairing: {pair}. The custom backend string argument is invalid: {backend}.")
                if parts[0] in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {parts[0]} in backend string: {backend}.")
                self.device_backend_map[parts[0]] = Backend(parts[1])
        else:
            self.device_backend_map = dict.fromkeys(Backend.backend_capability.get(backend.lower(), ("cpu", "cuda", "xpu")), Backend(backend))

    def get_device_backend_map(self):
        return self.device_backend_map

    def __repr__(self):
        return ",".join(f"{d}:{b}" for d, b in self.device_backend_map.items())


class _WorkFuture(Future):
    """What a work will have written. What is to be done with it is done by whoever waits."""

    def __init__(self, work, made=None):
        super().__init__()
        self._work, self._made = work, made

    def done(self):
        return self._done or self._work.is_completed()

    def wait(self):
        if not self._done:
            try:
                self._work.wait()
                self.set_result(self._made() if self._made else self._work.result())
            except Exception as error:
                self.set_exception(error)
        return super().value()

    def value(self):
        return self.wait()

    def then(self, callback):
        return _WorkFuture(self._work, lambda: callback(self))


class Work(_C._Work):
    """A call that was begun. Its tensors belong to it until wait() has returned."""

    def get_future(self):
        return _WorkFuture(self)

    def synchronize(self):
        self.wait()


_Work = Work


class ProcessGroup:
    """Some of the processes, numbered from 0. Made by init_process_group() and new_group()."""

    def __init__(self, group, rank, ranks, backend, name, store, timeout, desc, config, device):
        self._group, self._rank, self._ranks, self._backend_name = group, rank, ranks, backend
        self.group_name, self.group_desc, self._store, self._timeout, self._splits = name, desc, store, timeout, 0
        self._config, self.bound_device_id = config, device

    def rank(self):
        return self._rank

    def size(self):
        return len(self._ranks)

    def name(self):
        """The backend's name; of several that of devices."""
        served = self._config.get_device_backend_map()
        return str(next((b for d, b in served.items() if d != "cpu"), served.get("cpu")))

    def __len__(self):
        return len(self._ranks)

    def abort(self):
        self._group.abort("it was aborted")

    def shutdown(self):
        self._group.destroy()

    def _set_default_timeout(self, timeout):
        self._timeout = timeout

    @property
    def _device_types(self):
        served = self._config.get_device_backend_map()
        return [torch.device(d) for d in ("cuda", "cpu") if d in served]

    def _get_backend(self, device):
        if torch.device(device).type not in self._config.get_device_backend_map():
            raise RuntimeError(f"No backend type associated with device type {torch.device(device).type}")
        return self

    # The methods that programs call on a group; the functions below have the same arguments, and more.
    def allreduce(self, tensors, op=ReduceOp.SUM):
        return _begin(_ALL_REDUCE, self, outputs=_list(tensors), reduce=_op(op))

    def broadcast(self, tensors, root=0):
        return _begin(_BROADCAST, self, outputs=_list(tensors), root=root)

    def allgather(self, output, inputs):
        return _begin(_ALL_GATHER, self, _list(inputs), output[0] if isinstance(output[0], (list, tuple)) else output)

    def barrier(self, opts=None):
        return _begin(_BARRIER, self)

    def send(self, tensors, dst, tag):
        return _begin(_SEND, self, tensors, root=dst, tag=tag)

    def recv(self, tensors, src, tag):
        return _begin(_RECEIVE, self, outputs=tensors, root=src, tag=tag)


class _NCCLConfig:
    """What PyTorch tells NCCL when communicators are made; here they are made as NCCL likes, so nothing can be changed."""

    _standard = {"blocking": -1, "cga_cluster_size": -1, "min_ctas": -1, "max_ctas": -1, "split_share": -1, "net_name": None, "traffic_class": -1, "comm_name": None,
                 "collnet_enable": -1, "CTA_policy": -1, "shrink_share": -1, "nvls_ctas": -1}

    def __init__(self):
        vars(self).update(self._standard)

    def _changed(self):
        return [name for name, value in vars(self).items() if value != self._standard.get(name, value)]


class _NCCLOptions:
    """pg_options of groups with "nccl": is_high_priority_stream, and the timeout, which init_process_group's own argument replaces."""

    def __init__(self, is_high_priority_stream=False):
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = default_pg_nccl_timeout
        self.config = _NCCLConfig()
        self.backend, self.group_name, self.global_ranks_in_group = "nccl", "", []
        self.split_from, self.split_color = None, -1


ProcessGroup.Options = _NCCLOptions
ProcessGroupGloo = ProcessGroupNCCL = ProcessGroup


def _is_urgent(options, backends, timeout):
    """Checks pg_options of a group with these backends: do its streams come before others?"""
    if options is None or Backend.NCCL not in backends:
        return False
    if not isinstance(options, _NCCLOptions):
        raise AssertionError("Expected backend_options argument to be of type ProcessGroupNCCL.Options")
    if options.config._changed():
        raise NotImplementedError("ProcessGroupNCCL.Options: config.%s is not told to NCCL" % options.config._changed()[0])
    if options._timeout != timeout:
        warnings.warn("backend_options._timeout was specified, but timeout kwarg has a default value that will always override it. ", stacklevel=4)
    options._timeout = timeout
    return options.is_high_priority_stream


def _list(x):
    return [x] if isinstance(x, torch.Tensor) else x


class _GroupMeta(type):
    @property
    def WORLD(cls):
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, group):
        _world.default_pg = group


class group(metaclass=_GroupMeta):
    """group.WORLD: all processes."""


class GroupMember(metaclass=_GroupMeta):
    NON_GROUP_MEMBER = -100


_pg_map = {}  # group -> its backend's name and its store, in the order in which they were made


class _GroupRanks(collections.abc.MutableMapping):
    """group -> {rank in the job: rank in the group}"""

    def __getitem__(self, group):
        return {r: i for i, r in enumerate(group._ranks)}

    def __setitem__(self, group, ranks):
        group._ranks = sorted(ranks, key=ranks.get)

    def __delitem__(self, group):
        raise TypeError("a group has ranks as long as it is there: destroy_process_group()")

    def __iter__(self):
        return iter(_pg_map)

    def __len__(self):
        return len(_pg_map)


class _World:
    """The groups of this process."""

    def __init__(self):
        self.pg_map, self.pg_group_ranks = _pg_map, _GroupRanks()
        self.clear()

    def clear(self):
        self.default_pg, self.count = None, 0
        self.same_ranks = collections.Counter()     # groups that were named by their ranks
        _pg_map.clear()


_world = _World()


# ---- which group, which rank ----

def is_available():
    """Whether this build can communicate between processes."""
    return True


def is_initialized():
    """Whether there is a default process group."""
    return _world.default_pg is not None


def is_gloo_available():
    return _C._dist_missing("gloo") is None


def is_nccl_available():
    return _C._dist_missing("nccl") is None


def is_mpi_available():
    return _C._dist_missing("mpi") is None


def is_ucc_available():
    return False


def is_xccl_available():
    return False


def is_backend_available(backend):
    name = backend.lower()
    return name == "fake" or name in ("gloo", "mpi", "nccl") and _C._dist_missing(name) is None


def is_torchelastic_launched():
    """Whether a launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def _get_default_group():
    if _world.default_pg is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world.default_pg


def _get_default_store():
    return _get_default_group()._store


def _of(group):
    """The group that an argument means."""
    return _get_default_group() if group is None else group


def _rank_not_in_group(group):
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


_watchers = []  # functions of (name, functional) that are told of each call of a collective: see tensor.debug
_form = threading.local()


@contextlib.contextmanager
def _functional():
    """Calls inside belong to functions that return new tensors."""
    before, _form.functional = getattr(_form, "functional", False), True
    try:
        yield
    finally:
        _form.functional = before


def _outside(group, name):
    """Is this process no member? Then a call does nothing but say so. Those of members are told to who watches."""
    if not _rank_not_in_group(group):
        for watcher in _watchers:
            watcher(name, getattr(_form, "functional", False))
        return False
    warnings.warn(f"Running {name} on global rank {get_rank()} which does not belong to the given group.", stacklevel=3)
    return True


def get_rank(group=None):
    """The number of this process in the group; -1 outside of it."""
    if _rank_not_in_group(group):
        return -1
    return _of(group).rank()


def get_world_size(group=None):
    """How many processes the group has; -1 outside of it."""
    if _rank_not_in_group(group):
        return -1
    return _of(group).size()


def get_node_local_rank(fallback_rank=None):
    """The number of this process on its machine, of the environment."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
                       "assuming you are not running in a multi-device context and want the code to run locally instead.")


def get_group_rank(group, global_rank):
    """The number within the group of a process."""
    if global_rank not in group._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group._ranks.index(global_rank)


def get_global_rank(group, group_rank):
    """The number within all processes of a group's member."""
    if not 0 <= group_rank < len(group._ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group._ranks[group_rank]


def _get_global_rank(group, rank):
    warnings.warn("`torch.distributed.distributed_c10d._get_global_rank` is deprecated, please use `torch.distributed.distributed_c10d.get_global_rank` instead",
                  FutureWarning, stacklevel=2)
    return get_global_rank(group, rank)


def get_process_group_ranks(group):
    """The group's members, by their numbers within all processes."""
    return list(_of(group)._ranks)


def get_backend(group=None):
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    return Backend(_of(group)._backend_name)


def get_backend_config(group=None):
    return repr(_of(group)._config)


def get_default_backend_for_device(device):
    kind = device.type if isinstance(device, torch.device) else str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def get_pg_count():
    return _world.count


def supports_complex(reduceOp):
    """Whether complex numbers can be reduced so."""
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def _get_group_size(group):
    return get_world_size(group)


def _get_process_group_name(group):
    return group.group_name


def _device_capability(group=None):
    """The types of devices whose tensors the group takes."""
    return [d.type for d in _of(group)._device_types]


def _get_object_coll_device(group=None):
    """Where objects are communicated: the CPU, if the group takes its tensors."""
    kinds = _device_capability(group)
    return kinds[0] if kinds and "cpu" not in kinds else "cpu"


def _get_pg_default_device(group=None):
    return torch.device(_get_object_coll_device(group))


def _object_device(group, device=None):
    return torch.device(_get_object_coll_device(group) if device is None else device)


def _resolve_process_group(name):
    for g in _pg_map:
        if g.group_name == name:
            return g
    raise ValueError(f"Could not resolve the process group registered under the name {name}")


def _find_pg_by_ranks_and_tag(tag, ranks):
    return next((g for g in _pg_map if g._ranks == list(ranks)), None)


# ---- making groups ----

def _need(backend):
    """An error, where a backend is not there."""
    if backend not in Backend.backend_capability or backend in (Backend.UCC, Backend.XCCL):
        raise AssertionError(f"Unknown backend type {backend}")
    if backend == Backend.NCCL and not torch.cuda.is_available():
        raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
    if backend != Backend.FAKE and _C._dist_missing(str(backend)) is not None:
        raise RuntimeError(f"Distributed package doesn't have {backend.upper()}: {_C._dist_missing(str(backend))}")


def _make_group(store, rank, ranks, backend, timeout, name, desc, parent=None, device=None, options=None, part=0):
    shown = Backend(Backend.UNDEFINED if backend is None else backend)
    config = BackendConfig(shown)
    served = config.get_device_backend_map()
    for one in served.values():
        _need(one)
    if not isinstance(timeout, datetime.timedelta):
        raise TypeError("Expected timeout argument to be of type datetime.timedelta, got %s" % timeout)
    urgent = _is_urgent(options, served.values(), timeout)
    made = _C._Group(store, rank, len(ranks), str(served.get("cpu", "none")), name, timeout.total_seconds(), parent,
                     next((str(b) for d, b in served.items() if d != "cpu"), "none"), device, urgent, part)
    whole = ProcessGroup(made, rank, ranks, str(shown), name, store, timeout, desc, config, device)
    _pg_map[whole] = whole._backend_name, store
    return whole


def _new_process_group_helper(group_size, group_rank, global_ranks_in_group, backend, store, group_name, backend_options=None, timeout=None, pg_tag=None,
                              device_id=None, group_desc=None):
    """(group, its store) of processes that meet at a store, those of other jobs too: programs of reinforcement learning send weights so."""
    if group_name in {g.group_name for g in _pg_map}:
        raise ValueError("The specified group name has already been created, please use a different group name")
    store = PrefixStore(f"{group_name}/", store)
    group = _make_group(store, group_rank, list(global_ranks_in_group) or list(range(group_size)), backend, timeout or _get_default_timeout(backend and Backend(backend)),
                        group_name, group_desc or "undefined", None, device_id, backend_options)
    return group, store


def _get_default_timeout(backend):
    return default_pg_nccl_timeout if backend == Backend.NCCL else default_pg_timeout


def _check_device_id(device):
    """The accelerator that a process is bound to."""
    if isinstance(device, int):
        if torch.accelerator.current_accelerator() is None:
            raise ValueError("device_id is an int, but no accelerator support is found from the current compilation. Please use a different compiled version "
                             "that supports your accelerator.")
        device = torch.device(torch.accelerator.current_accelerator().type, device)
    if device.type == "cpu":
        raise ValueError("init_process_group device_id parameter must be an accelerator with an index")
    if device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.index >= torch.accelerator.device_count():
        raise ValueError(f"device_id {device} is out of range. Please use a device index less than the number of accelerators available: "
                         f"{torch.accelerator.device_count()}.")
    return device


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="", pg_options=None,
                       device_id=None, _ranks=None):
    """Meets the other processes of the job; all of them call this, and each waits until all have come."""
    if _world.default_pg is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None and (world_size <= 0 or rank < 0):
        raise AssertionError("world_size and rank must be positive if using store")
    if device_id is not None:
        device_id = _check_device_id(device_id)
        backend = backend or get_default_backend_for_device(device_id)
    timeout = timeout or _get_default_timeout(backend and Backend(backend))
    if backend is not None and Backend(backend) == Backend.FAKE and store is None:
        store = HashStore()
        world_size, rank = max(world_size, 1), max(rank, 0)
    if backend is not None and Backend(backend) == Backend.MPI and store is None and init_method is None:
        _need(Backend(backend))
        store, rank, world_size = _C._dist_meet_by_mpi(timeout.total_seconds())
        store = PrefixStore("default_pg", store)
    elif store is None:
        store, rank, world_size = next(iter(rendezvous(init_method or "env://", rank, world_size, timeout=timeout)))
        store.set_timeout(timeout)
        store = PrefixStore("default_pg", store)
    _world.default_pg = _make_group(store, rank, list(range(world_size)), backend, timeout, "0", "default_pg", device=device_id, options=pg_options)
    _world.count = 1


def destroy_process_group(group=None):
    """Ends a group, or without an argument all of them; the others are told."""
    if _rank_not_in_group(group):
        return
    if group is None and _world.default_pg is None:
        raise ValueError("Invalid process group specified or has been destroyed.")
    if group is None or group is _world.default_pg:
        for g in reversed(list(_pg_map)):
            g._group.destroy()
        _world.clear()
    else:
        if group not in _pg_map:
            raise ValueError("Invalid process group specified or has been destroyed.")
        del _pg_map[group]
        group._group.destroy()


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None, device_id=None,
              sort_ranks=True):
    """A group of some of the processes. All processes call this, also those that are not in it."""
    world = _get_default_group()
    ranks = list(range(world.size())) if ranks is None else sorted(ranks) if sort_ranks else list(ranks)
    if len(ranks) > world.size():
        raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
    if len(set(ranks)) != len(ranks):
        raise ValueError("the new group's ranks should be unique")
    if any(not 0 <= r < world.size() for r in ranks):
        raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    if device_id is not None and world.bound_device_id not in (None, device_id):
        raise AssertionError("Mismatched bound device between new pg and the default pg.")
    if use_local_synchronization and world.rank() not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    name = _name_of(ranks) if use_local_synchronization else str(_world.count)  # only members count, so the name is made of them
    _world.count += 1
    backend = backend or world._backend_name
    part = int(not use_local_synchronization and _can_be_split(world, backend))
    if world.rank() not in ranks:
        if part:
            world._group.in_no_part()
        return GroupMember.NON_GROUP_MEMBER
    below = PrefixStore(world.group_name + "/", world._store)
    return _make_group(below, ranks.index(world.rank()), ranks, backend, timeout or world._timeout, name,
                       group_desc or "undefined", world._group, device_id or world.bound_device_id, pg_options, part)


def _name_of(ranks):
    _world.same_ranks[tuple(ranks)] += 1
    return hashlib.sha1("_".join(map(str, ranks)).encode()).hexdigest() + "_" + str(_world.same_ranks[tuple(ranks)] - 1)


def _can_be_split(group, backend):
    """Are communicators of NCCL split off those that a group was made with? All of its processes have a part in that."""
    return group.bound_device_id is not None and all(Backend.NCCL in BackendConfig(Backend(b)).get_device_backend_map().values() for b in (group._backend_name, backend))


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Several groups at once; returns that of this process, and all."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    every = [r for ranks in ranks_per_subgroup_list for r in ranks]
    if len(set(every)) != len(every):
        raise ValueError("a rank is in several subgroups")
    groups = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    own = next((g for g, ranks in zip(groups, ranks_per_subgroup_list) if get_rank() in ranks), None)
    return own, groups


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of group_size neighbouring processes each."""
    world = get_world_size()
    if group_size is None and torch.cuda.is_available():
        group_size = torch.cuda.device_count()
    if group_size is None:
        raise ValueError("Default group size only takes effect when CUDA is available. If your subgroup using a backend that does not depend on CUDA, "
                         "please pass in 'group_size' correctly.")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if world < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({world})")
    if world % group_size:
        raise ValueError(f"The world size ({world}) must be divisible by '{group_size=}'")
    return new_subgroups_by_enumeration([list(range(r, r + group_size)) for r in range(0, world, group_size)], timeout, backend, pg_options, group_desc)


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """The group of this process among those that a group is split into."""
    parent = _of(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    for ranks in split_ranks:
        if not ranks:
            raise ValueError("the split group cannot be empty")
        if len(set(ranks)) != len(ranks):
            raise ValueError("the split group cannot have duplicate ranks")
        if any(not 0 <= r < parent.size() for r in ranks):
            raise ValueError("a split group has ranks that its parent has not")
    backend, desc = backend or parent._backend_name, group_desc or f"{parent.group_desc}:split:{parent._splits}"
    parent._splits += 1
    splits, part = _can_be_split(parent, backend), next((i for i, ranks in enumerate(split_ranks) if parent.rank() in ranks), None)
    if part is None:
        if splits:
            parent._group.in_no_part()
        return None
    own = sorted(split_ranks[part])
    ranks = [parent._ranks[r] for r in own]
    below = PrefixStore(parent.group_name + "/", parent._store)
    return _make_group(below, own.index(parent.rank()), ranks, backend, timeout or parent._timeout, _name_of(ranks), desc, parent._group,
                       parent.bound_device_id, pg_options, 1 + part if splits else 0)


# ---- collectives ----

class _PremulSum(int):
    """ReduceOp.PREMUL_SUM with its factor."""

    def __new__(cls, factor):
        made = super().__new__(cls, RedOpType.PREMUL_SUM)
        made.factor = float(factor)
        return made


def _make_nccl_premul_sum(factor):
    """A sum of tensors that each process multiplies by its factor before."""
    return _PremulSum(factor)


def _op(op):
    if isinstance(op, _PremulSum):
        return op
    op = RedOpType(op)
    if op > RedOpType.BXOR:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with Gloo")
    return int(op)


def _check(x, name, many=False):
    if many:
        if not isinstance(x, (list, tuple)) or not all(isinstance(t, torch.Tensor) for t in x):
            raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]")
    elif not isinstance(x, torch.Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor")


def _begin(kind, group, inputs=(), outputs=(), timeout=None, **options):
    group = _of(group)
    seconds = (timeout or group._timeout).total_seconds()
    if isinstance(options.get("reduce"), _PremulSum):
        options["factor"] = options["reduce"].factor
    return Work(group._group, kind, tuple(inputs), tuple(outputs), timeout=seconds, **options)


def _call(async_op, kind, group, inputs=(), outputs=(), **options):
    """Begins a call and, where nobody else will, waits for it."""
    work = _begin(kind, group, inputs, outputs, waits=not async_op and _coalescing.works is None, **options)
    if _coalescing.works is not None:
        _coalescing.works.append(work)
    return work if async_op else None


def _root(group, global_rank, group_rank, name, default=0):
    """The number within the group that one of two arguments means."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError(f"Can't specify both group_{name} and {name}")
        return group_rank
    return default if global_rank is None else get_group_rank(_of(group), global_rank) if group is not None else global_rank


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Every process gets the sum (or another combination) of all processes' tensors, in place."""
    _check(tensor, "tensor")
    if _outside(group, "all_reduce"):
        return None
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {RedOpType(op)} on complex tensors")
    if tensor.is_sparse:
        return _all_reduce_sparse(tensor, op, group, async_op)
    return _call(async_op, _ALL_REDUCE, group, outputs=[tensor], reduce=_op(op))


def _all_reduce_sparse(tensor, op, group, async_op):
    if op != ReduceOp.SUM or async_op:
        raise RuntimeError("sparse tensors are summed only, and not asynchronously")
    parts = [None] * get_world_size(group)
    tensor = tensor.coalesce_() if hasattr(tensor, "coalesce_") else tensor
    c = tensor.coalesce()
    all_gather_object(parts, (c.indices().cpu(), c.values().cpu()), group)
    total = torch.sparse_coo_tensor(torch.cat([i for i, _ in parts], 1), torch.cat([v for _, v in parts]), tensor.shape).coalesce()
    tensor.copy_(total.to(tensor.device))


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """all_reduce of several tensors as one."""
    _check(tensors, "tensors", True)
    if _outside(group, "all_reduce_coalesced"):
        return None
    return _call(async_op, _ALL_REDUCE, group, outputs=tensors, reduce=_op(op))


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Every process gets the tensor of process src, in place."""
    _check(tensor, "tensor")
    if _outside(group, "broadcast"):
        return None
    return _call(async_op, _BROADCAST, group, outputs=[tensor], root=_root(group, src, group_src, "src"))


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Process dst gets the sum (or another combination) of all processes' tensors, in place."""
    _check(tensor, "tensor")
    if _outside(group, "reduce"):
        return None
    return _call(async_op, _REDUCE, group, outputs=[tensor], root=_root(group, dst, group_dst, "dst"), reduce=_op(op))


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Every process gets the tensors of all."""
    _check(tensor_list, "tensor_list", True)
    _check(tensor, "tensor")
    if _outside(group, "all_gather"):
        return None
    for i, t in enumerate(tensor_list):
        if t.shape != tensor.shape:
            raise RuntimeError("ProcessGroupGloo::allgather: invalid tensor size at index %d (expected %s, got %s)"
                               % (i, _shape(tensor), _shape(t)))
    return _call(async_op, _ALL_GATHER, group, [tensor], tensor_list)


def _shape(t):
    return "(" + ", ".join(map(str, t.shape)) + ")"


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Every process gets the tensors of all in one, behind each other or stacked."""
    _check(input_tensor, "input_tensor")
    _check(output_tensor, "output_tensor")
    if _outside(group, "all_gather_into_tensor"):
        return None
    return _call(async_op, _ALL_GATHER, group, [input_tensor], [output_tensor])


_all_gather_base = all_gather_single = all_gather_into_tensor


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """all_gather of several tensors: output_tensor_lists[rank][i] is tensor i of a rank."""
    if _outside(group, "all_gather_coalesced"):
        return None
    flat = [t for one in output_tensor_lists for t in one]
    buffers = [torch.empty(sum(t.numel() for t in input_tensor_list), dtype=input_tensor_list[0].dtype, device=input_tensor_list[0].device) for _ in output_tensor_lists]
    work = _begin(_ALL_GATHER, group, [torch.cat([t.reshape(-1) for t in input_tensor_list])], buffers)
    work.wait()
    for t, part in zip(flat, torch.cat(buffers).split([t.numel() for t in flat])):
        t.copy_(part.view(t.shape))
    return work if async_op else None


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Process dst gets the tensors of all."""
    _check(tensor, "tensor")
    if _outside(group, "gather"):
        return None
    root = _root(group, dst, group_dst, "dst")
    if get_rank(group) == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _check(gather_list, "gather_list", True)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    return _call(async_op, _GATHER, group, [tensor], gather_list or (), root=root)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Every process gets one of the tensors that process src has."""
    _check(tensor, "tensor")
    if _outside(group, "scatter"):
        return None
    root = _root(group, src, group_src, "src")
    if get_rank(group) == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        _check(scatter_list, "scatter_list", True)
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return _call(async_op, _SCATTER, group, scatter_list or (), [tensor], root=root)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Of tensors per process, every process gets the sum (or another combination) of those for it."""
    _check(output, "output")
    _check(input_list, "input_list", True)
    if _outside(group, "reduce_scatter"):
        return None
    return _call(async_op, _REDUCE_SCATTER, group, input_list, [output], reduce=_op(op))


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Every process gets its part of the sum (or another combination) of all processes' tensors."""
    _check(output, "output")
    _check(input, "input")
    if _outside(group, "reduce_scatter_tensor"):
        return None
    return _call(async_op, _REDUCE_SCATTER, group, [input], [output], reduce=_op(op))


_reduce_scatter_base = reduce_scatter_single = reduce_scatter_tensor


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Every process sends a tensor to each and gets one from each."""
    _check(output_tensor_list, "output_tensor_list", True)
    _check(input_tensor_list, "input_tensor_list", True)
    if _outside(group, "all_to_all"):
        return None
    return _call(async_op, _ALL_TO_ALL, group, input_tensor_list, output_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Every process sends some rows of a tensor to each and gets some from each."""
    _check(output, "output")
    _check(input, "input")
    if _outside(group, "all_to_all_single"):
        return None
    return _call(async_op, _ALL_TO_ALL, group, [input], [output], in_splits=input_split_sizes or None, out_splits=output_split_sizes or None)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Returns when all processes have called it."""
    if _outside(group, "barrier"):
        return None
    group, device = _of(group), torch.device("cpu")
    if isinstance(device_ids, list):
        accelerator = torch.accelerator.current_accelerator()
        device = torch.device("cpu") if accelerator is None else torch.device(accelerator.type, device_ids[0])
    elif group.bound_device_id is not None:
        device = group.bound_device_id
    elif _get_object_coll_device(group) != "cpu":
        device = torch.device("cuda")  # that the group has used first, or the current one
        if group.rank() == 0:
            warnings.warn("barrier(): using the device under current context. You can specify `device_id` in `init_process_group` to mute this warning.",
                          stacklevel=2)
    return _call(async_op, _BARRIER, group, timeout=timeout, device=device)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """A barrier whose error names the processes that did not come."""
    if _outside(group, "monitored_barrier"):
        return
    if "cpu" not in _device_capability(group):
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    _begin(_MONITORED_BARRIER, group, timeout=timeout, wait_all=wait_all_ranks).wait()


# ---- messages ----

def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Begins to send a tensor to a process."""
    _check(tensor, "tensor")
    if _outside(group, "isend"):
        return None
    root = _root(group, dst, group_dst, "dst", None)
    if root == get_rank(group):
        raise ValueError("Invalid destination rank: destination rank should not be the same as the rank of the current process.")
    return _begin(_SEND, group, [tensor], root=root, tag=tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Begins to receive a tensor, in place, from a process or from any."""
    _check(tensor, "tensor")
    if _outside(group, "irecv"):
        return None
    root = _root(group, src, group_src, "src", -1)
    if root == get_rank(group):
        raise ValueError("Invalid source rank: source rank should not be the same as the rank of the current process.")
    return _begin(_RECEIVE, group, outputs=[tensor], root=root, tag=tag)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to a process."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor, in place, from a process or from any; returns from which."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return get_global_rank(_of(group), work.source_rank())


class P2POp:
    """One message of batch_isend_irecv."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.")
        _check(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, _of(group), tag
        self.group_peer = _root(group, peer, group_peer, "peer")
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self):
        return f"P2POp({self.op.__name__}, pg={self.group.group_desc}, peer={self.peer}, tag={self.tag}, shape={tuple(self.tensor.shape)})"


def batch_isend_irecv(p2p_op_list):
    """Begins several messages; returns their works."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(o, P2POp) for o in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    with _one_step():
        return [o.op(o.tensor, group=o.group, tag=o.tag, **{"group_dst" if o.op is isend else "group_src": o.group_peer}) for o in p2p_op_list]


@contextlib.contextmanager
def _one_step():
    """What is begun inside goes to the devices together, where their backend can do that."""
    _C._dist_step_begin()
    try:
        yield
    finally:
        _C._dist_step_end()


class _Coalescing:
    works = None


_coalescing = _Coalescing()


class _CoalescingManager:
    def __init__(self):
        self.works = []

    def append(self, work):
        self.works.append(work)

    def wait(self):
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Collectives inside are begun, and waited for at the end (or by wait() of what this gives)."""
    manager, before = _CoalescingManager(), _coalescing.works
    _coalescing.works = manager.works
    try:
        with _one_step():
            yield manager
    finally:
        _coalescing.works = before
    if not async_ops:
        manager.wait()


# ---- objects ----

class _Pickler(pickle.Pickler):
    pass


def _object_to_tensor(obj, device, group):
    """(bytes as a tensor, their number as a tensor); of whatever group, as in the next."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump(obj)
    data = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8).to(device)
    return data, torch.tensor([data.numel()], dtype=torch.int64, device=device)


def _tensor_to_object(tensor, tensor_size, group):
    data = tensor.cpu()
    return pickle.loads(ctypes.string_at(data.data_ptr(), int(tensor_size)))  # data is contiguous


def _padded(data, n):
    out = torch.zeros(n, dtype=torch.uint8, device=data.device)
    out[:data.numel()] = data
    return out


def _sizes(size, group):
    sizes = torch.zeros(get_world_size(group), dtype=torch.int64, device=size.device)
    all_gather_into_tensor(sizes, size, group)
    return sizes.tolist()


def all_gather_object(object_list, obj, group=None):
    """Every process gets the picklable objects of all."""
    if not _outside(group, "all_gather_object"):
        _gather_objects(object_list, obj, group)


def _gather_objects(object_list, obj, group, device=None):
    data, size = _object_to_tensor(obj, _object_device(group, device), group)
    sizes = _sizes(size, group)
    parts = [torch.empty(max(sizes), dtype=torch.uint8, device=data.device) for _ in sizes]
    all_gather(parts, _padded(data, max(sizes)), group)
    for i, (part, n) in enumerate(zip(parts, sizes)):
        object_list[i] = _tensor_to_object(part, n, group)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Process dst gets the picklable objects of all."""
    if _outside(group, "gather_object"):
        return
    root, rank = _root(group, dst, group_dst, "dst"), get_rank(group)
    if rank == root and not object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must be specified on destination rank.")
    if rank != root and object_gather_list:
        raise ValueError("Argument ``object_gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _object_to_tensor(obj, _object_device(group), group)
    sizes = _sizes(size, group)
    parts = [torch.empty(max(sizes), dtype=torch.uint8, device=data.device) for _ in sizes] if rank == root else None
    gather(_padded(data, max(sizes)), parts, group=group, group_dst=root)
    for i, part in enumerate(parts or ()):
        object_gather_list[i] = _tensor_to_object(part, sizes[i], group)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Every process gets the list of picklable objects of process src, in place."""
    if _outside(group, "broadcast_object_list"):
        return
    root = _root(group, src, group_src, "src")
    own, device = get_rank(group) == root, _object_device(group, device)
    packed = [_object_to_tensor(o, device, group) for o in object_list] if own else []
    sizes = torch.cat([n for _, n in packed]) if own else torch.empty(len(object_list), dtype=torch.int64, device=device)
    broadcast(sizes, group=group, group_src=root)
    data = torch.cat([d for d, _ in packed]) if own else torch.empty(int(sizes.sum()), dtype=torch.uint8, device=device)
    broadcast(data, group=group, group_src=root)
    if not own:
        for i, part in enumerate(data.split(sizes.tolist())):
            object_list[i] = _tensor_to_object(part, part.numel(), group)


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """Every process gets one of the picklable objects that process src has."""
    if _outside(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = _root(group, src, group_src, "src")
    own, device = get_rank(group) == root, _object_device(group)
    packed = [_object_to_tensor(o, device, group) for o in scatter_object_input_list] if own else []
    most = torch.tensor([max(int(n) for _, n in packed)] if own else [0], dtype=torch.int64, device=device)
    broadcast(most, group=group, group_src=root)
    data, size = torch.empty(int(most), dtype=torch.uint8, device=device), torch.zeros(1, dtype=torch.int64, device=device)
    scatter(data, [_padded(d, int(most)) for d, _ in packed] if own else None, group=group, group_src=root)
    scatter(size, [n for _, n in packed] if own else None, group=group, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(data, size, group)


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends picklable objects to a process."""
    if _outside(group, "send_object_list"):
        return
    packed = [_object_to_tensor(o, _object_device(group, device), group) for o in object_list]
    where = {"group": group, "group_dst": _root(group, dst, group_dst, "dst")}
    send(torch.cat([n for _, n in packed]), **where)
    send(torch.cat([d for d, _ in packed]), **where)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives picklable objects, in place, from a process or from any; returns from which."""
    if _outside(group, "recv_object_list"):
        return -1
    device = _object_device(group, device)
    sizes = torch.empty(len(object_list), dtype=torch.int64, device=device)
    source = recv(sizes, group=group, group_src=_root(group, src, group_src, "src", -1))
    data = torch.empty(int(sizes.sum()), dtype=torch.uint8, device=device)
    recv(data, group=group, group_src=get_group_rank(_of(group), source))
    for i, part in enumerate(data.split(sizes.tolist())):
        object_list[i] = _tensor_to_object(part, part.numel(), group)
    return source


# ---- options that only other languages' interfaces take ----

def _options(name, **fields):
    return type(name, (), {**fields, "__doc__": "Options of a call.", "__module__": __name__})


AllreduceOptions = _options("AllreduceOptions", reduceOp=ReduceOp.SUM)
AllreduceCoalescedOptions = _options("AllreduceCoalescedOptions", reduceOp=ReduceOp.SUM)
ReduceOptions = _options("ReduceOptions", reduceOp=ReduceOp.SUM, rootRank=0)
ReduceScatterOptions = _options("ReduceScatterOptions", reduceOp=ReduceOp.SUM)
BroadcastOptions = _options("BroadcastOptions", rootRank=0, rootTensor=0)
GatherOptions = _options("GatherOptions", rootRank=0)
ScatterOptions = _options("ScatterOptions", rootRank=0)
BarrierOptions = _options("BarrierOptions", device_ids=())
AllToAllOptions = _options("AllToAllOptions")
GroupName = str


def breakpoint(rank=0, skip=0, timeout_s=3600):
    """A debugger in one process; the others wait."""
    if get_rank() == rank:
        import pdb
        pdb.set_trace()
    barrier()


def _verify_params_across_processes(process_group, tensors, logger=None):
    shapes = [None] * get_world_size(process_group)
    device = None if "cpu" in _device_capability(process_group) else tensors[0].device
    _gather_objects(shapes, [(tuple(t.shape), str(t.dtype)) for t in tensors], process_group, device)
    for rank, other in enumerate(shapes):
        for i, (a, b) in enumerate(zip(shapes[get_rank(process_group)], other)):
            if a != b:
                raise RuntimeError(f"DDP expects same model across all ranks: parameter {i} is {a} on rank {get_rank(process_group)} and {b} on rank {rank}")
        if len(other) != len(tensors):
            raise RuntimeError(f"DDP expects same model across all ranks, but Rank {get_rank(process_group)} has {len(tensors)} params, "
                               f"while rank {rank} has inconsistent {len(other)} params.")


def _broadcast_coalesced(process_group, tensors, buffer_size, src=0):
    """Process src's tensors for all, in place, several at a time."""
    alike = collections.defaultdict(list)
    for t in tensors:
        alike[t.dtype, t.device].append(t.detach())
    for group_ in alike.values():
        _begin(_BROADCAST, process_group, outputs=group_, root=src).wait()


__all__ = [name for name in dir() if not name.startswith("_") and name not in (
    "collections", "contextlib", "ctypes", "datetime", "enum", "hashlib", "io", "os", "pickle", "warnings", "torch", "Future")]
