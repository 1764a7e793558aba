"""torch.autograd.Function under the transforms: its vmap under vmap, its jvp in forward mode.

Forward mode here is the derivative of a backward that is linear in its cotangent. The backward of a Function that has a
jvp is, while forward mode runs, a node whose own backward calls that jvp; what it returns itself is of no account.
"""
from typing import NamedTuple

import rushlight as torch
from ..utils._pytree import tree_map
from . import draw_modes, levels
from .batched import BatchedTensor, by_example, top_level

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """What a Function's vmap is told of the batch."""

    batch_size: int
    randomness: str


def batched(function, args, plain):
    """function.apply(*args) while vmaps run; plain is the call that knows nothing of them."""
    level = top_level(args, {})
    if level is None:
        return plain(*args)
    name = function.__name__
    base = torch.autograd.Function
    if function.setup_context is base.setup_context:
        raise RuntimeError("In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override "
                           f"the setup_context staticmethod. {_MORE}")
    own = function.vmap is not base.vmap
    if own and function.generate_vmap_rule:
        raise RuntimeError(f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
                           f"Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. {_MORE}")
    if function.generate_vmap_rule:
        return by_example(function.apply, args, {}, level)
    if not own:
        raise RuntimeError(f"You tried to vmap over {name}, but it does not have vmap support. Please override and implement the vmap "
                           f"staticmethod or set generate_vmap_rule=True. {_MORE}")

    return by_rule(function.vmap, args, {}, level, f"the vmap staticmethod of {name}")


def by_rule(rule, args, kwargs, level, called):
    """What a rule for vmap, rule(info, in_dims, *args), makes of a call at this level."""
    def mine(x):
        return isinstance(x, BatchedTensor) and x.level == level
    info = VmapInfo(levels[level], draw_modes[level])
    inner = levels[level:], draw_modes[level:]
    del levels[level:], draw_modes[level:]  # it runs outside of this level
    try:
        made = rule(info, tuple(tree_map(lambda x: 0 if mine(x) else None, a) for a in args),
                    *tree_map(lambda x: x.value if mine(x) else x, args), **tree_map(lambda x: x.value if mine(x) else x, kwargs))
    finally:
        levels.extend(inner[0])
        draw_modes.extend(inner[1])
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(f"Expected {called} to have two returns, an output and out_dims with pytree structure "
                           f"compatible with the output. Got a {type(made)} instead")
    out, dims = made

    def back(x, d):
        return BatchedTensor(x.movedim(d, 0), level) if isinstance(x, torch.Tensor) and d is not None else x
    if isinstance(out, (tuple, list)):
        return type(out)(back(x, d) for x, d in zip(out, dims if isinstance(dims, (tuple, list)) else [dims] * len(out)))
    return back(out, dims[0] if isinstance(dims, tuple) else dims)


class _AtForward:
    """The ctx that jvp sees: the node's, with the tensors that were saved for forward."""

    def __init__(self, node):
        self._node = node

    def __getattr__(self, name):
        return getattr(self._node, name)

    @property
    def saved_tensors(self):
        saved = self._node.saved_for_forward
        return self._node.saved_tensors if saved is None else saved


class _Pushed(torch.autograd.Function):
    """Stands for the gradients of a Function's inputs; its own backward is the Function's jvp."""

    @staticmethod
    def forward(ctx, node, *cotangents):
        ctx.node = node
        return tuple(None if like is None else torch.ones(like[0], dtype=like[1], device=like[2]) for like in node.inputs_like)

    @staticmethod
    def backward(ctx, *tangents):
        out = ctx.node._forward_cls.jvp(_AtForward(ctx.node), *tangents)
        return (None, *(out if isinstance(out, tuple) else (out,)))


def remember(result, args):
    """After apply in forward mode: the node learns what its inputs were like."""
    for out in result if isinstance(result, tuple) else (result,):
        node = out.grad_fn if isinstance(out, torch.Tensor) else None
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            node.inputs_like = [(x.shape, x.dtype, x.device) if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) else None
                                for x in args]
            break
    return result


def pushed(node, cotangents):
    return _Pushed.apply(node, *cotangents)
