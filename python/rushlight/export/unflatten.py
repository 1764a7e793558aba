"""Exported programs with their hierarchy of modules: not made yet; and tensors put into modules by name."""
from enum import Enum

import rushlight as torch


class _AttrKind(Enum):
    """What an attribute is to the module that has it."""
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    MODULE = "module"


def _assign_attr(from_obj, to_module, target, attr_kind, persistent=True):
    """Gives a module what it is to call "a.b.weight", with modules between; a tensor that is no parameter goes where it was a buffer."""
    *path, last = target.split(".")
    for name in path:
        if not hasattr(to_module, name):
            to_module.add_module(name, torch.nn.Module())
        to_module = getattr(to_module, name)
    if attr_kind is _AttrKind.PARAMETER:
        to_module.register_parameter(last, from_obj)
    elif attr_kind is _AttrKind.BUFFER:
        to_module.register_buffer(last, from_obj, persistent=persistent)
    elif attr_kind is _AttrKind.MODULE:
        to_module.add_module(last, from_obj)
    else:
        setattr(to_module, last, from_obj)


class InterpreterModule:
    """A module that runs a graph."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.export: programs are not captured yet")


class UnflattenedModule(InterpreterModule):
    """A program with its hierarchy of modules."""


class FlatArgsAdapter:
    """Fits arguments of one structure to another: a base class."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        raise NotImplementedError

    def get_flat_arg_paths(self):
        return []


def unflatten(module, flat_args_adapter=None):
    """An exported program with its hierarchy of modules."""
    raise NotImplementedError("torch.export.unflatten: programs are not captured yet")
