"""torch.jit: programs that load, script, trace and CompilationUnit make (_loaded.py, _compile.py, _recorder.py); src/script runs them."""
import contextlib
import copy
import difflib
import functools
import inspect
import io
import operator
import os
import re
import sys
import textwrap
import typing
import warnings

import rushlight as torch

from .. import _jit_internal
from .._jit_internal import (Final, Future, _overload, _overload_method, export, ignore, is_scripting, unused)  # noqa: F401
from . import _loaded, _state, annotations, frontend  # noqa: F401

__all__ = ["Attribute", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "annotate", "enable_onednn_fusion", "export", "fork", "freeze",
           "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "last_executed_optimized_graph", "load", "onednn_fusion_enabled",
           "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method",
           "set_fusion_strategy", "set_module", "strict_fusion", "trace", "trace_module", "unused", "wait"]

_builtin_isinstance = isinstance


class Error(Exception):
    """An error in a scripted function."""


class TracingCheckError(Exception):
    """A traced function gave different results when it ran again."""


class TracerWarning(Warning):
    """What a trace would have fixed to a constant."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing to ignore: what the layers of this package ask is never said (_recorder.py)."""


class _ScriptMeta(type(torch.nn.Module)):
    pass


class ScriptModule(torch.nn.Module, metaclass=_ScriptMeta):
    """A module whose code is a program; a class that a user derives from it runs eagerly, and is compiled to be saved."""

    def save(self, f, **kwargs):
        return save(self, f, **kwargs)


