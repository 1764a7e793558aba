"""torch.cuda. Without a CUDA backend it answers as PyTorch's CPU build does: not available, and errors on use."""
import threading
import traceback  # noqa: F401

import rushlight as torch
from rushlight import _C
from rushlight._utils import _get_device_index, _LazySeedTracker

_initialization_lock = threading.Lock()
_initialized = False
_queued_calls = []
_lazy_seed_tracker = _LazySeedTracker()
_tls = threading.local()
has_half = True
has_magma = False
default_generators = ()

_CudaDeviceProperties = getattr(_C, "_CudaDeviceProperties", type("_CudaDeviceProperties", (), {}))


class AcceleratorError(RuntimeError):
    """An error that a device reported."""


class CudaError(RuntimeError):
    """An error code of the CUDA runtime."""

    def __init__(self, code):
        super().__init__("CUDA error %s" % code)


class DeferredCudaCallError(Exception):
    """A call that waited for the device failed."""


OutOfMemoryError = getattr(_C, "OutOfMemoryError", None) or type("OutOfMemoryError", (RuntimeError,), {})


def _is_compiled():
    return hasattr(_C, "_cuda_getDeviceCount")


def _is_in_bad_fork():
    probe = getattr(_C, "_cuda_isInBadFork", None)
    return probe() if probe is not None else False


def is_available():
    """Whether CUDA can be used."""
    return _is_compiled() and _C._cuda_getDeviceCount() > 0


def device_count():
    return _C._cuda_getDeviceCount() if _is_compiled() else 0


def is_initialized():
    return _initialized and not _is_in_bad_fork()


def _lazy_init():
    global _initialized
    if _initialized:
        return
    if _is_in_bad_fork():
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
                           "the 'spawn' start method")
    if not _is_compiled():
        raise AssertionError("Torch not compiled with CUDA enabled")
    with _initialization_lock:
        if not _initialized:
            _C._cuda_init()
            _initialized = True
            for call in _queued_calls:
                call()


def init():
    _lazy_init()


def _lazy_call(callable, **kwargs):
    if is_initialized():
        callable()
    elif is_available():
        _queued_calls.append(callable)


def _native(name, *args):
    """A function of the CUDA backend."""
    _lazy_init()
    function = getattr(_C, name, None)
    if function is None:
        raise NotImplementedError("torch.cuda: the backend has no %s" % name)
    return function(*args)


def is_bf16_supported(including_emulation=True):
    return is_available() and get_device_properties(current_device()).major >= 8


def is_tf32_supported():
    return is_available() and get_device_properties(current_device()).major >= 8


# --- devices


class _DeviceGuard:
    def __init__(self, index):
        self.idx, self.prev_idx = index, -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *error):
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


def _exchange_device(device):
    if device < 0:
        return -1
    before = _native("_cuda_getDevice")
    _native("_cuda_setDevice", device)
    return before


_maybe_exchange_device = _exchange_device


class device:
    """Context manager: the current device inside."""

    def __init__(self, device):
        self.idx, self.prev_idx = _get_device_index(device, optional=True), -1

    def __enter__(self):
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *error):
        self.idx = _maybe_exchange_device(self.prev_idx)
        return False


