"""Forward mode: tensors that carry a tangent.

A dual tensor is recorded like one that requires gradients. What it leads to is known when its tangent is asked for: the
gradients by the duals are linear in the cotangent, and the derivative of that linear map in the direction of the
tangents is the tangent of the result. So whatever has second derivatives has forward mode; what runs under no_grad has
no tangents.
"""
from typing import NamedTuple, Optional

import rushlight as torch
from rushlight import _C, _functorch
from rushlight.autograd.grad_mode import _DecoratorContextManager

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

_current_level = -1
_outer_grad = []  # whether gradients were recorded outside of the level: inside they are, for tangents under no_grad, too
# of the level that is open: (the tensor that was recorded, its tangent, the dual, whether the tensor had a graph, the node that
# made the dual, which it has until it is changed in place)
_duals = []


def enter_dual_level():
    """Open a level; dual tensors live until it is closed."""
    global _current_level
    if _current_level >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _current_level = 0
    _functorch.forward[0] += 1
    _outer_grad.append(torch.is_grad_enabled())
    torch.set_grad_enabled(True)
    return _current_level


def exit_dual_level(*, level=None):
    """Close a level: all tangents of it go."""
    global _current_level
    level = _current_level if level is None else level
    if level != _current_level:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not "
                           "supported.")
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    for *_, dual, behind, _ in _duals:
        if not behind:
            dual.detach_()
    _duals.clear()
    _current_level = level - 1
    _functorch.forward[0] -= 1
    torch.set_grad_enabled(_outer_grad.pop())


class _Recorded(torch.autograd.Function):
    """The tensor itself, sharing its memory, but a result in the graph, so that it can be changed in place."""

    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, g):
        return g


def make_dual(tensor, tangent, *, level=None):
    """A view of tensor that carries tangent."""
    level = _current_level if level is None else level
    if level < 0:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    for value, name in ((tensor, "primal"), (tangent, "tangent")):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError("Expected %s to be floating point or complex, but got: %s" % (name, value.dtype))
    if tensor.shape != tangent.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                           "not supported. Tensor is of size %s while the given forward gradient is of size %s."
                           % (list(tensor.shape), list(tangent.shape)))
    if any(dual is tensor for _, _, dual, *_ in _duals):
        raise RuntimeError("Making a dual Tensor based on a Tensor that already has a forward gradient at the same level %d is not "
                           "supported." % level)
    with torch.enable_grad():
        source = _Recorded.apply(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
        dual = _Recorded.apply(source)
    _duals.append((source, tangent, dual, tensor.requires_grad, dual.grad_fn))
    return dual


class UnpackedDualTensor(NamedTuple):
    primal: "torch.Tensor"
    tangent: "Optional[torch.Tensor]"


def _pushed(tensor):
    """(the tangent of a result, None where no dual leads to it; the leaves that only stand for the duals)"""
    if not tensor.requires_grad or not _duals:
        return None, []
    with torch.enable_grad():
        cotangent = torch.ones_like(tensor).requires_grad_()  # not zeros: some derivatives branch on their sign
        own = [source for source, *_ in _duals if source.is_leaf] + [cotangent]
        _functorch.pushing[0] += 1
        try:
            pulled = torch.autograd.grad(tensor, [source for source, *_ in _duals], cotangent, retain_graph=True, create_graph=True,
                                         allow_unused=True)
        finally:
            _functorch.pushing[0] -= 1
        reached = [(g, tangent) for g, (_, tangent, *_) in zip(pulled, _duals) if g is not None]
        if not reached:
            return None, own
        moving = [(g, tangent.to(g.dtype)) for g, tangent in reached if g.requires_grad]
        if not moving:  # the gradient does not depend on the cotangent: it is zero
            return torch.zeros_like(tensor), own
        tangent, = torch.autograd.grad([g for g, _ in moving], [cotangent], [t for _, t in moving], retain_graph=True, create_graph=True,
                                       allow_unused=True)
    return torch.zeros_like(tensor) if tangent is None else tangent, own


def unpack_dual(tensor, *, level=None):
    """(primal, tangent); tangent is None where there is none."""
    level = _current_level if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    for _, given, dual, behind, node in _duals:
        if dual is tensor and dual.grad_fn is node:
            return UnpackedDualTensor(tensor if behind and _outer_grad[-1] else tensor.detach(), given)
    tangent, own = _pushed(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    from rushlight._functorch.transforms import leads_beyond
    return UnpackedDualTensor(*(t if _outer_grad[-1] and leads_beyond([t], own) else t.detach() for t in (tensor, tangent)))


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
