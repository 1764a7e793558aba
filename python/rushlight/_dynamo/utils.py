"""Helpers of torch._dynamo that packages ask."""


def is_compile_supported(device_type):
    """Whether functions on this device would be compiled: no."""
    return False


def guard_size_oblivious(x):
    return bool(x)


counters = {}
