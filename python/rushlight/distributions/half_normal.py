"""The half-normal distribution."""
import math

from rushlight.distributions._half import Folded
from rushlight.distributions.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Folded):
    """The absolute value of a normal variable around 0."""

    _whole = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale.pow(2) * (1 - 2 / math.pi)
