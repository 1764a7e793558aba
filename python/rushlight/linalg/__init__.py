"""torch.linalg: linear algebra. Each function is an operation of the registry whose name begins with linalg_; out: the tensor that takes the result."""
from rushlight import _C
from rushlight._C import _LinAlgError as LinAlgError

_names = [_n[len("linalg_"):] for _n in dir(_C._linalg) if _n.startswith("linalg_")]
globals().update({_n: getattr(_C._linalg, "linalg_" + _n) for _n in _names})
__all__ = ["LinAlgError"] + sorted(_names)
