"""parallelize_module: which module is spread how."""
import fnmatch
import warnings

from .._api import _mesh
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def _children(module, words):
    """The modules that a path means; * and ? in it stand for parts of a name."""
    if not words:
        yield module
        return
    for name, child in module.named_children():
        if fnmatch.fnmatch(name, words[0]):
            yield from _children(child, words[1:])


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Spread a module by a style, or its parts by {path: style}."""
    mesh = _mesh(device_mesh)
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported at the moment, so this parallelize_module call will do nothing.", stacklevel=2)
        return module
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module takes a mesh of one dimension, not {mesh}: use mesh[\"tp\"] or the like")
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(f"Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, {type(parallelize_plan)} found!")
    for path, style in parallelize_plan.items():
        found = list(_children(module, path.split(".") if path else []))
        if not found:
            warnings.warn(f"Parallelize plan key '{path}' could not be resolved: no submodule matching pattern", stacklevel=2)
        for part in found:
            parallelize_module(part, mesh, style, src_data_rank=src_data_rank)
    return module
