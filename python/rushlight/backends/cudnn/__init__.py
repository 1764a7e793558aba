"""torch.backends.cudnn: switches of cuDNN, which the CPU build does not have."""
import contextlib
import sys

from rushlight.backends import (PropModule, __allow_nonbracketed_mutation as _brackets, _FP32Precision, _state,
                                switch)

CUDNN_TENSOR_DTYPES = set()


def version():
    return None


def is_available():
    return False


def is_acceptable(tensor):
    return False


_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
_DEFAULTS = (True, False, 10, False, True)


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None,
              _fp32_precision="none"):
    """Change switches; the old values come back."""
    before = tuple(_state["cudnn." + name] for name in _NAMES)
    for name, value in zip(_NAMES, (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)):
        if value is not None:
            _state["cudnn." + name] = value
    return before + ("none",)


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
    enabled, benchmark, benchmark_limit, deterministic, allow_tf32 = (
        switch("cudnn." + name, value) for name, value in zip(_NAMES, _DEFAULTS))
    conv, rnn = _FP32Precision("cuda", "conv"), _FP32Precision("cuda", "rnn")
    fp32_precision = switch("cudnn.fp32_precision", "none")


_module = CudnnModule(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
