"""torch.special: special functions. Each is an operation of the registry whose name begins with special_."""
from rushlight import _C

_names = [_n[len("special_"):] for _n in dir(_C._special) if _n.startswith("special_")]
globals().update({_n: getattr(_C._special, "special_" + _n) for _n in _names})
__all__ = sorted(_names)
