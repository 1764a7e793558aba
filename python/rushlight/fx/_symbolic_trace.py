"""symbolic_trace: runs a function with proxies for its arguments and records the calls.

While it runs, modules' __call__ and attribute look-up are replaced by versions that record, and so are the functions
named by wrap() in the namespaces of the traced code.
"""
import builtins
import collections
import functools
import inspect
import math
import types
from types import CodeType, FunctionType, ModuleType  # noqa: F401

import rushlight as torch
from rushlight._C import ScriptObject  # noqa: F401
from rushlight.fx._compatibility import compatibility  # noqa: F401
from rushlight.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import base_types, has_side_effect, map_aggregate
from rushlight.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from rushlight.utils import _pytree as pytree

# Tracers that packages derive from this one take names that PyTorch's module imports from here.
__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_symbolic_tracing", "is_fx_tracing", "symbolic_trace", "wrap"]

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_orig_module_call = torch.nn.Module.__call__
_orig_module_getattr = torch.nn.Module.__getattr__
_proxyable_classes = {}
_is_fx_tracing_flag = False
_wrapped_fns_to_patch = {}      # (id of globals, name) -> globals
_wrapped_methods_to_patch = []


def is_fx_tracing():
    return _is_fx_tracing_flag


def is_fx_symbolic_tracing():
    return _is_fx_tracing_flag and not torch.compiler.is_compiling()


class ProxyableClassMeta(type):
    """Metaclass: making an instance with a proxy among the arguments is recorded as a call."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        instance = cls.__new__(cls)
        proxies = _find_proxy(args, kwargs)
        if proxies is not None and not is_fx_tracing():
            cls.__init__(instance, *args, **kwargs)
            return instance
        if proxies is not None:
            return proxies.tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(instance, *args, **kwargs)
        return instance


class PHBase:
    """Marks an argument that stays a placeholder when concrete_args is a container."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A placeholder with a name and attributes of its own."""

    def __init__(self, ph_key=None):
        super().__init__()
        self.ph_key = ph_key


def _transfer_attrs(fr, to):
    for name in dir(fr):
        if not name.startswith("__") and not callable(getattr(fr, name)) and not hasattr(to, name):
            setattr(to, name, getattr(fr, name))


