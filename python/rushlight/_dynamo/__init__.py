"""Names of torch._dynamo that packages look up; functions run eagerly."""
import importlib

from ..compiler import (allow_in_graph, assume_constant_result, disable, is_compiling, is_dynamo_compiling, list_backends,  # noqa: F401
                        reset, substitute_in_graph)
from . import config, exc, utils  # noqa: F401
from .eval_frame import OptimizedModule  # noqa: F401
from .explaining import explain, graph_break  # noqa: F401


def optimize(*args, **kwargs):
    """A decorator that gives back what it decorates."""
    return lambda fn: fn


def disallow_in_graph(fn):
    return fn


def forbid_in_graph(fn):
    return fn


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
