"""Exported programs as modules again: there are none yet."""


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