def _patch_function(fn, nargs):
    """The same function with *args and **kwargs as plain arguments."""
    code = fn.__code__
    new = code.replace(co_flags=code.co_flags & ~HAS_VARSTUFF, co_argcount=nargs, co_posonlyargcount=0,
                       co_kwonlyargcount=0)
    return FunctionType(new, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


class Tracer(TracerBase):
    """Records a module or function as a Graph; override is_leaf_module and the like to record differently."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        self._autowrap_function_ids = {id(value) for name, value in _functions_of(autowrap_modules)
                                       if not name.startswith("_") and callable(value)}
        self._autowrap_function_ids.update(id(f) for f in autowrap_functions)
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls = {}
        self.node_name_to_scope = {}
        self.tensor_attrs = {}
        self.root = None

    def get_fresh_qualname(self, prefix):
        """A name on the root module that is free."""
        number = 0
        while hasattr(self.root, "%s%d" % (prefix, number)):
            number += 1
        return "%s%d" % (prefix, number)

    def create_arg(self, a):
        if isinstance(a, torch.nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            name = self.get_fresh_qualname("_param_constant")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, torch.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            if a not in self.tensor_attrs:
                name = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[a] = name
                setattr(self.root, name, a)
            return self.create_node("get_attr", self.tensor_attrs[a], (), {})
        if isinstance(a, torch.nn.Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            for name, value in self.root.__dict__.items():
                if value is a:
                    return self.create_node("get_attr", name, (), {})
            name = self.get_fresh_qualname("_%s_constant_" % type(a).__name__)
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(item) for item in a), {})
        return super().create_arg(a)

    def is_leaf_module(self, m, module_qualified_name):
        """Whether a module is recorded as one call; else its code is traced."""
        module = m.__module__
        ours = module.startswith(("torch.nn", "torch.ao.nn", "rushlight.nn", "rushlight.ao.nn"))
        return ours and not isinstance(m, torch.nn.Sequential)

    def path_of_module(self, mod):
        """The name of a module below the root."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if mod is module:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        """A module is called."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            count = self.num_calls.get(path, 0)
            key = path if count == 0 else "%s@%d" % (path, count)
            self.num_calls[path] = count + 1
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path) or isinstance(m, torch.jit.ScriptModule):  # a compiled one has nothing to trace
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem(last=True)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """An attribute of a module is read: parameters come out as proxies."""
        def proxy_for(attr_val, named, cache):
            for name, value in named:
                if attr_val is value:
                    if name not in cache:
                        options = {}
                        if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters and \
                                self.param_shapes_constant:
                            options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, attr_val)
                        cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
                    return cache[name]
            return None
        if isinstance(attr_val, torch.nn.Parameter):
            found = proxy_for(attr_val, self.root.named_parameters(), parameter_proxy_cache)
            if found is not None:
                return found
        if self.proxy_buffer_attributes and isinstance(attr_val, torch.Tensor):
            found = proxy_for(attr_val, self.root.named_buffers(), parameter_proxy_cache)
            if found is not None:
                return found
        return attr_val

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """Placeholders for the arguments of the traced function."""
        fn = inspect.unwrap(root_fn)
        code = fn.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args = []
        skip = 0
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            skip = 1
            args.append(self.root)
        signature = inspect.signature(fn)

        def default_of(name):
            parameter = signature.parameters.get(name)
            return () if parameter is None or parameter.default is inspect.Parameter.empty else (parameter.default,)

        def placeholder(name):
            count = 0
            if concrete_args is not None and name in concrete_args:
                count += 1
                given = concrete_args[name]
                if isinstance(given, PHBase):
                    made = self.create_proxy("placeholder", "%s_%d" % (name, count), (), {})
                    _transfer_attrs(given, made.node)
                    return made

                def leaf(value):
                    nonlocal count
                    proxy = self.create_proxy("placeholder", "%s_%d" % (name, count), default_of(name), {})
                    count += 1
                    if isinstance(value, PHBase):
                        return proxy
                    if type(value) is bool or (type(value) in base_types and type(value) is not torch.Tensor):
                        torch._assert(proxy == value, "%s has been specialized to have value %s but got another value"
                                      % (name, value))
                    elif value is None:
                        self.create_proxy("call_function", _assert_is_none, (
                            proxy, "%s has been specialized to have value None but got another value" % name), {})
                    return value
                return pytree.tree_map(leaf, given)
            plain = name.lstrip("*")
            annotation = getattr(fn, "__annotations__", {}).get(plain)
            return self.create_proxy("placeholder", name, default_of(plain), {},
                                     type_expr=annotation if not isinstance(annotation, str) else None)

        argument_names = [names[i] for i in range(skip, total)]
        if isinstance(concrete_args, tuple) and not argument_names and code.co_flags & inspect.CO_VARARGS:
            # How many there are is known: each is a placeholder.
            return root_fn, args + [self.create_proxy("placeholder", "input_%d" % i, (), {}) if isinstance(given, PHBase) else given
                                    for i, given in enumerate(concrete_args)]
        if isinstance(concrete_args, tuple):
            if len(argument_names) != len(concrete_args):
                raise RuntimeError("Tracing expected %d arguments but got %d concrete arguments"
                                   % (len(argument_names), len(concrete_args)))
            concrete_args = dict(zip(argument_names, concrete_args))
        args += [placeholder(name) for name in argument_names]
        if code.co_kwonlyargcount > 0 or code.co_flags & HAS_VARSTUFF:
            if code.co_flags & inspect.CO_VARARGS:
                args.append(placeholder("*" + names[total]))
                total += 1
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(placeholder("**" + names[total]))
                total += 1
            root_fn = _patch_function(fn, len(args))
        flat, in_spec = pytree.tree_flatten(tuple(args))
        if concrete_args is not None and any(not child.is_leaf() for child in in_spec.children_specs):
            self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names[:total], in_spec, None))

            def flatten_fn(*args):
                tree = pytree.tree_unflatten(list(args), in_spec)
                out = root_fn(*tree)
                leaves, out_spec = pytree.tree_flatten(out)
                self.graph._codegen.pytree_info = _PyTreeInfo(names[:total], in_spec, out_spec)
                return leaves
            return flatten_fn, flat
        return root_fn, args

    def trace(self, root, concrete_args=None):
        """The graph of a module's forward, or of a function."""
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            if isinstance(root, torch.nn.Module):
                self.root = root
                if not hasattr(type(root), self.traced_func_name):
                    raise AssertionError("traced_func_name=%s doesn't exist in %s" % (self.traced_func_name,
                                                                                    type(root).__name__))
                fn = getattr(type(root), self.traced_func_name)
                self.root_module_name = root._get_name()
                self.submodule_paths = {module: name for name, module in root.named_modules()}
            else:
                self.root = torch.nn.Module()
                fn = root
            self.graph = Graph(tracer_cls=getattr(self, "__class__", None))
            self.tensor_attrs = {}
            self._collect_tensor_attrs(self.root, [])
            if hasattr(fn, "__code__"):
                self.graph._co_fields = {"co_name": fn.__code__.co_name, "co_filename": fn.__code__.co_filename, "co_firstlineno": fn.__code__.co_firstlineno}
            fn, args = self.create_args_for_root(fn, isinstance(root, torch.nn.Module), concrete_args)
            cache = {}

            @functools.wraps(_orig_module_getattr)
            def module_getattr(module, attr):
                return self.getattr(attr, _orig_module_getattr(module, attr), cache)

            @functools.wraps(_orig_module_call)
            def module_call(module, *args, **kwargs):
                def forward(*args, **kwargs):
                    return _orig_module_call(module, *args, **kwargs)
                _autowrap_check(patcher, getattr(getattr(module, "forward", module), "__globals__", {}),
                                self._autowrap_function_ids)
                return self.call_module(module, forward, args, kwargs)

            with _Patcher() as patcher:
                patcher.patch_method(torch.nn.Module, "__getattr__", module_getattr)
                patcher.patch_method(torch.nn.Module, "__call__", module_call)
                _patch_wrapped_functions(patcher)
                _autowrap_check(patcher, fn.__globals__, self._autowrap_function_ids)
                for module in self._autowrap_search:
                    _autowrap_check(patcher, module.__dict__, self._autowrap_function_ids)
                self.create_node("output", "output", (self.create_arg(fn(*args)),), {},
                                 type_expr=_annotation(fn, "return"))
            self.submodule_paths = None
        finally:
            _is_fx_tracing_flag = before
        return self.graph

    def _collect_tensor_attrs(self, module, prefix):
        for name, value in module.__dict__.items():
            if isinstance(value, torch.Tensor):
                self.tensor_attrs[value] = ".".join(prefix + [name])
        for name, child in module.named_children():
            self._collect_tensor_attrs(child, prefix + [name])

    def __deepcopy__(self, memo):
        new = Tracer.__new__(Tracer)
        for name, value in self.__dict__.items():
            if name in {"_autowrap_search"}:
                new_value = list(value)
            else:
                import copy
                new_value = copy.deepcopy(value, memo)
            setattr(new, name, new_value)
        return new

    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        raise NotImplementedError


