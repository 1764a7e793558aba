"""Marks that torch.jit's decorators put on functions; eager execution ignores them."""
import contextlib
import functools
import typing
import weakref
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: F401

import rushlight as torch
from rushlight.futures import Future  # noqa: F401


class FunctionModifiers:
    """What an attribute of a function asks the compiler for."""
    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (if called from a exported method / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"
    _DROP = "_drop (function is fully ignored, declaration can be unscriptable)"


def _mark(fn, what):
    target = fn.fget if isinstance(fn, property) else fn
    target._torchscript_modifier = what
    return fn


def export(fn):
    return _mark(fn, FunctionModifiers.EXPORT)


def unused(fn):
    return _mark(fn, FunctionModifiers.UNUSED)


def ignore(drop=False, **kwargs):
    """As a decorator with or without arguments."""
    if callable(drop):
        return _mark(drop, FunctionModifiers.IGNORE)
    return lambda fn: _mark(fn, FunctionModifiers.UNUSED if drop else FunctionModifiers.IGNORE)


def _drop(fn):
    return _mark(fn, FunctionModifiers._DROP)


def _copy_to_script_wrapper(fn):
    return _mark(fn, FunctionModifiers.COPY_TO_SCRIPT_WRAPPER)


def module_has_exports(mod):
    return any(getattr(getattr(mod, name, None), "_torchscript_modifier", None) is FunctionModifiers.EXPORT for name in dir(mod))


def is_scripting():
    """Whether compiled code asks: never."""
    return False


_overloads = {}


def _overload(func):
    """func: a signature that the function of this name, which follows, may be called with."""
    _overloads.setdefault((func.__module__, func.__qualname__), []).append(func)
    return func


_overload_method = _overload


def overloads_of(fn):
    """The signatures that _overload and _overload_method noted for a function."""
    return _overloads.get((fn.__module__, getattr(fn, "__qualname__", "")), [])


boolean_dispatched = weakref.WeakKeyDictionary()  # what boolean_dispatch() made: which functions it chooses from, and by what


def boolean_dispatch(arg_name, arg_index, default, if_true, if_false, module_name, func_name):
    """A function that calls if_true or if_false by the value of one of its arguments."""
    @functools.wraps(if_true if default else if_false)
    def fn(*args, **kwargs):
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return if_true(*args, **kwargs) if chosen else if_false(*args, **kwargs)
    fn.__name__ = func_name or fn.__name__
    fn.__module__ = module_name or fn.__module__
    boolean_dispatched[fn] = {"if_true": if_true, "if_false": if_false, "index": arg_index, "default": default, "arg_name": arg_name}
    return fn


@contextlib.contextmanager
def _disable_emit_hooks():
    yield


def _qualified_name(obj, mangle_name=True):
    """The path of a class or function in programs, as if it were the first of its name."""
    if hasattr(obj, "_jit_override_qualname"):
        return obj._jit_override_qualname
    name = "_lambda" if obj.__name__ == "<lambda>" else obj.__name__
    if obj.__module__ is None:
        raise RuntimeError(f"Could not get qualified name for class '{name}': __module__ can't be None.")
    return "__torch__." + (name if obj.__module__ == "__main__" else f"{obj.__module__}.{name}")


def can_compile_class(cls):
    return False


def _is_tensor(x):
    return isinstance(x, torch.Tensor)


def __getattr__(name):
    if name.startswith("BroadcastingList"):
        from rushlight.jit import annotations
        return getattr(annotations, name)
    raise AttributeError(f"module 'torch._jit_internal' has no attribute '{name}'")
