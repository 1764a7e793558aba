"""torch.backends.cudnn: switches of convolutions on CUDA devices."""
import contextlib
import sys

import rushlight as torch
from rushlight.backends import (ContextProp, PropModule, __allow_nonbracketed_mutation as _brackets, _FP32Precision, _state)

CUDNN_TENSOR_DTYPES = {torch.half, torch.float, torch.double}


def version():
    """cuDNN's version as one number; None where it is not used: without a device, on emulated ones, or without the library."""
    return torch._C._cuda_cudnn_version() or None


def is_available():
    return version() is not None


def is_acceptable(tensor):
    """Would cuDNN take it?"""
    return torch._C._get_cudnn_enabled() and tensor.is_cuda and tensor.dtype in CUDNN_TENSOR_DTYPES and is_available()


# ---- TF32: what float32 may be rounded to. An operation's own setting, or cuDNN's, or that of all backends.

_state["cudnn.allow_tf32"] = True


def _precision_changed():
    torch._C._cuda_switch("cudnn_tf32", conv.fp32_precision == "tf32")


def _read_precision():
    value = _state["cudnn.fp32_precision"]
    return _state["fp32_precision"] if value == "none" and _state["fp32_precision"] != "bf16" else value


def _write_precision(value):
    _FP32Precision.check(value, "cuda")
    _state["cudnn.fp32_precision"] = value
    _precision_changed()


conv, rnn = (_FP32Precision("cuda", op, "tf32", _read_precision, _precision_changed) for op in ("conv", "rnn"))
_state["cudnn.fp32_precision"] = "none"
_state["fp32_precision changed"].append(_precision_changed)


def _get_cudnn_allow_tf32():
    allowed = _state["cudnn.allow_tf32"]
    if (conv.fp32_precision == "tf32" and rnn.fp32_precision == "tf32") != allowed:
        raise RuntimeError("allow_tf32 was set to %s, and then fp32_precision of torch.backends.cudnn, its conv (%s) or its rnn (%s) to something else: "
                           "read fp32_precision instead" % (allowed, conv.fp32_precision, rnn.fp32_precision))
    return allowed


def _set_cudnn_allow_tf32(value):
    if type(value) is not bool:
        raise RuntimeError("set_allow_tf32_cublas expects a bool, but got " + type(value).__name__)
    _state["cudnn.allow_tf32"] = value
    conv.fp32_precision = rnn.fp32_precision = "tf32" if value else "none"


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None,
              _fp32_precision="none"):
    """Change switches; the old values come back."""
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")
    before = tuple(getattr(_module, name) for name in names[:5]) + (_state["cudnn.fp32_precision"],)
    for name, value in zip(names, (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32, _fp32_precision)):
        if value is not None:
            setattr(_module, name, value)
    return before


@contextlib.contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=True,
          fp32_precision="none"):
    """Other switches inside."""
    with _brackets():
        before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        with _brackets():
            set_flags(*before)


class CudnnModule(PropModule):
    enabled = ContextProp(torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled)
    benchmark = ContextProp(torch._C._get_cudnn_benchmark, torch._C._set_cudnn_benchmark)
    benchmark_limit = ContextProp(torch._C._cuda_get_cudnn_benchmark_limit, torch._C._cuda_set_cudnn_benchmark_limit)
    deterministic = ContextProp(torch._C._get_cudnn_deterministic, torch._C._set_cudnn_deterministic)
    allow_tf32 = ContextProp(_get_cudnn_allow_tf32, _set_cudnn_allow_tf32)
    fp32_precision = ContextProp(_read_precision, _write_precision)


_module = CudnnModule(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
