"""ValueRanges: what a size that varies may be."""
import dataclasses
import math

from .numbers import int_oo

__all__ = ["ValueRanges", "ValueRangeError"]


class ValueRangeError(RuntimeError):
    pass


@dataclasses.dataclass(frozen=True, repr=False)
class ValueRanges:
    """From lower to upper, both within: whole numbers, floats or truths."""
    lower: object
    upper: object

    def __post_init__(self):
        if self.is_int:     # an end without bound is int_oo beside a whole number
            ends = {math.inf: int_oo, -math.inf: -int_oo, int(int_oo): int_oo, -int(int_oo): -int_oo}
            object.__setattr__(self, "lower", ends.get(self.lower, self.lower))
            object.__setattr__(self, "upper", ends.get(self.upper, self.upper))
        if self.lower > self.upper:
            raise ValueRangeError("Invalid ranges [%s:%s]" % (self.lower, self.upper))

    @property
    def is_bool(self):
        return isinstance(self.lower, bool)

    @property
    def is_int(self):
        return not self.is_bool and (isinstance(self.lower, int) or isinstance(self.upper, int))

    @property
    def is_float(self):
        return not self.is_bool and not self.is_int

    def __contains__(self, x):
        return self.lower <= x <= self.upper

    def __and__(self, other):
        return ValueRanges(max(self.lower, other.lower), min(self.upper, other.upper))

    def __or__(self, other):
        return ValueRanges(min(self.lower, other.lower), max(self.upper, other.upper))

    def tighten(self, other):
        return self & other

    def issubset(self, other):
        return other.lower <= self.lower and self.upper <= other.upper

    def is_singleton(self):
        return self.lower == self.upper

    @staticmethod
    def unknown():
        return ValueRanges(-math.inf, math.inf)

    @staticmethod
    def unknown_int():
        return ValueRanges(-int_oo, int_oo)

    @staticmethod
    def unknown_bool():
        return ValueRanges(False, True)

    @staticmethod
    def wrap(arg):
        return arg if isinstance(arg, ValueRanges) else ValueRanges(arg, arg)

    def __repr__(self):
        return "VR[%s, %s]" % tuple(str(x).replace("inf", "oo") if isinstance(x, float) else x for x in (self.lower, self.upper))
