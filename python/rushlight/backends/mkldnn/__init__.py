"""torch.backends.mkldnn: oneDNN, the engine of matrix products and convolutions."""
import contextlib
import sys

import rushlight as torch
from rushlight.backends import (PropModule, __allow_nonbracketed_mutation as _brackets, _FP32Precision, _state,
                                switch)


def is_available():
    """Whether the library is built with oneDNN."""
    return torch._C._has_mkldnn


def is_acl_available():
    return False


VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


class verbose:
    """Context manager: oneDNN prints what it does (set ONEDNN_VERBOSE in the environment instead)."""

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision="none"):
    before = (_state["mkldnn.enabled"], _state["mkldnn.deterministic"], _state["mkldnn.allow_tf32"], "none")
    for name, value in (("enabled", _enabled), ("deterministic", _deterministic), ("allow_tf32", _allow_tf32)):
        if value is not None:
            _state["mkldnn." + name] = value
    return before


@contextlib.contextmanager
def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    with _brackets():
        before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        with _brackets():
            set_flags(*before)


class MkldnnModule(PropModule):
    enabled = switch("mkldnn.enabled", True)
    deterministic = switch("mkldnn.deterministic", False)
    allow_tf32 = switch("mkldnn.allow_tf32", False)
    fp32_precision = switch("mkldnn.fp32_precision", "none")
    matmul, conv, rnn = (_FP32Precision("mkldnn", op) for op in ("matmul", "conv", "rnn"))


_module = MkldnnModule(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