class RecursiveScriptModule(ScriptModule):
    """A module that runs a program of the library: made by load, script and trace."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError("a module with a program is made by torch.jit.load, script or trace")

    def forward(self, *args, **kwargs):
        return _loaded.called(self, "forward", args, kwargs)

    def __getattr__(self, name):
        own = self.__dict__
        fields = own.get("_fields", {})
        if name in own.get("_methods", ()):
            return _loaded.ScriptMethod(self, name)
        if fields.get(name) in ("attribute", "constant"):
            return _loaded._back(self._c.get(name))
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        what = self.__dict__.get("_fields", {}).get(name)
        if what == "constant":
            raise RuntimeError(f"Can't set constant '{name}' which has value:{getattr(self, name)}")
        if what == "attribute" and name != "training":
            self._c.set(name, value)
            return
        if name in self.__dict__.get("_modules", ()) and "_c" in self.__dict__:
            self._replace(name, self._modules[name], value)
        super().__setattr__(name, value)
        if what == "attribute":
            self._c.set(name, bool(value))

    def _replace(self, name, old, new):
        """Another module where the program has one: of the same class, whose methods the program calls."""
        if not _builtin_isinstance(new, RecursiveScriptModule):
            raise RuntimeError(f"Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace existing module '{name}': {new}")
        if new._c.type != old._c.type:
            raise NotImplementedError(f"the program has a {old._c.type} for '{name}', which a {new._c.type} cannot replace")
        self._c.set(name, new._c)

    @property
    def code(self):
        name = next((n for n in self._c.methods() if n.startswith("forward")), None)
        return textwrap.dedent(self._c.code(name)) if name else ""

    @property
    def graph(self):
        return _loaded.graph_of(self, "forward", self.code)

    inlined_graph = graph

    @property
    def original_name(self):
        return self._c.type.rsplit(".", 1)[-1]

    def _get_name(self):
        return self.__class__.__name__

    def extra_repr(self):
        return f"original_name={self.original_name}"

    def _children(self, method):
        """The modules of what was a Sequential, ModuleList or ModuleDict; of others, which have no length and no items, an error."""
        if not re.fullmatch(r"(Sequential|ModuleList|ModuleDict)(_\d+)?", self.original_name):
            raise NotImplementedError(f"{self.original_name} has no {method}")
        return self._modules

    def __bool__(self):
        return True

    def __len__(self):
        return len(self._children("__len__")) if "__len__" not in self._methods else self._c.call("__len__", (), {})

    def __iter__(self):
        modules = self._children("__iter__")
        return iter(modules if self.original_name.startswith("ModuleDict") else modules.values())

    def __contains__(self, key):
        return key in self._children("__contains__")

    def __getitem__(self, key):
        modules = self._children("__getitem__")
        return list(modules.values())[key] if not _builtin_isinstance(key, str) else modules[key]

    def __copy__(self):
        return self.__deepcopy__({})

    def __deepcopy__(self, memo):
        """A module with the same program and tensors of its own."""
        f = io.BytesIO()
        save(self, f)
        f.seek(0)
        made = memo[id(self)] = _loaded.load(f)
        _loaded._own(made, "_graphs", self.__dict__.get("_graphs", {}))
        for own, new in zip(self.modules(), made.modules()):
            new.train(own.training) if own is self else torch.nn.Module.__setattr__(new, "training", own.training)
        return made

    def __reduce__(self):
        raise RuntimeError("a module with a program is saved by torch.jit.save, not pickled")


TracedModule = TopLevelTracedModule = RecursiveScriptModule


from . import _recorder, _recursive  # noqa: E402, F401


class ScriptFunction(_recorder.TracedFunction):
    """A function with a program."""


class CompilationUnit:
    """Functions of a text in TorchScript's language."""

    def __init__(self, lang=None, _frames_up=0):
        self._functions = {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang, rcb=None, _frames_up=0):
        """Adds the functions of a text, which may call each other by their bare names, and use names of the caller."""
        from . import _program
        text = frontend.annotated(textwrap.dedent(lang))
        sources = [("__torch__", text, "a text of CompilationUnit")]
        try:
            unit = torch._C._ScriptUnit(sources)
        except NotImplementedError:
            caller = sys._getframe(1 + _frames_up)
            for name, fn in frontend.functions_of(text, {"annotate": annotate, **caller.f_globals, **caller.f_locals}).items():
                self._functions[name] = _program.script_function(fn)
            return
        for path in unit.names():
            self._functions[path.rsplit(".", 1)[-1]] = ScriptFunction(unit, path, sources, ())

    def __getattr__(self, name):
        if name.startswith("__") or name not in self.__dict__.get("_functions", {}):
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'")
        return self._functions[name]

    def get_functions(self):
        return list(self._functions.values())


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
    """The program of a function or module, compiled from its source; classes are compiled where they are used.

    What the library has no operation for stays in Python, with a warning.
    """
    from . import _classes, _program
    if obj is None:
        return functools.partial(script, optimize=optimize)
    if not _state._enabled:
        return obj
    if not callable(obj) and not inspect.isclass(obj) and not _builtin_isinstance(obj, (dict, list)):
        raise RuntimeError(f"torch.jit.script wants a function, a class or a module, got {type(obj)}")
    if inspect.isclass(obj) and issubclass(obj, torch.nn.Module):
        raise RuntimeError(f"Type '{obj}' cannot be compiled since it inherits from nn.Module, consider passing an instance instead")
    if inspect.isclass(obj):
        _classes.note(obj)
        return obj
    if _builtin_isinstance(obj, (dict, list, ScriptModule, ScriptFunction)):
        return obj
    try:
        if _builtin_isinstance(obj, torch.nn.Module):
            return _program.script_module(_prepared(obj))
        return _program.script_function(obj)
    except NotImplementedError as why:
        warnings.warn(f"torch.jit.script: {getattr(obj, '__name__', type(obj).__name__)} stays in Python: {why}", stacklevel=2)
        return obj


