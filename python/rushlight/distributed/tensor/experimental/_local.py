"""Functions on pieces among functions on whole tensors, copies that are taken for granted, and rules for operations of one's own."""
import contextlib
import functools

import rushlight as torch

from .. import _dispatch, _rules
from .._api import DTensor
from ..placement_types import Placement

__all__ = ["implicit_replication", "local_map", "register_sharding"]


@contextlib.contextmanager
def implicit_replication():
    """Inside, tensors that meet DTensors are taken for copies that all processes have."""
    before, _dispatch.plain_is_copy = _dispatch.plain_is_copy, True
    try:
        yield
    finally:
        _dispatch.plain_is_copy = before


def _one_each(placements):
    """A single list of placements is that of the only one."""
    return (placements,) if placements is None or placements and isinstance(placements[0], Placement) else tuple(placements)


def _piece_of(x, mesh, wanted, grads, redistribute):
    if not isinstance(x, DTensor):
        if isinstance(x, torch.Tensor) and wanted is not None:
            raise RuntimeError("local_map: in_placements of a tensor that is no DTensor have to be None")
        return x
    if wanted is None:
        raise AssertionError("local_map: in_placements of a DTensor cannot be None")
    if tuple(x.placements) != tuple(wanted):
        if not redistribute:
            raise ValueError(f"arg {x} in local_map has a mismatched placements: arg placements is {x.placements} but the input placements is {wanted}! "
                             "If redistribute_inputs is wanted, set redistribute_inputs=True to local_map.")
        x = x.redistribute(mesh, wanted)
    return x.to_local(grad_placements=grads)


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *, redistribute_inputs=False, track_variant_dims=False):
    """func runs on the pieces of its DTensors; what it returns are pieces of out_placements."""
    if func is None:
        return functools.partial(local_map, out_placements=out_placements, in_placements=in_placements, in_grad_placements=in_grad_placements,
                                 device_mesh=device_mesh, redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def on_pieces(*args, **kwargs):
        mesh = device_mesh or next((a.device_mesh for a in args if isinstance(a, DTensor)), None)
        if in_placements is not None and len(in_placements) != len(args):
            raise AssertionError(f"in_placements length {len(in_placements)} does not match the number of input args {len(args)}!")
        pieces = []
        for i, a in enumerate(args):
            wanted = in_placements[i] if in_placements is not None else a.placements if isinstance(a, DTensor) else None
            pieces.append(_piece_of(a, mesh, wanted, in_grad_placements[i] if in_grad_placements is not None else None, redistribute_inputs))
        out = func(*pieces, **kwargs)
        if mesh is None:
            return out
        many = isinstance(out, (tuple, list))
        outs, wanted = (tuple(out) if many else (out,)), _one_each(out_placements)
        if len(outs) != len(wanted):
            raise AssertionError(f"local_map requires one PlacementType be provided for each output value, received {len(wanted)} out_placements but {len(outs)} is expected!")
        made = tuple(o if p is None else DTensor.from_local(o, mesh, p, run_check=False) for o, p in zip(outs, wanted))
        return made if many else made[0]
    return on_pieces


def register_sharding(op):
    """A decorator: function(*args of op) returns [([placement of each result], [of each argument, None where it is no tensor])]."""
    ops = op if isinstance(op, (list, tuple)) else [op]

    def register(function):
        def rule(call):
            specs = iter([_rules.Shaped(shape) for shape in call.shapes])
            args = [next(specs) if isinstance(a, torch.Tensor) else a for a in call.args]
            named = {k: next(specs) if isinstance(a, torch.Tensor) else a for k, a in call.kwargs.items()}
            choices = [call.copies]
            for outs, ins in function(*args, **named):
                choices.append((tuple(p for p in ins if p is not None), tuple(outs)))
            return choices
        for each in ops:
            name = each._opname if hasattr(each, "_opname") else each.__name__
            _rules.RULES[name] = rule
        return function
    return register
