"""A number where a tuple is wanted, and other small conversions of arguments.

(Apart from `modules/utils.py` because the functional forms need them before any layer is there.)
"""


def _ntuple(n, name="parse"):
    """A function that makes a number into an n-tuple and any iterable into a tuple."""
    def convert(x):
        if hasattr(x, "__iter__"):
            return tuple(x)
        return (x,) * n

    convert.__name__ = name
    return convert


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    """(1, 2, 3) with n=2 becomes (3, 3, 2, 2, 1, 1): `pad` counts from the last dimension."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    """`out_size` with every None replaced by the size that the input has there."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    tail = defaults[-len(out_size):]
    return [given if given is not None else default for given, default in zip(out_size, tail)]
