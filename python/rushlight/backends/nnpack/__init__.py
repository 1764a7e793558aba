"""torch.backends.nnpack: a library for phones, which is not used."""
import contextlib

__all__ = ["is_available", "flags", "set_flags"]



def is_available():
    return False


def set_flags(_enabled):
    global _enabled_flag
    before = (_enabled_flag,)
    _enabled_flag = _enabled
    return before


_enabled_flag = False


@contextlib.contextmanager
def flags(enabled=False):
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before[0])
