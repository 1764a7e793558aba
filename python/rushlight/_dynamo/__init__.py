"""torch._dynamo: backends of torch.compile, what keeps functions from it, and names that packages look up."""
import collections
import contextlib
import importlib

import rushlight as torch

from ..compiler import allow_in_graph, assume_constant_result, disable, is_compiling, is_dynamo_compiling, reset, set_stance, substitute_in_graph  # noqa: F401
from . import config, exc, utils  # noqa: F401
from .backends.registry import list_backends, lookup_backend, register_backend  # noqa: F401
from .eval_frame import OptimizedModule  # noqa: F401
from .explaining import explain, graph_break  # noqa: F401


ExportResult = collections.namedtuple("ExportResult", "graph_module guards")


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


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """Sizes need no marks: every call sees them as they are."""


def mark_static(t, index=None):
    """The same."""


maybe_mark_dynamic = mark_unbacked = mark_dynamic


def mark_static_address(t, guard=False):
    """Addresses need no marks."""


def run(fn=None):
    return (lambda f: f) if fn is None else fn


dont_skip_tracing = nonstrict_trace = run  # Python runs in every call: nothing is skipped, and nothing is traced by its text


@contextlib.contextmanager
def error_on_graph_break(error_on_graph_break):
    """A context or decorator that is taken and changes nothing: graphs end where Python needs a value. fullgraph=True makes that an error."""
    yield


def patch_dynamo_config(arg1=None, arg2=None, **kwargs):
    """torch._dynamo.config.patch."""
    return config.patch(*(a for a in (arg1, arg2) if a is not None), **kwargs)


def is_dynamo_supported():
    """True: torch.compile needs neither a compiler nor a version of Python of its own."""
    return True


def export(f, *extra_args, aten_graph=False, pre_dispatch=False, decomposition_table=None, tracing_mode="symbolic", dynamic_shapes=None,
           specialize_float=True, assume_static_by_default=False, same_signature=True, disable_constraint_solver=False,
           prefer_deferred_runtime_asserts_over_guards=False, _log_export_usage=True, constraints=None, **extra_kwargs):
    """A function of f's arguments that returns the graph of a call, and guards: torch.export by its old name.

    The GraphModule takes f's arguments, has the parameters of a module as attributes and calls operations (torch.ops.aten), whether or not aten_graph
    asks for them. There are no guards (an empty set). With arguments behind f the result is given at once.
    """
    def inner(*args, **kwargs):
        module = f if isinstance(f, torch.nn.Module) else _Function(f)
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
        if decomposition_table is not None:
            program = program.run_decompositions(decomposition_table)
        return ExportResult(program.module(check_guards=False), set())
    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


class _Function(torch.nn.Module):
    """A function that is exported."""

    def __init__(self, function):
        super().__init__()
        self.__dict__["forward"] = function


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
