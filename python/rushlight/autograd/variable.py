"""torch.autograd.Variable: tensors by their old name."""
import rushlight as torch
from rushlight import _C

__all__ = ["VariableMeta", "Variable"]


def variable(*args, **kwargs):
    """What made tensors before torch.tensor did."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


class VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, torch.Tensor)


class Variable(metaclass=VariableMeta):
    """Variable(tensor, requires_grad=False) returns a tensor."""

    _execution_engine = _C._ImperativeEngine()

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        tensor = torch.Tensor() if data is None else data.detach() if isinstance(data, torch.Tensor) \
            else torch.as_tensor(data)
        tensor.requires_grad = requires_grad
        return tensor


variable.Variable = Variable     # torch.autograd.variable is the function, and the way to the class
