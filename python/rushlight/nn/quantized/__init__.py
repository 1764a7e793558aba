"""Operations as modules, which quantization can observe; before it does they are plain arithmetic."""
import rushlight as torch
from rushlight.nn.modules.linear import Identity
from rushlight.nn.modules.module import Module

__all__ = ["FloatFunctional", "FXFloatFunctional"]


class FXFloatFunctional(Module):
    """Arithmetic by name: add, mul, cat and their combinations with relu."""

    def forward(self, x):
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def _seen(self, x):
        return x

    def add(self, x, y):
        """x + y."""
        return self._seen(torch.add(x, y))

    def add_scalar(self, x, y):
        """x + a number; not observed."""
        return torch.add(x, y)

    def mul(self, x, y):
        """x * y."""
        return self._seen(torch.mul(x, y))

    def mul_scalar(self, x, y):
        """x * a number; not observed."""
        return torch.mul(x, y)

    def cat(self, x, dim=0):
        """Tensors joined along dim."""
        return self._seen(torch.cat(x, dim=dim))

    def add_relu(self, x, y):
        """relu(x + y)."""
        return self._seen(torch.nn.functional.relu(torch.add(x, y)))

    def matmul(self, x, y):
        """The matrix product."""
        return self._seen(torch.matmul(x, y))


class FloatFunctional(FXFloatFunctional):
    """As FXFloatFunctional, with a place for the observer of its results."""

    def __init__(self):
        super().__init__()
        self.activation_post_process = Identity()

    def _seen(self, x):
        return self.activation_post_process(x)


def __getattr__(name):
    if name in ("dynamic", "modules"):
        import importlib
        return importlib.import_module("rushlight.nn.quantized." + name)
    from rushlight.ao.nn.quantized import layer
    return layer("nn.quantized", name)
