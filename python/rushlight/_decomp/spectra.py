"""Rules of Fourier transforms of real numbers, by the one primitive that they have."""
import rushlight as torch

from . import rule

aten = torch.ops.aten


def _division(norm, forward):
    """What a transform divides by: 0 nothing, 1 the root of the length, 2 the length."""
    return {"ortho": 1, "forward": 2 if forward else 0}.get(norm, 0 if forward else 2)


def _of_size(x, n, dim):
    """Cut, or with zeros behind."""
    if n is None or n == x.shape[dim]:
        return x
    if n < x.shape[dim]:
        return aten.slice.Tensor(x, dim, 0, n)
    return aten.constant_pad_nd.default(x, [0, 0] * (x.dim() - dim - 1) + [0, n - x.shape[dim]] + [0, 0] * dim)


def _of_real(self, n, dim, norm, forward, half):
    if self.is_complex() or self.dtype in (torch.float16, torch.bfloat16):
        return NotImplemented
    dim = dim % self.dim()
    x = self if self.is_floating_point() else self.to(torch.get_default_dtype())
    return aten._fft_r2c.default(_of_size(x, n, dim), [dim], _division(norm, forward), half)


def _conjugated(x):
    return x if x is NotImplemented else aten._conj.default(x)


rule("fft_fft")(lambda self, n=None, dim=-1, norm=None: _of_real(self, n, dim, norm, True, False))
rule("fft_ifft")(lambda self, n=None, dim=-1, norm=None: _conjugated(_of_real(self, n, dim, norm, False, False)))
rule("fft_ihfft")(lambda self, n=None, dim=-1, norm=None: _conjugated(_of_real(self, n, dim, norm, False, True)))
