"""torch.backends.mps"""
from rushlight import _C

__all__ = ["is_built", "is_available", "is_macos13_or_newer", "is_macos_or_newer", "get_name", "get_core_count"]


def is_built():
    return False


def is_available():
    return _C._mps_is_available()


def is_macos_or_newer(major, minor):
    return _C._mps_is_on_macos_or_newer(major, minor)


def is_macos13_or_newer(minor=0):
    return False


def get_name():
    raise RuntimeError("the MPS backend is not available")


get_core_count = get_name
