"""torch.jit._state: the classes that torch.jit.script was given, and whether it compiles at all (PYTORCH_JIT=0: it does not).

PyTorch keeps here what it compiled of free functions, too; here each program compiles its own, so those stores stay empty.
"""
import os
import weakref


class EnabledProxy:
    """Whether torch.jit.script compiles."""

    def __init__(self):
        self.enabled = os.environ.get("PYTORCH_JIT", "1") in ("1", "true", "True")

    def __bool__(self):
        return self.enabled


_enabled = EnabledProxy()


def disable():
    _enabled.enabled = False


def enable():
    _enabled.enabled = True


_jit_caching_layer = weakref.WeakKeyDictionary()
_jit_function_overload_caching = weakref.WeakKeyDictionary()
_script_classes, _name_to_pyclass = {}, {}


def _add_script_class(python_class, script_class):
    from .._jit_internal import _qualified_name
    _script_classes[python_class] = script_class
    _name_to_pyclass[_qualified_name(python_class)] = python_class


def _get_python_class(qualified_name):
    return _name_to_pyclass.get(qualified_name)


def _get_script_class(python_class):
    return _script_classes.get(_stands_for(python_class))


def _stands_for(cls):
    """The class that a program knows for this one, which may name another in _jit_override_qualname."""
    named = getattr(cls, "_jit_override_qualname", None)
    return _name_to_pyclass.get(named, cls) if named else cls


def _clear_class_state():
    _script_classes.clear()
    _name_to_pyclass.clear()
