"""torch.backends: what the libraries underneath can do, and their switches.

A switch of a library that is not there can be set and read; nothing else happens.
"""
import contextlib
import importlib
import sys
import types

from rushlight._alias import torch_name

__allow_nonbracketed_mutation_flag = True
_SUBMODULES = ("cpu", "cuda", "cudnn", "cusparselt", "kleidiai", "mha", "miopen", "mkl", "mkldnn", "mps", "nnpack",
               "openmp", "opt_einsum", "quantized", "xeon", "xnnpack", "coreml")


def disable_global_flags():
    """From now on switches change only inside flags(...)."""
    global __allow_nonbracketed_mutation_flag
    __allow_nonbracketed_mutation_flag = False


def flags_frozen():
    return not __allow_nonbracketed_mutation_flag


@contextlib.contextmanager
def __allow_nonbracketed_mutation():
    global __allow_nonbracketed_mutation_flag
    before = __allow_nonbracketed_mutation_flag
    __allow_nonbracketed_mutation_flag = True
    try:
        yield
    finally:
        __allow_nonbracketed_mutation_flag = before


class ContextProp:
    """A switch of a module: a property with a getter and a setter."""

    def __init__(self, getter, setter):
        self.getter, self.setter = getter, setter

    def __get__(self, obj, objtype):
        return self.getter()

    def __set__(self, obj, val):
        if flags_frozen():
            raise RuntimeError("not allowed to set %s flags after disable_global_flags; please use flags() context manager "
                               "instead" % torch_name(obj.__name__))
        self.setter(val)


class PropModule(types.ModuleType):
    """A module with switches; the rest comes from the module it replaces."""

    def __init__(self, m, name):
        super().__init__(name)
        self.m = m

    def __getattr__(self, attr):
        return getattr(self.__dict__["m"], attr)


_state = {}


class FreeProp(ContextProp):
    """A switch that disable_global_flags() leaves to programs."""

    def __set__(self, obj, val):
        self.setter(val)


def switch(name, default, kind=ContextProp):
    """A ContextProp, or another kind of switch, that remembers its value."""
    _state.setdefault(name, default)

    def write(value):
        _state[name] = value
    return kind(lambda: _state[name], write)


def _set(name, value):
    before = _state[name]
    _state[name] = value
    return before


class _FP32Precision:
    """What an operation of a backend may round float32 to: its own setting or, where that is "none", what `otherwise` answers."""

    def __init__(self, backend, op, value="none", otherwise=lambda: "none", changed=lambda: None):
        self.__dict__.update(backend=backend, op=op, value=value, otherwise=otherwise, changed=changed)

    @staticmethod
    def check(value, backend):
        if value not in ("none", "ieee", "tf32", "bf16"):
            raise RuntimeError("Unknown precision: %s" % (value,))
        if backend == "cuda" and value == "bf16":
            raise RuntimeError("backend 'cuda' does not support precision 'bf16'")

    def __setattr__(self, name, value):
        if name != "fp32_precision":
            raise AttributeError("Unknown attribute " + name)
        self.check(value, self.__dict__["backend"])
        self.__dict__["value"] = value
        self.__dict__["changed"]()

    def __getattr__(self, name):
        if name == "fp32_precision":
            return self.__dict__["value"] if self.__dict__["value"] != "none" else self.__dict__["otherwise"]()
        raise AttributeError("Unknown attribute " + name)


_state.update({"fp32_precision": "none", "fp32_precision changed": []})


def _write_fp32_precision(value):
    _FP32Precision.check(value, "generic")
    _state["fp32_precision"] = value
    for changed in _state["fp32_precision changed"]:
        changed()


class _Backends(types.ModuleType):
    """The module itself: fp32_precision is a switch of it."""

    fp32_precision = ContextProp(lambda: _state["fp32_precision"], _write_fp32_precision)

    def __getattr__(self, name):
        if name in _SUBMODULES:
            return importlib.import_module("rushlight.backends." + name)
        raise AttributeError("module 'torch.backends' has no attribute '%s'" % name)


sys.modules[__name__].__class__ = _Backends
