"""Decorators that packages put on functions which describe exports."""


def parse_args(*arg_descriptors):
    """A decorator that gives back the function."""
    return lambda fn: fn


def quantized_args(*arg_q_descriptors, **kwargs):
    return lambda fn: fn