def _prepared(module):
    """The module, with what __prepare_scriptable__ gives in place of it and of those below it."""
    made = module.__prepare_scriptable__() if hasattr(module, "__prepare_scriptable__") else module
    if _builtin_isinstance(made, ScriptModule):
        return made
    for word, table in (("parameters", made._parameters), ("buffers", made._buffers)):
        for name, tensor in table.items():
            if torch.nn.parameter.is_lazy(tensor):
                raise RuntimeError(f"'{torch.typename(type(made))}' has uninitialized {word} {name}. Did you forget to run a forward pass?")
    below = {name: m if m is None else _prepared(m) for name, m in made._modules.items()}
    if any(m is not made._modules[name] for name, m in below.items()):
        made = copy.copy(made)
        made.__dict__["_modules"] = below
    return made


def script_method(fn):
    """fn, a method of a ScriptModule, which its program has."""
    return export(fn)


def script_if_tracing(fn):
    """fn, which a trace calls as a program, so that its conditions and loops stay free."""
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return (script(fn) if is_tracing() else fn)(*args, **kwargs)

    wrapper.__original_fn = fn
    wrapper.__script_if_tracing_wrapper = True
    return wrapper


_script_if_tracing = script_if_tracing


def _arguments(examples):
    """Example inputs as arguments: a tuple or list of them, or the only one."""
    return tuple(examples) if _builtin_isinstance(examples, (tuple, list)) else (examples,)


def _traced(func, inputs, check_trace, check_inputs, tolerance, strict):
    """The program of a module's methods or of a function; func itself, with a warning, where it cannot be written down."""
    try:
        if _builtin_isinstance(func, torch.nn.Module):
            made = _recorder.trace_methods(func, inputs)
        else:
            made = _recorder.trace_function(func, *inputs["forward"], ScriptFunction)
    except (_recorder.Untraceable, NotImplementedError) as why:
        warnings.warn(f"torch.jit.trace: the call stays in Python: {why}", TracerWarning, stacklevel=3)
        return func
    if check_trace:
        for name, (args, kwargs) in inputs.items():
            both = [(args, kwargs)] if not check_inputs else [(_arguments(x), {}) for x in check_inputs] if name == "forward" and not _builtin_isinstance(check_inputs, dict) else []
            for given, named in both:
                _check(func, made, name, given, named, tolerance)
                if check_inputs:
                    _check_again(func, made, name, given, named)
    return made


def _check(func, made, name, args, kwargs, tolerance):
    """Warns where the program does not compute what Python does."""
    module = _builtin_isinstance(func, torch.nn.Module)
    state = _recorder.State([func] if module else [])
    results = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        seed = torch.get_rng_state()
        for run in (func, made):
            given, named = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
            result = (getattr(run, name) if module else run)(*given, **named)
            results.append([t for t in torch.utils._pytree.tree_leaves(result) if _builtin_isinstance(t, torch.Tensor)])
            state.restore()
            if run is func and not torch.equal(seed, torch.get_rng_state()):
                warnings.warn("Trace had nondeterministic nodes. Did you forget call .eval() on your model?\nThis may cause errors in trace checking. "
                              "To disable trace checking, pass check_trace=False to torch.jit.trace()", TracerWarning, stacklevel=4)
    for i, (want, got) in enumerate(zip(*results)):
        want, got = (t.dequantize() if t.is_quantized else t if t.is_complex() else t.double() for t in (want, got))
        try:
            torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
        except AssertionError as why:
            warnings.warn(f"Output nr {i + 1}. of the traced function does not match the corresponding output of the Python function. Detailed error:\n{why}", TracerWarning, stacklevel=4)


