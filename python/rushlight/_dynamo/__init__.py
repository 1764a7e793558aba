"""torch._dynamo: backends of torch.compile, what keeps functions from it, and names that packages look up."""
import importlib

import rushlight as torch

from ..compiler import allow_in_graph, assume_constant_result, disable, is_compiling, is_dynamo_compiling, reset, substitute_in_graph  # noqa: F401
from . import config, exc, utils  # noqa: F401
from .backends.registry import list_backends, lookup_backend, register_backend  # noqa: F401
from .eval_frame import OptimizedModule  # noqa: F401
from .explaining import explain, graph_break  # noqa: F401


def optimize(backend="inductor", *, nopython=False, guard_export_fn=None, guard_fail_fn=None, disable=False, dynamic=None, **ignored):
    """A decorator that compiles: torch.compile by its old name. nopython: fullgraph."""
    return torch.compile(backend=backend, fullgraph=nopython, disable=disable, dynamic=dynamic)


def optimize_assert(backend, **more):
    """The same, where a place that ends a graph is an error."""
    return optimize(backend, nopython=True)


def disallow_in_graph(fn):
    """fn, which runs operation by operation between graphs."""
    return disable(fn)


def forbid_in_graph(fn):
    """fn, whose call in a compiled function is an error with fullgraph."""
    return disable(fn)


def mark_dynamic(t, index, *args, **kwargs):
    """Sizes need no marks: every call sees them as they are."""


mark_static = maybe_mark_dynamic = mark_unbacked = mark_dynamic


def mark_static_address(t, guard=True):
    """Addresses need no marks."""


def run(fn=None):
    return (lambda f: f) if fn is None else fn


def export(f, *args, **kwargs):
    raise NotImplementedError("torch._dynamo.export: graphs are not captured yet")


def reset_code_caches():
    """Nothing is compiled, so nothing is kept."""


def reset_frame_count():
    """Of what was compiled: nothing."""


def __getattr__(name):
    if name in ("testing", "backends", "external_utils"):
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")


def is_inductor_supported():
    return False
