"""torch.compile and torch.compiler: what runs compiled, and what does not."""
import contextlib
import functools
import sys
import types

import rushlight as torch
from rushlight import _C

__all__ = ["compile", "assume_constant_result", "reset", "allow_in_graph", "substitute_in_graph", "list_backends", "disable", "set_stance",
           "set_enable_guard_collectives", "cudagraph_mark_step_begin", "wrap_numpy", "is_compiling", "is_dynamo_compiling", "is_exporting",
           "save_cache_artifacts", "load_cache_artifacts", "skip_guard_on_inbuilt_nn_modules_unsafe", "skip_guard_on_all_nn_modules_unsafe",
           "keep_tensor_guards_unsafe", "keep_portable_guards_unsafe", "skip_guard_on_globals_unsafe", "skip_all_guards_unsafe", "nested_compile_region",
           "set_default_backend", "get_default_backend"]


_PLAIN = ("eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition")  # operations run at their calls, which is what graphs of them would do
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def _check_options(options):
    """Names and types of inductor's settings, which are taken and have nothing to change."""
    from rushlight._inductor import config
    known = config.shallow_copy_dict()
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {list(known)}")
        if known[name] is not None and not isinstance(value, type(known[name])):
            raise RuntimeError(f"Unexpected type of attr {key}, got {type(value).__name__} should be {type(known[name]).__name__}")


def _runner(backend, fullgraph, mode, options):
    """How calls are run for a backend: an unknown one is an error, and so is a mode or an option that inductor does not have."""
    from rushlight._dynamo.backends.registry import lookup_backend
    from rushlight._dynamo.eval_frame import RunWhole, run_lazily, run_plainly
    if backend == "inductor":
        if mode is not None and mode not in _MODES:
            raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
        _check_options(options or {})
    elif backend not in _PLAIN:
        from rushlight._dynamo.capture import GraphCompiler
        given = {**({"mode": mode} if mode and mode != "default" else {}), **({"options": options} if options else {})}
        return GraphCompiler(lookup_backend(backend), fullgraph, given)
    run = run_lazily if backend == "inductor" else run_plainly
    return RunWhole(run) if fullgraph else run


_default_backend = "inductor"


def set_default_backend(backend):
    """The backend, a name or a function, of compile() where none is given; None: "inductor" again."""
    global _default_backend
    if backend is not None and not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a string or callable, got {type(backend)}")
    _default_backend = "inductor" if backend is None else backend


def get_default_backend():
    """What set_default_backend() has set."""
    return _default_backend


def compile(model=None, *, fullgraph=False, dynamic=None, backend=None, mode=None, options=None, name=None, disable=False, recompile_limit=None,
            isolate_recompiles=False, shapes_spec=None):
    """The function or module (in an OptimizedModule), faster where chains of elementwise operations work on large tensors.

    Python runs as always, in every call: results, side effects and errors are those of the plain function, bit
    for bit, and the first call takes no longer than others. A decorator when called without a model. backend="eager" and "aot_eager" run each
    operation at its call. A backend that is a function, or registered as one, is given (GraphModule, example inputs) for the calls on tensors between two
    places where Python needs a value, and what it returns runs in their place. fullgraph=True: such a place is an error.

    backend: get_default_backend() where none is given. mode and options are inductor's names. dynamic, name, recompile_limit, isolate_recompiles
    and shapes_spec are taken and change nothing: graphs are made again for sizes that were not seen, as often as need be.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    assert dynamic is None or isinstance(dynamic, bool), f"Expected enable to be a bool, got {type(dynamic)}"
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable, name=name,
                                 recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles, shapes_spec=shapes_spec)
    assert callable(model), f"A callable function is expected, but {type(model)} is provided."
    if disable:
        return model
    from rushlight._dynamo.eval_frame import OptimizedModule, compiled
    run = _runner(_default_backend if backend is None else backend, fullgraph, mode, options)
    if isinstance(model, torch.nn.Module):
        return model if isinstance(model, OptimizedModule) else OptimizedModule(model, run)
    return compiled(model, run)


def is_compiling():
    """Whether this is called from a compiled function, or while torch.export captures one."""
    return is_dynamo_compiling() or is_exporting()


def is_dynamo_compiling():
    """Whether this is called from a compiled function."""
    return _C._compiling_depth() > 0


def is_exporting():
    """Whether torch.export captures a program."""
    capture = sys.modules.get("rushlight.export._capture")
    return capture is not None and capture.running() is not None


def disable(fn=None, recursive=True, *, reason=None, wrapping=True):
    """fn, which runs operation by operation inside compiled functions, too. A decorator when called without one."""
    from rushlight._dynamo.eval_frame import eagerly, innermost_fn
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason, wrapping=wrapping)
    if isinstance(fn, (type, torch.nn.Module)):
        fn.forward = eagerly(fn.forward, reason) if hasattr(fn, "forward") else None
        return fn
    return eagerly(innermost_fn(fn), reason)


def allow_in_graph(fn):
    """fn, of which graphs hold the call and not what it calls. A list of functions gives a list."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    assert callable(fn), "allow_in_graph expects a callable"
    from rushlight._dynamo.eval_frame import whole
    return whole(fn) if isinstance(fn, types.FunctionType) else fn


def assume_constant_result(fn):
    """fn, of which no graph holds anything but its result."""
    from rushlight._dynamo.eval_frame import aside
    return aside(fn)


def nested_compile_region(fn=None, *, options=None, max_reuse_entries=8, reuse_hash_fn=None):
    return (lambda f: f) if fn is None else fn


def wrap_numpy(fn):
    return fn


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False, is_embedded_type=False):
    """A decorator that gives back the function that it decorates."""
    return lambda fn: fn


def reset():
    """Forget the graphs that were compiled."""
    capture = sys.modules.get("rushlight._dynamo.capture")
    if capture is not None:
        capture.forget_all()


def list_backends(exclude_tags=("debug", "experimental")):
    """Names that compile() takes; without tags to exclude those for looking for errors, too."""
    from rushlight._dynamo.backends.registry import list_backends
    return list_backends(exclude_tags)


class set_stance(contextlib.ContextDecorator):
    """How compiled functions behave from now on, in a context, or within a function that is decorated with it.

    "force_eager": as if they were not compiled. In the others they run compiled: nothing is guarded, so there is no recompilation that could
    fail or be left out.
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        from rushlight._dynamo.eval_frame import Stance
        if stance not in Stance.names:
            raise RuntimeError("invalid torch.compile stance %r: known are %s" % (stance, ", ".join(Stance.names)))
        self._of = Stance
        self.stance, self._before, Stance.now = stance, Stance.now, stance

    def __call__(self, function):
        self._of.now = self._before
        return super().__call__(function)

    def _recreate_cm(self):
        return set_stance(self.stance)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self._of.now = self._before


def set_enable_guard_collectives(enabled):
    return False


def cudagraph_mark_step_begin():
    """Marks a step for CUDA graphs, of which there are none."""


def save_cache_artifacts():
    return None


def load_cache_artifacts(serialized_artifacts):
    return None


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """For options={"guard_filter_fn": ...}: what a compiled function relies on is looked at in each call, so that no guard is kept or left out."""
    return [True] * len(guard_entries)


skip_guard_on_all_nn_modules_unsafe = skip_guard_on_globals_unsafe = skip_all_guards_unsafe = keep_portable_guards_unsafe = skip_guard_on_inbuilt_nn_modules_unsafe


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """The same."""
    return [True] * len(guard_entries)
