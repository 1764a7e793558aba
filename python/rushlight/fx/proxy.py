"""Proxy: stands for a value while a program is traced; whatever is done with it becomes a node."""
import collections
import copy
import dataclasses
import enum
import inspect
import operator
import traceback

import rushlight as torch
from rushlight.fx.graph import Graph, magic_methods, reflectable_magic_methods
from rushlight.fx.node import Node, base_types, map_aggregate

__all__ = ["TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "MetaProxy", "Attribute", "ParameterProxy", "Scope",
           "ScopeContextManager"]


@dataclasses.dataclass
class Scope:
    """Which module is being traced."""

    module_path: str
    module_type: object


class ScopeContextManager:
    """Puts another scope in place for a block."""

    def __init__(self, scope, current_scope):
        self._prev_scope = copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self):
        return self._scope

    def __exit__(self, *error):
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


class TraceError(ValueError):
    """Something was asked of a proxy that depends on values."""


class TracerBase:
    """Makes nodes of calls, and proxies of nodes."""

    graph: Graph
    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def __init__(self):
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Add a node to the graph; the place to change what is recorded."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if hasattr(self, "scope"):
            self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        torch.fx.traceback.hand_on(node)
        return node

    def proxy(self, node):
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None, proxy_factory_fn=None):
        """A node of these arguments, and a proxy of it."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, tuple(args_), dict(kwargs_), name, type_expr)
        proxy = proxy_factory_fn(node) if proxy_factory_fn is not None else self.proxy(node)
        if self.record_stack_traces and not proxy.node.stack_trace:
            frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_FX_FOLDER)]
            proxy.node.stack_trace = "".join(traceback.format_list(frames))
        return proxy

    def create_arg(self, a):
        """A value as an argument of nodes: proxies become nodes, containers are walked."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, Node) or isinstance(a, base_types) or a is None or a is ...:
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            result = {}
            for key, value in a.items():
                key = self.create_arg(key)

                def no_node(arg):
                    if isinstance(arg, Node):
                        raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node. Got key: %s" % (key,))
                    return arg
                map_aggregate(key, no_node)
                result[key] = self.create_arg(value)
            return result
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (torch._ops.OpOverload, torch._ops.HigherOrderOperator, enum.Enum)):
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        raise NotImplementedError("argument of type: %s" % type(a))

    def to_bool(self, obj):
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """Iterating over a proxy: possible when the code unpacks it, which tells the length."""
        frame = inspect.currentframe().f_back
        while frame is not None and frame.f_code.co_filename.startswith(_FX_FOLDER):
            frame = frame.f_back
        count = _unpack_length(frame)
        if count is not None:
            return (obj[i] for i in range(count))
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a "
                         "*args or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed "
                         "explanation of what types of control flow can be traced, and check out the Proxy docstring for help "
                         "troubleshooting Proxy iteration errors")

    def keys(self, obj):
        return Attribute(obj, "keys")()


_FX_FOLDER = __file__.rsplit("/", 1)[0]


def _unpack_length(frame):
    """How many values the instruction being executed unpacks, None when it does not unpack."""
    import dis
    at = frame.f_lasti
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == at:
            if instruction.opname == "UNPACK_SEQUENCE":
                return instruction.argval
            return None
    return None


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that exists."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


class Proxy:
    """The stand-in for a value."""

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return "Proxy(%s)" % self.node.name

    def __getattr__(self, k):
        if k in ("tracer", "node"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__ = state

    def __deepcopy__(self, memo):
        new = Proxy(copy.deepcopy(self.node, memo), copy.deepcopy(self.tracer, memo))
        memo[id(self)] = new
        return new

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self,) + args, kwargs)

    def __iter__(self):
        return iter(self.tracer.iter(self))

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts:
            frame = inspect.currentframe().f_back
            import dis
            code = list(dis.get_instructions(frame.f_code))
            at = next((i for i, ins in enumerate(code) if ins.offset == frame.f_lasti), None)
            if at is not None and "JUMP_IF_TRUE" in code[at].opname and any(
                    ins.opname in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT") for ins in code[at + 1:at + 3]):
                self.tracer.create_proxy("call_function", torch._assert, (self, ""), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self):
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
                           "please call torch.fx.wrap('len') at module scope")

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args, kwargs = args or (), kwargs or {}
        tracers = {}

        def note(a):
            if isinstance(a, cls):
                tracers[a.tracer] = None
            return a
        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(tracers) > 1:
            raise RuntimeError("Found multiple different tracers %s while trying to trace operations %s"
                               % (list(tracers), orig_method))
        tracer = next(iter(tracers))
        if torch.overrides.is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        if isinstance(orig_method, torch._ops.HigherOrderOperator):
            raise RuntimeError("Unable to symbolically trace HigherOrderOperators")
        return tracer.create_proxy("call_function", orig_method, args, kwargs,
                                   name=tracer.graph._target_to_str(orig_method.__name__))


class MetaProxy(Proxy):
    """A proxy with a fake tensor for shapes."""

    def __init__(self, node, tracer=None, fake_mode=None):
        super().__init__(node, tracer)
        self.fake_mode = fake_mode


class Attribute(Proxy):
    """proxy.name: a call of a method when it is called, else getattr."""

    def __init__(self, root, attr):
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root,) + args, kwargs)


class ParameterProxy(Proxy):
    """A proxy of a parameter: its shape is known."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, torch.nn.Parameter):
            raise AssertionError("expected a Parameter")
        self.param, self.name = param, name

    def __repr__(self):
        return "ParameterProxy(%s)" % self.name

    @property
    def shape(self):
        return self.param.shape

    def size(self):
        return self.param.size()

    def dim(self):
        return self.param.dim()

    @property
    def ndim(self):
        return self.param.ndim

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()


def _add_magic(name):
    target = getattr(operator, name)

    def method(*args, **kwargs):
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)
    method.__name__ = "__%s__" % name.strip("_")
    setattr(Proxy, method.__name__, method)


def _add_reflected(name):
    target = getattr(operator, name)

    def method(self, other):
        return self.tracer.create_proxy("call_function", target, (other, self), {})
    method.__name__ = "__r%s__" % name.strip("_")
    setattr(Proxy, method.__name__, method)


for _name in magic_methods:
    _add_magic(_name)
for _name in reflectable_magic_methods:
    _add_reflected(_name)
