"""Window functions of M points. sym=False gives the periodic form: one more point, the last left out."""
import math
import operator

import rushlight as torch

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming", "hann", "kaiser", "nuttall"]


def _check(name, M, dtype, layout):
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not torch.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")


def _window(name, M, sym, values, dtype, layout, device, requires_grad):
    """values(k, n): the window at k = 0..M-1 of the symmetric window of n points."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    _check(name, M, dtype, layout)
    if M == 0 or M == 1:
        return torch.ones((int(M),), dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)
    M = operator.index(M)  # there is no window of half a point
    k = torch.arange(M, dtype=dtype, device=device)
    w = values(k, M if sym else M + 1)
    return w.requires_grad_() if requires_grad else w


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """exp(-|k - center| / tau)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def values(k, n):
        middle = (n - 1) / 2 if center is None else center
        return torch.exp(-(k - middle).abs() / tau)
    return _window("exponential", M, sym, values, dtype, layout, device, requires_grad)


def cosine(M, *, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """sin(pi (k + 1/2) / M)."""
    def values(k, n):
        return torch.sin((k + 0.5) * (math.pi / n))
    return _window("cosine", M, sym, values, dtype, layout, device, requires_grad)


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """exp(-((k - middle) / std)^2 / 2)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def values(k, n):
        return torch.exp(-(((k - (n - 1) / 2) / (std * math.sqrt(2))) ** 2))
    return _window("gaussian", M, sym, values, dtype, layout, device, requires_grad)


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(k, n):
        x = k * (2.0 / (n - 1)) - 1
        inside = torch.clamp(1 - x * x, min=0)
        top = torch.tensor(float(beta), dtype=k.dtype)
        return torch.i0(beta * torch.sqrt(inside)) / torch.i0(top)
    return _window("kaiser", M, sym, values, dtype, layout, device, requires_grad)


def general_cosine(M, *, a, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """Sum of (-1)^i a[i] cos(2 pi i k / (M - 1))."""
    try:
        a = list(a)
    except TypeError:
        raise TypeError("Coefficients must be a list/tuple") from None
    if not a:
        raise ValueError("Coefficients cannot be empty")

    def values(k, n):
        angle = k * (2 * math.pi / (n - 1))
        return sum((-1) ** i * c * torch.cos(i * angle) for i, c in enumerate(a))
    return _window("general_cosine", M, sym, values, dtype, layout, device, requires_grad)


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos(2 pi k / (M - 1))."""
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hamming(M, *, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """The Hamming window, alpha 0.54."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M, *, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """The Hann window, alpha 0.5."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def blackman(M, *, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """The Blackman window: coefficients 0.42, 0.5, 0.08."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def nuttall(M, *, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """Nuttall's four-term window, 1981."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


def bartlett(M, *, sym=True, dtype=None, layout=torch.strided, device=None, requires_grad=False):
    """The triangle 1 - |2 k / (M - 1) - 1|."""
    def values(k, n):
        return 1 - (k * (2.0 / (n - 1)) - 1).abs()
    return _window("bartlett", M, sym, values, dtype, layout, device, requires_grad)