def _check_again(func, made, name, args, kwargs):
    """An error where another trace, with these inputs, is not the same program."""
    if _builtin_isinstance(func, torch.nn.Module):
        other = _recorder.trace_methods(func, {name: (args, kwargs)})
        texts = [m._c.code(name) for m in (made, other)]
    else:
        other = _recorder.trace_function(func, args, kwargs, ScriptFunction)
        texts = [made.code, other.code]
    if texts[0] != texts[1]:
        lines = difflib.ndiff(*(text.splitlines(True) for text in texts))
        raise TracingCheckError("Tracing failed sanity checks!\nERROR: Graphs differed across invocations!\n\tGraph diff:\n" + textwrap.indent("".join(lines), "\t\t"))
    if not all(map(torch.equal, made.__dict__["_sources"][1], other.__dict__["_sources"][1])):
        raise TracingCheckError("Tracing failed sanity checks!\nERROR: Tensor-valued Constant nodes differed in value across invocations. "
                                "This often indicates that the tracer has encountered untraceable code.")


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True, _force_outplace=False,
          _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """What func calls on the example inputs, as a program: a module's parameters stay those of the module."""
    if _builtin_isinstance(getattr(func, "__self__", None), torch.nn.Module) and func.__name__ == "forward":
        func = func.__self__
    if _builtin_isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_inputs and example_kwarg_inputs can not both be None")
    args = () if example_kwarg_inputs is not None else _arguments(example_inputs)
    kwargs = example_kwarg_inputs if _builtin_isinstance(example_kwarg_inputs, dict) else {}
    if optimize is not None:
        warnings.warn("`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead", FutureWarning, stacklevel=2)
    return _traced(func, {"forward": (args, kwargs)}, check_trace, check_inputs, check_tolerance, strict)


def _get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False, _return_inputs_states=False):
    """The graph of a call, and what it returned; with return_inputs the arguments, too."""
    args = _arguments(args)
    graph, out = _recorder.trace_graph(f, args, kwargs or {})
    return (graph, out, args) if return_inputs else (graph, out)


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True, *args, **kwargs):
    """The program of several methods of a module, each with its example inputs."""
    if not _builtin_isinstance(mod, torch.nn.Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    return _traced(mod, {name: (_arguments(given), {}) for name, given in inputs.items()}, check_trace, None, check_tolerance, strict)


def is_tracing():
    """Whether a trace is being recorded."""
    return bool(_recorder.running)


def interface(obj):
    """obj: interfaces are for the compiler."""
    return obj


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A copy of a program whose weights are its own, for inference: of the module are left its forward and preserved_attrs."""
    from . import _program
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing.")
    if not _builtin_isinstance(mod, RecursiveScriptModule):
        return mod  # what stays in Python
    for name in preserved_attrs or ():
        try:
            operator.attrgetter(name)(mod)
        except AttributeError:
            raise RuntimeError(f"Unknown name: {name}") from None
    return _program.frozen(mod, preserved_attrs or ())


def optimize_for_inference(mod, other_methods=None):
    """The module, frozen."""
    is_frozen = _builtin_isinstance(mod, RecursiveScriptModule) and "training" not in mod._fields
    return mod if is_frozen else freeze(mod.eval(), other_methods)


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
    """An archive that torch.jit.load reads, here and in PyTorch."""
    from . import _program
    if _builtin_isinstance(m, ScriptModule) and not _builtin_isinstance(m, RecursiveScriptModule):
        m = _program.script_module(m)
    if "_sources" not in m.__dict__:
        raise NotImplementedError("torch.jit.save: this module runs in Python and has no program; trace it, or save its state_dict with torch.save")
    if _builtin_isinstance(m, ScriptFunction):
        m = _recorder.function_module(m)
    content = m._c.archive({"extra/" + name: x if _builtin_isinstance(x, bytes) else x.encode() for name, x in (_extra_files or {}).items()})
    if hasattr(f, "write"):
        f.write(content)
    else:
        if not os.path.isdir(parent := os.path.dirname(os.path.abspath(f))):
            raise RuntimeError(f"Parent directory {parent} does not exist.")
        with open(f, "wb") as to:
            to.write(content)


load = _loaded.load


def fork(func, *args, **kwargs):
    """A future that holds func's result already."""
    future = torch.futures.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    return future.wait()


_fork, _wait = fork, wait  # as older programs call them

from . import _script, _trace  # noqa: E402, F401
