"""Tensors that became constants of a compiled program."""
import contextlib
import threading

_state = threading.local()


def _freezing_active():
    """Whether a program's parameters are being made constants."""
    return getattr(_state, "freezing_active", False)


@contextlib.contextmanager
def enter_freezing():
    """Inside, parameters are made constants."""
    before, _state.freezing_active = _freezing_active(), True
    try:
        yield
    finally:
        _state.freezing_active = before


def is_frozen_param(t):
    """Whether a tensor was a parameter that became a constant."""
    return getattr(t, "_is_frozen_param", False)


def maybe_set_is_frozen_param(t):
    """Says so of a tensor that is made a constant."""
    if _freezing_active():
        t._is_frozen_param = True


def record_has_frozen_params(gm):
    """Notes that a module has such constants."""
    gm._has_frozen_params = True


def has_frozen_params(gm):
    return getattr(gm, "_has_frozen_params", False)
