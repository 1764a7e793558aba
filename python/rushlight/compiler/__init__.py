"""torch.compile and torch.compiler: functions run eagerly; there is no compiled form of them yet."""
import contextlib
import functools

import rushlight as torch

__all__ = ["compile", "assume_constant_result", "reset", "allow_in_graph", "substitute_in_graph", "list_backends", "disable", "set_stance",
           "set_enable_guard_collectives", "cudagraph_mark_step_begin", "wrap_numpy", "is_compiling", "is_dynamo_compiling", "is_exporting",
           "save_cache_artifacts", "load_cache_artifacts", "skip_guard_on_inbuilt_nn_modules_unsafe", "nested_compile_region"]


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """A function itself, a module in an OptimizedModule: both run eagerly. A decorator when called without one."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if not callable(model):
        raise RuntimeError(f"torch.compile wants a function or a module, got {type(model)}")
    if isinstance(model, torch.nn.Module) and not disable:
        from rushlight._dynamo.eval_frame import OptimizedModule
        return model if isinstance(model, OptimizedModule) else OptimizedModule(model)
    return model


def is_compiling():
    """Whether a compiler is tracing: never."""
    return False


def is_dynamo_compiling():
    return False


def is_exporting():
    """Whether torch.export is tracing: never."""
    return False


def disable(fn=None, recursive=True, *, reason=None):
    """fn itself: nothing would compile it. A decorator when called without one."""
    return (lambda f: f) if fn is None else fn


def allow_in_graph(fn):
    return fn


def assume_constant_result(fn):
    return fn


def nested_compile_region(fn=None):
    return (lambda f: f) if fn is None else fn


def wrap_numpy(fn):
    return fn


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """A decorator that gives back the function that it decorates."""
    return lambda fn: fn


def reset():
    """Forget what was compiled: nothing was."""


def list_backends(exclude_tags=("debug", "experimental")):
    return ["inductor"]


class set_stance(contextlib.ContextDecorator):
    """How compiled functions behave: a context and decorator without effect on eager ones."""

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        self.stance = stance

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return None


def set_enable_guard_collectives(enabled):
    return False


def cudagraph_mark_step_begin():
    """Marks a step for CUDA graphs, of which there are none."""


def save_cache_artifacts():
    return None


def load_cache_artifacts(serialized_artifacts):
    return None


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    return [True] * len(guard_entries)
