"""torch.compile and torch.compiler: what runs compiled, and what does not."""
import contextlib
import functools
import warnings

import rushlight as torch

__all__ = ["compile", "assume_constant_result", "reset", "allow_in_graph", "substitute_in_graph", "list_backends", "disable", "set_stance",
           "set_enable_guard_collectives", "cudagraph_mark_step_begin", "wrap_numpy", "is_compiling", "is_dynamo_compiling", "is_exporting",
           "save_cache_artifacts", "load_cache_artifacts", "skip_guard_on_inbuilt_nn_modules_unsafe", "nested_compile_region"]


_BACKENDS = ("inductor", "eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept")  # all run functions as they are; the first puts work off
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def _runner(backend, mode):
    """How calls are run for a backend: an unknown one is an error, and so is a mode that inductor does not have."""
    from rushlight._dynamo.eval_frame import run_lazily, run_plainly
    from rushlight._dynamo.exc import InvalidBackend
    if isinstance(backend, str):
        if backend not in _BACKENDS:
            raise InvalidBackend(backend)
        if backend == "inductor" and mode is not None and mode not in _MODES:
            raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
        return run_lazily if backend == "inductor" else run_plainly
    if callable(backend):
        name = getattr(backend, "__name__", type(backend).__name__)
        warnings.warn(f"torch.compile: graphs are not captured for backends of one's own, so {name} is not called and functions run as they are", stacklevel=3)
    return run_plainly


def compile(model=None, *, fullgraph=False, dynamic=None, backend="inductor", mode=None, options=None, disable=False):
    """The function or module (in an OptimizedModule), faster where chains of elementwise operations work on large tensors.

    Python runs as always, in every call: nothing is traced, so results, side effects and errors are those of the plain function, bit
    for bit, and the first call takes no longer than others. A decorator when called without a model. backend="eager" and "aot_eager" run each
    operation at its call; other names are errors, and backends that are functions are not called (a warning says so).
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    assert callable(model), f"A callable function is expected, but {type(model)} is provided."
    if disable:
        return model
    from rushlight._dynamo.eval_frame import OptimizedModule, compiled
    run = _runner(backend, mode)
    if isinstance(model, torch.nn.Module):
        return model if isinstance(model, OptimizedModule) else OptimizedModule(model, run)
    return compiled(model, run)


def is_compiling():
    """Whether a compiler is tracing: never."""
    return False


def is_dynamo_compiling():
    return False


def is_exporting():
    """Whether torch.export is tracing: never."""
    return False


def disable(fn=None, recursive=True, *, reason=None):
    """fn, which runs operation by operation inside compiled functions, too. A decorator when called without one."""
    from rushlight._dynamo.eval_frame import eagerly, innermost_fn
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, (type, torch.nn.Module)):
        fn.forward = eagerly(fn.forward) if hasattr(fn, "forward") else None
        return fn
    return eagerly(innermost_fn(fn))


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
    """Names that compile() takes; without tags to exclude those for looking for errors, too."""
    return sorted(_BACKENDS) if not exclude_tags else ["inductor"]


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