class device_of(device):
    """Context manager: the current device is that of a tensor."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def set_device(device):
    index = _get_device_index(device)
    if index >= 0:
        _native("_cuda_setDevice", index)


def current_device():
    return _native("_cuda_getDevice")


def get_device_properties(device=None):
    return _native("_cuda_getDeviceProperties", _get_device_index(device, optional=True))


def get_device_name(device=None):
    return get_device_properties(device).name


def get_device_capability(device=None):
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device, peer_device):
    return _native("_cuda_canDeviceAccessPeer", _get_device_index(device), _get_device_index(peer_device))


def get_arch_list():
    return _C._cuda_getArchFlags().split() if is_available() and hasattr(_C, "_cuda_getArchFlags") else []


def get_gencode_flags():
    return " ".join("-gencode compute=compute_%s,code=%s" % (arch.split("_")[1], arch) for arch in get_arch_list())


def synchronize(device=None):
    _lazy_init()
    with torch.cuda.device(device):
        return _native("_cuda_synchronize")


def ipc_collect():
    return _native("_cuda_ipc_collect")


def current_blas_handle():
    return _native("_cuda_getCurrentBlasHandle")


def cudart():
    _lazy_init()
    raise NotImplementedError("torch.cuda.cudart: the CUDA runtime is not exposed")


def set_sync_debug_mode(debug_mode):
    _lazy_init()


def get_sync_debug_mode():
    _lazy_init()
    return 0


def _nvml(what):
    def ask(device=None):
        _lazy_init()
        raise NotImplementedError("torch.cuda.%s: NVML is not connected" % what)
    ask.__name__ = what
    return ask


memory_usage, utilization, temperature = _nvml("memory_usage"), _nvml("utilization"), _nvml("temperature")
power_draw, clock_rate, list_gpu_processes = _nvml("power_draw"), _nvml("clock_rate"), _nvml("list_gpu_processes")
device_memory_used = _nvml("device_memory_used")


# --- random numbers


def manual_seed(seed):
    seed = int(seed)
    _lazy_call(lambda: _C._cuda_manual_seed(current_device(), seed))


def manual_seed_all(seed):
    seed = int(seed)
    _lazy_call(lambda: [_C._cuda_manual_seed(i, seed) for i in range(device_count())])


def seed():
    _lazy_call(lambda: manual_seed(torch.default_generator.seed()))


def seed_all():
    _lazy_call(lambda: manual_seed_all(torch.default_generator.seed()))


def initial_seed():
    _lazy_init()
    return default_generators[current_device()].initial_seed()


def get_rng_state(device="cuda"):
    _lazy_init()
    index = torch.device(device).index if not isinstance(device, int) else device
    return _native("_cuda_getRNGState", current_device() if index is None else index)


def get_rng_state_all():
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="cuda"):
    index = torch.device(device).index if not isinstance(device, int) else device
    _lazy_call(lambda: _native("_cuda_setRNGState", current_device() if index is None else index, new_state))


def set_rng_state_all(new_states):
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


# --- streams, events, graphs: see streams.py and graphs.py


from rushlight.cuda.streams import Event, ExternalStream, Stream  # noqa: E402
from rushlight.cuda.graphs import (CUDAGraph, graph, graph_pool_handle, is_current_stream_capturing,  # noqa: E402
                                   make_graphed_callables)


class StreamContext:
    """Context manager: the current stream inside."""

    def __init__(self, stream):
        self.stream, self.src_prev_stream = stream, None

    def __enter__(self):
        if self.stream is not None and is_available():
            self.src_prev_stream = current_stream(None)
            set_stream(self.stream)

    def __exit__(self, *error):
        if self.stream is not None and self.src_prev_stream is not None:
            set_stream(self.src_prev_stream)


def stream(stream):
    return StreamContext(stream)


def set_stream(stream):
    if stream is not None:
        _native("_cuda_setStream", stream)


def current_stream(device=None):
    return _native("_cuda_getCurrentStream", _get_device_index(device, optional=True))


def default_stream(device=None):
    return _native("_cuda_getDefaultStream", _get_device_index(device, optional=True))


# --- memory: see memory.py


from rushlight.cuda.memory import *  # noqa: E402,F401,F403
from rushlight.cuda import memory, random  # noqa: E402,F401


class _LegacyTensor(type):
    """torch.cuda.FloatTensor(...): a tensor of that type on the current device."""

    def __call__(cls, *args, **kwargs):
        _lazy_init()
        return getattr(torch, cls.__name__)(*args, **kwargs).cuda()

    def __instancecheck__(cls, instance):
        return isinstance(instance, torch.Tensor) and instance.is_cuda and \
            instance.type() == "torch.cuda." + cls.__name__


for _name in torch._namespace._TENSOR_TYPES:
    globals()[_name] = _LegacyTensor(_name, (), {"__module__": "torch.cuda"})


def __getattr__(name):
    if name in ("amp", "comm", "graphs", "nccl", "nvtx", "profiler", "sparse", "streams", "tunable", "jiterator", "gds",
                "_utils"):
        import importlib
        return importlib.import_module("rushlight.cuda." + name)
    if name.endswith("Storage") and hasattr(torch.storage, name):
        return getattr(torch.storage, name)
    raise AttributeError("module 'torch.cuda' has no attribute '%s'" % name)
