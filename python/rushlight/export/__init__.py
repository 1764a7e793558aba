"""torch.export: importable; programs are not captured yet, and export() says so."""
import importlib

from rushlight._functions_first import functions_first

__all__ = ["export", "save", "load", "Dim", "ExportedProgram", "register_dataclass"]


class ExportedProgram:
    """A captured program: none can be made yet."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.export: programs are not captured yet")


class _DimHint:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"DimHint({self.name})"


class Dim:
    """The name and bounds of a size that may vary."""
    AUTO, DYNAMIC, STATIC = _DimHint("AUTO"), _DimHint("DYNAMIC"), _DimHint("STATIC")

    def __init__(self, name, *, min=None, max=None):
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self):
        return f"Dim({self.__name__!r}, min={self.min}, max={self.max})"


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(), **more):
    """Captures a module as a program: not yet."""
    raise NotImplementedError("torch.export.export: programs are not captured yet")


export_for_training = export


def save(ep, f, **kwargs):
    raise NotImplementedError("torch.export.save: programs are not captured yet")


def load(f, **kwargs):
    raise NotImplementedError("torch.export.load: programs are not run yet")


def register_dataclass(cls, *, serialized_type_name=None):
    """Makes a dataclass a pytree node."""
    from ..utils import _pytree
    import dataclasses
    names = [f.name for f in dataclasses.fields(cls)]
    _pytree.register_pytree_node(cls, lambda x: ([getattr(x, n) for n in names], None), lambda values, _: cls(**dict(zip(names, values))))


functions_first(__name__, "unflatten")


def __getattr__(name):
    if name in ("unflatten", "UnflattenedModule", "FlatArgsAdapter"):
        return getattr(importlib.import_module(__name__ + ".unflatten"), name)
    raise AttributeError(f"module 'torch.export' has no attribute '{name}'")
