"""torch.fft: Fourier transforms. Each function is an operation of the registry whose name begins with fft_.

Arguments that many have: out: the tensor that takes the result; dtype, layout, device, pin_memory, requires_grad: of a tensor that is made.
"""
from rushlight import _C

_names = [_n[len("fft_"):] for _n in dir(_C._fft) if _n.startswith("fft_")]
globals().update({_n: getattr(_C._fft, "fft_" + _n) for _n in _names})
__all__ = sorted(_names)
