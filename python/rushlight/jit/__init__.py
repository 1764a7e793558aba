"""torch.jit: the decorators of scripting. Functions and modules run eagerly; there is no compiled form of them yet.

script() and trace() give back what they were given, so programs that use them compute the same numbers; what needs a
graph (saving, loading, freezing to a file, printing code) raises NotImplementedError.
"""
import contextlib
import functools
import inspect
import typing

import rushlight as torch

from .. import _jit_internal
from .._jit_internal import (Final, Future, _overload, _overload_method, export, ignore, is_scripting, unused)  # noqa: F401
from . import annotations  # noqa: F401

__all__ = ["Attribute", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion", "export", "fork", "freeze",
           "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "last_executed_optimized_graph", "load", "onednn_fusion_enabled",
           "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method",
           "set_fusion_strategy", "set_module", "strict_fusion", "trace", "trace_module", "unused", "wait"]

_builtin_isinstance = isinstance


class Error(RuntimeError):
    """An error in a scripted function."""


class TracingCheckError(Exception):
    """A traced function gave different results when it ran again."""


class TracerWarning(Warning):
    """What a trace would have fixed to a constant."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore: eager execution does not warn."""


class _ScriptMeta(type(torch.nn.Module)):
    pass


class ScriptModule(torch.nn.Module, metaclass=_ScriptMeta):
    """A module like any other: its methods run eagerly."""


RecursiveScriptModule = TracedModule = TopLevelTracedModule = ScriptModule


class ScriptFunction:
    """For isinstance: script() gives back the function itself."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.jit.ScriptFunction: functions are not compiled; torch.jit.script gives back the function itself")


class CompilationUnit:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch.jit.CompilationUnit: source code is not compiled")


class Attribute(typing.NamedTuple):
    """A value with the type that scripting would give it."""
    value: object
    type: object


def annotate(the_type, the_value):
    """the_value itself."""
    return the_value


def isinstance(obj, target_type):
    """isinstance that knows List[int], Dict[str, Tensor], Optional[...] and tuples of types."""
    if _builtin_isinstance(target_type, tuple):
        return any(isinstance(obj, t) for t in target_type)
    origin, args = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        return _builtin_isinstance(obj, target_type)
    if origin is typing.Union:
        return any(obj is None if a is type(None) else isinstance(obj, a) for a in args)
    if not _builtin_isinstance(obj, origin):
        return False
    if origin is list:
        return not args or all(isinstance(x, args[0]) for x in obj)
    if origin is dict:
        return not args or all(isinstance(k, args[0]) and isinstance(v, args[1]) for k, v in obj.items())
    if origin is tuple:
        return not args or len(obj) == len(args) and all(isinstance(x, a) for x, a in zip(obj, args))
    return True


def script(obj=None, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """obj, which runs eagerly; a module is prepared as scripting would have prepared it."""
    if obj is None:
        return functools.partial(script, optimize=optimize)
    if not callable(obj) and not inspect.isclass(obj) and not _builtin_isinstance(obj, (dict, list)):
        raise RuntimeError(f"torch.jit.script wants a function, a class or a module, got {type(obj)}")
    return obj


def script_method(fn):
    """fn, a method of a ScriptModule."""
    return fn


def script_if_tracing(fn):
    """fn: nothing is traced."""
    return fn


_script_if_tracing = script_if_tracing


def _arguments(examples):
    """Example inputs as arguments: a tuple or list of them, or the only one."""
    return tuple(examples) if _builtin_isinstance(examples, (tuple, list)) else (examples,)


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True, _force_outplace=False,
          _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """func, after it ran once on the example inputs."""
    with torch.no_grad():
        if example_kwarg_inputs is not None:
            func(**example_kwarg_inputs)
        elif example_inputs is not None:
            func(*_arguments(example_inputs))
    return func


def trace_module(mod, inputs, *args, **kwargs):
    """mod, after the named methods ran once on their inputs."""
    with torch.no_grad():
        for name, given in inputs.items():
            getattr(mod, name)(*_arguments(given))
    return mod


def is_tracing():
    """Whether a trace is being recorded: never."""
    return False


def interface(obj):
    """obj: interfaces are for the compiler."""
    return obj


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """mod itself, which must be in evaluation mode."""
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing.")
    return mod


def optimize_for_inference(mod, other_methods=None):
    return mod


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    """Nothing to optimise."""


@contextlib.contextmanager
def optimized_execution(should_optimize):
    yield


@contextlib.contextmanager
def strict_fusion():
    yield


@contextlib.contextmanager
def fuser(name):
    yield


def enable_onednn_fusion(enabled):
    """Fusion is not switched: there is no compiler."""


def onednn_fusion_enabled():
    return False


def set_fusion_strategy(strategy):
    return [("STATIC", 2), ("DYNAMIC", 10)]


def set_module(obj, mod):
    """Sets the module that obj says it comes from."""
    obj.__module__ = mod


def last_executed_optimized_graph():
    raise NotImplementedError("torch.jit: there is no graph of eager execution")


def save(m, f, _extra_files=None):
    """TorchScript files are not written."""
    raise NotImplementedError("torch.jit.save: TorchScript files are not written; save the state_dict with torch.save")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """TorchScript programs are not run."""
    raise NotImplementedError("torch.jit.load: TorchScript programs are not run")


def fork(func, *args, **kwargs):
    """A future that holds func's result already."""
    future = torch.futures.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    return future.wait()


