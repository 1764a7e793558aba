"""Memory of CUDA devices: zeros before one is used."""
import collections
import contextlib
import warnings

import rushlight as torch

__all__ = ["caching_allocator_alloc", "caching_allocator_delete", "set_per_process_memory_fraction", "empty_cache",
           "memory_stats", "memory_stats_as_nested_dict", "reset_accumulated_memory_stats",
           "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "memory_allocated",
           "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached", "max_memory_cached",
           "memory_snapshot", "memory_summary", "mem_get_info", "get_allocator_backend", "CUDAPluggableAllocator",
           "change_current_allocator", "MemPool", "use_mem_pool", "get_per_process_memory_fraction",
           "host_memory_stats", "host_memory_stats_as_nested_dict", "reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats"]


def _stats(device=None):
    """The counts of tensors, and of what the allocator has taken for them."""
    if not torch.cuda.is_initialized():
        return {}
    device = torch.cuda._device(device)
    tensors, taken = torch._C._device_memory_stats(device), torch._C._cuda_memory(device.index)

    def of(current, peak, allocated=0, freed=0):
        return {"all": {"current": current, "peak": peak, "allocated": allocated, "freed": freed}}
    return {"allocated_bytes": of(taken["active"], taken["peak_active"]), "active_bytes": of(taken["active"], taken["peak_active"]),
            "requested_bytes": of(tensors["live_bytes"], tensors["peak_bytes"]),
            "allocation": of(tensors["live_blocks"], tensors["peak_blocks"], tensors["allocations"], tensors["frees"]),
            "reserved_bytes": of(taken["reserved"], taken["peak_reserved"]), "segment": of(taken["segments"], taken["segments"]),
            "inactive_split_bytes": of(taken["cached"], taken["cached"]), "num_alloc_retries": taken["retries"], "num_ooms": taken["out_of_memory"]}


def memory_stats(device=None):
    """Counters of the caching allocator, by dotted name."""
    flat = collections.OrderedDict()

    def walk(prefix, value):
        if isinstance(value, dict):
            for key, inner in sorted(value.items()):
                walk(prefix + "." + key if prefix else key, inner)
        else:
            flat[prefix] = value
    walk("", _stats(device))
    return flat


def memory_stats_as_nested_dict(device=None):
    return _stats(device)


def memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device=None):
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device=None):
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def empty_cache():
    """Give memory that is not in use back to the device."""
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            torch._C._cuda_memory_empty(index)


def reset_peak_memory_stats(device=None):
    if torch.cuda.is_available():
        torch._C._cuda_memory_reset_peak(torch.cuda._device(device).index)


def reset_accumulated_memory_stats(device=None):
    raise NotImplementedError("torch.cuda.reset_accumulated_memory_stats: counts of allocations are not set back")


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def host_memory_stats():
    return collections.OrderedDict()


def host_memory_stats_as_nested_dict():
    """host_memory_stats() by the parts of its names."""
    return {}


def reset_peak_host_memory_stats():
    return None


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats


def mem_get_info(device=None):
    """(free, total) bytes of a device."""
    return torch._C._cuda_memory_info(torch.cuda._device(device).index)


def set_per_process_memory_fraction(fraction, device=None):
    torch.cuda._lazy_init()
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 1:
        raise ValueError("Invalid fraction value: %s. Allowed range: 0~1" % fraction)
    torch._C._cuda_memory_fraction(torch.cuda._device(device).index, fraction)


def get_per_process_memory_fraction(device=None):
    return torch._C._cuda_memory(torch.cuda._device(device).index)["fraction"]


def memory_snapshot(mempool_id=None, include_traces=True):
    """A list of what the allocator has from the driver, segment by segment, with the blocks of each; of one pool if it is given."""
    segments = []
    if not torch.cuda.is_initialized():
        return segments
    for device in range(torch.cuda.device_count()):
        for address, size, busy, first, stream, pool, op, small, expandable in torch._C._cuda_memory_blocks(device):
            if mempool_id not in (None, pool):
                continue
            if first:
                segments.append({"device": device, "address": address, "total_size": 0, "allocated_size": 0, "active_size": 0, "requested_size": 0, "stream": stream,
                                 "segment_type": "small" if small else "large", "segment_pool_id": pool, "is_expandable": expandable, "frames": [], "blocks": []})
            segment = segments[-1]
            segment["blocks"].append({"address": address, "size": size, "requested_size": size if busy else 0,
                                      "state": "active_allocated" if busy else "inactive", "frames": [{"name": op, "filename": "??", "line": 0}] if busy else []})
            segment["total_size"] += size
            for name in ("allocated_size", "active_size", "requested_size"):
                segment[name] += size if busy else 0
    return segments


def memory_summary(device=None, abbreviated=False):
    """The counters as a table."""
    stats = memory_stats(device)
    return "\n".join("%-48s %d" % item for item in stats.items())


def get_allocator_backend():
    return "native"


def _set_allocator_settings(env):
    """What PYTORCH_ALLOC_CONF would say, from now on."""
    warnings.warn("torch.cuda._set_allocator_settings is deprecated. Use torch._C._accelerator_setAllocatorSettings instead.", FutureWarning, stacklevel=2)
    return torch._C._accelerator_setAllocatorSettings(env)


def _snapshot(device=None):
    return {"segments": memory_snapshot(), "device_traces": []}


def _dump_snapshot(filename="dump_snapshot.pickle"):
    import pickle
    with open(filename, "wb") as f:
        pickle.dump(_snapshot(), f)


def _record_memory_history(enabled="all", *args, **kwargs):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.memory._record_memory_history is not supported")


def caching_allocator_alloc(size, device=None, stream=None):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.caching_allocator_alloc is not supported")


def caching_allocator_delete(mem_ptr):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.caching_allocator_delete is not supported")


class CUDAPluggableAllocator:
    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        raise NotImplementedError("CUDAPluggableAllocator is not supported")


def change_current_allocator(allocator):
    raise NotImplementedError("change_current_allocator is not supported")


class MemPool:
    """Memory of devices that is used for nothing but what use_mem_pool() surrounds.

    use_on_oom: others take from it when there is no memory left; no_split: a segment of the driver's is one block.
    """

    def __init__(self, allocator=None, use_on_oom=False, no_split=False):
        self._id = None
        torch.cuda._lazy_init()
        if allocator is not None:
            raise NotImplementedError("torch.cuda.MemPool: an allocator of one's own is not supported")
        self._id = torch._C._cuda_pool_new(use_on_oom, no_split)

    def __del__(self):
        if self._id is not None:
            torch._C._cuda_pool_free(self._id)

    @property
    def id(self):
        return self._id

    def use_count(self):
        return torch._C._cuda_pool_users(self._id)

    def snapshot(self, include_traces=True):
        return memory_snapshot(self._id, include_traces)


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """This thread's tensors of the device are in the pool inside."""
    index = torch.cuda._device(device).index
    torch._C._cuda_pool_route(index, pool.id, True)
    try:
        yield
    finally:
        torch._C._cuda_pool_route(index, pool.id, False)
