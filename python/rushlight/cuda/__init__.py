"""torch.cuda. Without a CUDA backend it answers as PyTorch's CPU build does: not available, and errors on use."""
import os
import threading
import traceback  # noqa: F401

import rushlight as torch
from rushlight import _C
from rushlight._utils import _get_device_index, _LazySeedTracker

_initialization_lock = threading.Lock()
_initialized = False
_lazy_seed_tracker = _LazySeedTracker()
_tls = threading.local()
has_half = True
has_magma = False
default_generators = ()


class _CudaDeviceProperties:
    """What a device is."""

    def __init__(self, of):
        self.__dict__.update(of)
        self.regs_per_multiprocessor, self.warp_size = 65536, 32
        self.gcnArchName, self.uuid = "", None

    def __repr__(self):
        return "_CudaDeviceProperties(name='%s', major=%d, minor=%d, total_memory=%dMB, multi_processor_count=%d)" % (
            self.name, self.major, self.minor, self.total_memory >> 20, self.multi_processor_count)


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
    return _C._cuda_why() is None


_pid = os.getpid()


def _is_in_bad_fork():
    return _initialized and os.getpid() != _pid


def is_available():
    """Whether CUDA can be used: with NVIDIA's driver, or emulated, which RUSHLIGHT_CUDA=emulated asks for."""
    return device_count() > 0


def device_count():
    return _C._device_count("cuda")


def is_initialized():
    return (_initialized or _C._cuda_used()) and not _is_in_bad_fork()


def _lazy_init():
    global _initialized, default_generators, _pid
    if _is_in_bad_fork():
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
                           "the 'spawn' start method")
    if _initialized:
        return
    if not _is_compiled():
        _C._cuda_need()  # says why
    with _initialization_lock:
        if not _initialized:
            _pid, _initialized = os.getpid(), True
            default_generators = tuple(_C._device_generator(torch.device("cuda", i)) for i in range(device_count()))


def init():
    _lazy_init()


def _lazy_call(callable, **kwargs):
    """Calls it where there are devices."""
    if is_available():
        _lazy_init()
        callable()


def _device(device=None):
    """The torch.device of a number, a text, a torch.device, or the current one."""
    _lazy_init()
    return torch.device("cuda", _get_device_index(device, optional=True))


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
    before = current_device()
    set_device(device)
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
        _lazy_init()
        _C._device_set_current(torch.device("cuda", index))


def current_device():
    _lazy_init()
    return _C._device_current("cuda")


def get_device_properties(device=None):
    return _CudaDeviceProperties(_C._cuda_properties(_device(device).index))


def get_device_name(device=None):
    """What the driver calls it; an emulated one says so."""
    return get_device_properties(device).name


def get_device_capability(device=None):
    properties = get_device_properties(device)
    return properties.major, properties.minor


def can_device_access_peer(device, peer_device):
    return _C._cuda_peer(_device(device).index, _device(peer_device).index)


def get_arch_list():
    return ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] if is_available() else []


def get_gencode_flags():
    return " ".join("-gencode compute=compute_%s,code=%s" % (arch.split("_")[1], arch) for arch in get_arch_list())


def synchronize(device=None):
    """Wait for all work of a device."""
    _C._device_synchronize(_device(device))


def ipc_collect():
    """Free the memory of tensors that other processes were sent and are done with."""
    _lazy_init()
    _C._cuda_ipc_collect()


def current_blas_handle():
    _lazy_init()
    raise NotImplementedError("torch.cuda.current_blas_handle: the library's handle is not shown")


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


def _generator(device=None):
    return _C._device_generator(_device(device))


def manual_seed(seed):
    seed = int(seed)
    _lazy_call(lambda: _generator().manual_seed(seed))


def manual_seed_all(seed):
    seed = int(seed)
    _lazy_call(lambda: [_generator(i).manual_seed(seed) for i in range(device_count())])


def seed():
    _lazy_call(lambda: _generator().seed())


def seed_all():
    _lazy_call(lambda: manual_seed_all(_generator().seed()))


def initial_seed():
    return _generator().initial_seed()


def _index_of(device):
    if isinstance(device, str):
        device = torch.device(device)
    return device.index if isinstance(device, torch.device) else device


def get_rng_state(device="cuda"):
    return _generator(_index_of(device)).get_state()


def get_rng_state_all():
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state, device="cuda"):
    new_state = new_state.clone()
    _lazy_call(lambda: _generator(_index_of(device)).set_state(new_state))


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
        _C._stream_set(stream.device, stream.stream_id)


def current_stream(device=None):
    """The stream that gets this thread's work."""
    device = _device(device)
    return Stream(device, stream_id=_C._stream_current(device))


def default_stream(device=None):
    return Stream(_device(device), stream_id=0)


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
