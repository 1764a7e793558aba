"""Padding layers: a rule (constant, reflect, replicate, circular) and a number of dimensions each."""
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple, _pair, _quadruple

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
           "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
           "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]

_sextuple = _ntuple(6)


class _ConstantPadNd(Module):
    __constants__ = ["padding", "value"]

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Add a constant at both ends.

    padding: how many elements each side gets, one number or (left, right). value: the constant.
    Shapes: input (N, C, L) or (C, L); the result is longer by padding.

    >>> nn.ConstantPad1d((2, 1), 9.)(torch.tensor([[1., 2., 3.]]))
    tensor([[9., 9., 1., 2., 3., 9.]])
    """

    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _pair(padding)


class ConstantPad2d(_ConstantPadNd):
    """Add a constant on four sides.

    padding: how many elements each side gets, one number or (left, right, top, bottom). value: the constant.
    Shapes: input (N, C, H, W) or (C, H, W); the result is longer by padding.

    >>> nn.ConstantPad2d((1, 2, 0, 1), 9.)(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 11, 15])
    """
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _quadruple(padding)


class ConstantPad3d(_ConstantPadNd):
    """Add a constant on six sides.

    padding: how many elements each side gets, one number or (left, right, top, bottom, front, back). value: the constant.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); the result is longer by padding.

    >>> nn.ConstantPad3d(1, 9.)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 8, 10, 10])
    """

    def __init__(self, padding, value):
        super().__init__(value)
        self.padding = _sextuple(padding)


class _RulePadNd(Module):
    """A padding whose values come from the input."""
    __constants__ = ["padding"]

    def forward(self, input):
        return F.pad(input, self.padding, self._rule)

    def extra_repr(self):
        return f"{self.padding}"


class _ReflectionPadNd(_RulePadNd):
    _rule = "reflect"


class _ReplicationPadNd(_RulePadNd):
    _rule = "replicate"


class _CircularPadNd(_RulePadNd):
    _rule = "circular"

    def _check_input_dim(self, input):
        raise NotImplementedError

    def forward(self, input):
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class ReflectionPad1d(_ReflectionPadNd):
    """Mirror both ends.

    padding: how many elements each side gets, one number or (left, right); less than the side.
    Shapes: input (N, C, L) or (C, L); the result is longer by padding.

    >>> nn.ReflectionPad1d((2, 1))(torch.tensor([[1., 2., 3.]]))
    tensor([[3., 2., 1., 2., 3., 2.]])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _pair(padding)


class ReflectionPad2d(_ReflectionPadNd):
    """Mirror four sides.

    padding: how many elements each side gets, one number or (left, right, top, bottom); less than the side.
    Shapes: input (N, C, H, W) or (C, H, W); the result is longer by padding.

    >>> nn.ReflectionPad2d((1, 2, 0, 1))(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 11, 15])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _quadruple(padding)


class ReflectionPad3d(_ReflectionPadNd):
    """Mirror six sides.

    padding: how many elements each side gets, one number or (left, right, top, bottom, front, back); less than the side.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); the result is longer by padding.

    >>> nn.ReflectionPad3d(1)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 8, 10, 10])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _sextuple(padding)


class ReplicationPad1d(_ReplicationPadNd):
    """Repeat both ends.

    padding: how many elements each side gets, one number or (left, right).
    Shapes: input (N, C, L) or (C, L); the result is longer by padding.

    >>> nn.ReplicationPad1d((2, 1))(torch.tensor([[1., 2., 3.]]))
    tensor([[1., 1., 1., 2., 3., 3.]])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _pair(padding)


class ReplicationPad2d(_ReplicationPadNd):
    """Repeat the edges.

    padding: how many elements each side gets, one number or (left, right, top, bottom).
    Shapes: input (N, C, H, W) or (C, H, W); the result is longer by padding.

    >>> nn.ReplicationPad2d((1, 2, 0, 1))(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 11, 15])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _quadruple(padding)


class ReplicationPad3d(_ReplicationPadNd):
    """Repeat the faces.

    padding: how many elements each side gets, one number or (left, right, top, bottom, front, back).
    Shapes: input (N, C, D, H, W) or (C, D, H, W); the result is longer by padding.

    >>> nn.ReplicationPad3d(1)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 8, 10, 10])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _sextuple(padding)


class CircularPad1d(_CircularPadNd):
    """Continue with the other end.

    padding: how many elements each side gets, one number or (left, right); at most the side.
    Shapes: input (N, C, L) or (C, L); the result is longer by padding.

    >>> nn.CircularPad1d((2, 1))(torch.tensor([[1., 2., 3.]]))
    tensor([[2., 3., 1., 2., 3., 1.]])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _pair(padding)

    def _check_input_dim(self, input):
        if input.dim() not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.dim()}D input)")


class CircularPad2d(_CircularPadNd):
    """Continue with the opposite side.

    padding: how many elements each side gets, one number or (left, right, top, bottom); at most the side.
    Shapes: input (N, C, H, W) or (C, H, W); the result is longer by padding.

    >>> nn.CircularPad2d((1, 2, 0, 1))(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 11, 15])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _quadruple(padding)

    def _check_input_dim(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"expected 3D or 4D input (got {input.dim()}D input)")


class CircularPad3d(_CircularPadNd):
    """Continue with the opposite face.

    padding: how many elements each side gets, one number or (left, right, top, bottom, front, back); at most the side.
    Shapes: input (N, C, D, H, W) or (C, D, H, W); the result is longer by padding.

    >>> nn.CircularPad3d(1)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 8, 10, 10])
    """

    def __init__(self, padding):
        super().__init__()
        self.padding = _sextuple(padding)

    def _check_input_dim(self, input):
        if input.dim() not in (4, 5):
            raise ValueError(f"expected 4D or 5D input (got {input.dim()}D input)")


class ZeroPad1d(ConstantPad1d):
    """Add zeros at both ends.

    padding: how many elements each side gets, one number or (left, right).
    Shapes: input (N, C, L) or (C, L); the result is longer by padding.

    >>> nn.ZeroPad1d((2, 1))(torch.tensor([[1., 2., 3.]]))
    tensor([[0., 0., 1., 2., 3., 0.]])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Add zeros on four sides.

    padding: how many elements each side gets, one number or (left, right, top, bottom).
    Shapes: input (N, C, H, W) or (C, H, W); the result is longer by padding.

    >>> nn.ZeroPad2d((1, 2, 0, 1))(torch.zeros(1, 3, 10, 12)).shape
    torch.Size([1, 3, 11, 15])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Add zeros on six sides.

    padding: how many elements each side gets, one number or (left, right, top, bottom, front, back).
    Shapes: input (N, C, D, H, W) or (C, D, H, W); the result is longer by padding.

    >>> nn.ZeroPad3d(1)(torch.zeros(1, 3, 6, 8, 8)).shape
    torch.Size([1, 3, 8, 10, 10])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"
