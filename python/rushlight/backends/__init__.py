"""torch.backends: what the libraries underneath can do, and their switches.

A switch of a library that is not there (TF32, cuDNN's algorithms) can be set and read; nothing else happens.
"""
import contextlib
import importlib
import sys
import types

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
                               "instead" % obj.__name__)
        self.setter(val)


class PropModule(types.ModuleType):
    """A module with switches; the rest comes from the module it replaces."""

    def __init__(self, m, name):
        super().__init__(name)
        self.m = m

    def __getattr__(self, attr):
        return getattr(self.__dict__["m"], attr)


_state = {}


def switch(name, default):
    """A ContextProp that remembers its value."""
    _state.setdefault(name, default)

    def write(value):
        _state[name] = value
    return ContextProp(lambda: _state[name], write)


def _set(name, value):
    before = _state[name]
    _state[name] = value
    return before


class _FP32Precision:
    def __init__(self, backend, op):
        self.__dict__["backend"], self.__dict__["op"] = backend, op
        self.__dict__["value"] = "none"

    def __setattr__(self, name, value):
        if name != "fp32_precision":
            raise AttributeError("Unknown attribute " + name)
        self.__dict__["value"] = value

    def __getattr__(self, name):
        if name == "fp32_precision":
            return self.__dict__["value"]
        raise AttributeError("Unknown attribute " + name)


class _Backends(types.ModuleType):
    """The module itself: fp32_precision is a switch of it."""

    fp32_precision = switch("fp32_precision", "none")

    def __getattr__(self, name):
        if name in _SUBMODULES:
            return importlib.import_module("rushlight.backends." + name)
        raise AttributeError("module 'torch.backends' has no attribute '%s'" % name)


sys.modules[__name__].__class__ = _Backends
