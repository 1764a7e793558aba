"""torch.export: modules as programs without Python; _capture.py says how they are captured, _archive.py how they are written."""
import importlib

from rushlight._functions_first import functions_first

__all__ = ["export", "save", "load", "Dim", "dims", "ExportedProgram", "ExportGraphSignature", "ExportBackwardSignature", "ModuleCallEntry", "ModuleCallSignature",
           "ShapesCollection", "AdditionalInputs", "default_decompositions", "register_dataclass", "unflatten", "UnflattenedModule", "FlatArgsAdapter", "draft_export",
           "CustomDecompTable"]

_HOMES = {"export": "_export", "save": "_archive", "load": "_archive", "Dim": "dynamic_shapes", "dims": "dynamic_shapes", "ShapesCollection": "dynamic_shapes",
          "AdditionalInputs": "dynamic_shapes", "Constraint": "dynamic_shapes", "_DimHint": "dynamic_shapes", "ExportedProgram": "exported_program",
          "ModuleCallEntry": "exported_program", "ModuleCallSignature": "exported_program", "default_decompositions": "exported_program",
          "ExportGraphSignature": "graph_signature", "ExportBackwardSignature": "graph_signature", "unflatten": "unflatten", "UnflattenedModule": "unflatten",
          "FlatArgsAdapter": "unflatten", "CustomDecompTable": "decomp_utils", "export_for_training": "_export", "draft_export": "_export"}


def register_dataclass(cls, *, serialized_type_name=None):
    """Makes a dataclass a pytree node."""
    from ..utils import _pytree
    import dataclasses
    names = [f.name for f in dataclasses.fields(cls)]
    _pytree.register_pytree_node(cls, lambda x: ([getattr(x, n) for n in names], None), lambda values, _: cls(**dict(zip(names, values))))


functions_first(__name__, "unflatten")


def __getattr__(name):
    if name in ("decomp_utils", "dynamic_shapes", "exported_program", "graph_signature"):
        return importlib.import_module(__name__ + "." + name)
    if name not in _HOMES:
        raise AttributeError(f"module 'torch.export' has no attribute '{name}'")
    home = importlib.import_module(__name__ + "." + _HOMES[name])
    value = getattr(home, {"export_for_training": "export", "draft_export": "export"}.get(name, name))
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_HOMES})