def _annotation(fn, name):
    value = getattr(fn, "__annotations__", {}).get(name)
    return None if isinstance(value, str) else value


def _functions_of(modules):
    for module in modules:
        yield from vars(module).items()


def _find_proxy(*objects):
    found = []

    def look(x):
        if isinstance(x, Proxy):
            found.append(x)
        return x
    map_aggregate(objects, look)
    return found[0] if found else None


def _create_wrapped_func(orig_fn):
    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is not None:
            result = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
            result.node.meta["is_wrapped"] = True
            return result
        return orig_fn(*args, **kwargs)
    return wrapped


def _create_wrapped_method(cls, name):
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args, **kwargs):
        proxy = _find_proxy(args, kwargs)
        if proxy is not None:
            return proxy.tracer.create_proxy("call_method", name, args, kwargs)
        return orig_fn(*args, **kwargs)
    return wrapped


class _Patcher:
    """Replaces functions for the time of a trace."""

    def __init__(self):
        self.undo, self.visited = [], set()

    def patch(self, frame_dict, name, new_fn, deduplicate=True):
        new_fn.__fx_already_patched = deduplicate
        if name in frame_dict:
            before = frame_dict[name]
            self.undo.append(lambda: frame_dict.__setitem__(name, before))
        else:
            # A builtin: the name is made to shadow it.
            self.undo.append(lambda: frame_dict.pop(name, None))
        frame_dict[name] = new_fn

    def patch_method(self, cls, name, new_fn, deduplicate=True):
        new_fn.__fx_already_patched = deduplicate
        before = cls.__dict__.get(name)
        if before is None:
            self.undo.append(lambda: delattr(cls, name))
        else:
            self.undo.append(lambda: setattr(cls, name, before))
        setattr(cls, name, new_fn)

    def visit_once(self, thing):
        if id(thing) in self.visited:
            return False
        self.visited.add(id(thing))
        return True

    def __enter__(self):
        return self

    def __exit__(self, *error):
        while self.undo:
            self.undo.pop()()
        self.visited.clear()


def _patch_wrapped_functions(patcher):
    for (_, name), frame_dict in list(_wrapped_fns_to_patch.items()):
        original = frame_dict[name] if name in frame_dict else getattr(builtins, name, None)
        if original is not None:
            patcher.patch(frame_dict, name, _create_wrapped_func(original))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Record calls of the autowrapped functions (those of math, by default) that a namespace holds."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _create_wrapped_func(value))


def wrap(fn_or_name):
    """At the top level of a module: calls of this function (or name) are recorded as one node."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else getattr(fn_or_name, "__name__", None)
    if name is None:
        raise AssertionError("fn_or_name must have a __name__")
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def symbolic_trace(root, concrete_args=None):
    """A GraphModule of a module or function."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, torch.nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


@has_side_effect
def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)

