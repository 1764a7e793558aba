"""Forward mode: tensors that carry a tangent."""
from typing import NamedTuple, Optional

import rushlight as torch
from rushlight import _C
from rushlight.autograd.grad_mode import _DecoratorContextManager

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

_current_level = -1


def enter_dual_level():
    """Open a level; dual tensors live until it is closed."""
    global _current_level
    level = _C._enter_dual_level()
    if level != _current_level + 1:
        raise RuntimeError("Entering a new forward AD level but the current level is not valid. Make sure you did not "
                           "modified it directly.")
    _current_level = level
    return level


def exit_dual_level(*, level=None):
    """Close a level: all tangents of it go."""
    global _current_level
    level = _current_level if level is None else level
    if level != _current_level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not "
                           "supported.")
    _C._exit_dual_level(level=level)
    _current_level = level - 1


def make_dual(tensor, tangent, *, level=None):
    """A view of tensor that carries tangent."""
    level = _current_level if level is None else level
    if level < 0:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    for value, name in ((tensor, "primal"), (tangent, "tangent")):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError("Expected %s to be floating point or complex, but got: %s" % (name, value.dtype))
    return torch._VF._make_dual(tensor, tangent, level=level)


class UnpackedDualTensor(NamedTuple):
    primal: "torch.Tensor"
    tangent: "Optional[torch.Tensor]"


def unpack_dual(tensor, *, level=None):
    """(primal, tangent); tangent is None where there is none."""
    level = _current_level if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = torch._VF._unpack_dual(tensor, level=level)
    return UnpackedDualTensor(primal, tangent)


class dual_level(_DecoratorContextManager):
    """Context manager: a level."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, exc_type, exc_value, traceback):
        exit_dual_level()


class _set_fwd_grad_enabled(_DecoratorContextManager):
    """Switch forward mode on or off."""

    def __init__(self, mode):
        self.prev = _C._is_fwd_grad_enabled()
        _C._set_fwd_grad_enabled(mode)

    def __enter__(self):
        return None

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_fwd_grad_enabled(self.prev)
