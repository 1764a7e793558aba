"""int_oo: the bound of a whole number that has none."""

__all__ = ["int_oo", "IntInfinity", "NegativeIntInfinity"]


class _Unbounded(int):
    """The last number of 64 bits on its side, where sums and products stay. There is one of each class."""

    def __new__(cls):
        return cls.it

    def __getnewargs__(self):
        return ()

    def __add__(self, other):
        return self

    __radd__ = __sub__ = __add__

    def __rsub__(self, other):
        return -self

    def __mul__(self, other):
        return self if other > 0 else -self

    __rmul__ = __mul__

    def __neg__(self):
        return NegativeIntInfinity.it if self is int_oo else int_oo

    def __abs__(self):
        return int_oo

    def __float__(self):
        return float(repr(self).replace("int_oo", "inf"))

    def __repr__(self):
        return "int_oo" if self is int_oo else "-int_oo"


class IntInfinity(_Unbounded):
    pass


class NegativeIntInfinity(_Unbounded):
    pass


IntInfinity.it = int_oo = int.__new__(IntInfinity, 2 ** 63 - 1)
NegativeIntInfinity.it = int.__new__(NegativeIntInfinity, 1 - 2 ** 63)
