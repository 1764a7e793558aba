"""make_fx: a function is run once, and the operations that reach the bottom become a graph.

ProxyTorchDispatchMode sees each operation below autograd. It knows which node of the graph stands for which tensor,
adds a node for the call, runs it, and remembers the nodes of the results. So what the graph holds are calls of
OpOverloads: composites are taken apart, derivatives that the function computes are in it.
"""
import contextlib
import inspect

import rushlight as torch
from rushlight import _C
from rushlight.fx import Graph, GraphModule, Proxy, Tracer
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = ["PythonKeyTracer", "dispatch_trace", "make_fx", "DecompositionInterpreter", "get_proxy_mode", "handle_sym_dispatch",
           "maybe_enable_thunkify", "maybe_disable_thunkify"]


def get_proxy_mode():
    """The tracing mode that is active, or None."""
    return _C._get_dispatch_mode(ProxyTorchDispatchMode._mode_key)


class PythonKeyTracer(Tracer):
    """A tracer that never opens modules: it only sees operations."""

    def __init__(self):
        super().__init__(autowrap_modules=())
        self.root, self.graph, self.tensor_attrs = torch.nn.Module(), Graph(), {}
        self.known = {}         # id of a tensor -> (the tensor, its proxy)

    def remember(self, tensor, proxy):
        proxy.node.meta.setdefault("val", tensor)
        if isinstance(tensor, torch.Tensor):
            proxy.node.meta.setdefault("tensor_meta", _metadata(tensor))
        self.known[id(tensor)] = (tensor, proxy)

    def proxy_of(self, tensor):
        found = self.known.get(id(tensor))
        return found[1] if found is not None else None

    def constant(self, tensor):
        """The proxy of a tensor that the function did not get as an argument."""
        proxy = self.proxy_of(tensor)
        if proxy is None:
            with _disable_current_modes():
                proxy = Proxy(self.create_arg(tensor), self)
            self.remember(tensor, proxy)
        return proxy


def _metadata(tensor):
    from rushlight.fx.passes.shape_prop import _extract_tensor_metadata
    with _disable_current_modes():
        return _extract_tensor_metadata(tensor)


def _name_of(func):
    return func._schema.name.split("::")[-1]


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Inside, operations on tensors that the tracer knows become nodes of its graph."""

    _mode_key = _C._TorchDispatchModeKey.PROXY

    def __init__(self, tracer, tracing_mode="real", pre_dispatch=False, _allow_fake_constant=False,
                 _error_on_data_dependent_ops=True):
        super().__init__()
        self.tracer, self.tracing_mode, self.enable_tracing = tracer, tracing_mode, True
        self.decomposition_table = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self.enable_tracing:
            return func(*args, **kwargs)
        rule = self.decomposition_table.get(func)
        if rule is not None:
            with self:
                out = rule(*args, **kwargs)
            if out is not NotImplemented:
                return out
        if func is torch.ops.aten._local_scalar_dense.default:
            if self.tracer.proxy_of(args[0]) is None:
                return func(*args, **kwargs)
            raise RuntimeError("It appears that you're trying to get value out of a tracing tensor with %s - erroring out! It's "
                               "likely that this is caused by data-dependent control flow or similar. It may be possible to trace "
                               "this with dynamic shapes; try setting tracing_mode='symbolic' in your make_fx call." % func)
        return self._record(func, args, kwargs)

    def _record(self, func, args, kwargs):
        tracer = self.tracer
        if func is torch.ops.aten.lift_fresh.default:
            func = torch.ops.aten.lift_fresh_copy.default
        # The nodes of the arguments are found first: an in-place operation makes another one stand for its tensor.
        proxies = pytree.tree_map_only(torch.Tensor, tracer.constant, (args, kwargs))
        name = _name_of(func)
        proxy = tracer.create_proxy("call_function", func, proxies[0], proxies[1], name=name)
        with self._paused():
            out = func(*args, **kwargs)
        self._track(out, proxy)
        return out

    @contextlib.contextmanager
    def _paused(self):
        before, self.enable_tracing = self.enable_tracing, False
        try:
            yield
        finally:
            self.enable_tracing = before

    def _track(self, out, proxy):
        if isinstance(out, torch.Tensor):
            self.tracer.remember(out, proxy)
        elif isinstance(out, (tuple, list)):
            proxy.node.meta["val"] = out
            for i, item in enumerate(out):
                if item is not None:
                    self._track(item, proxy[i])

    @classmethod
    def is_infra_mode(cls):
        return True


class _WithModes:
    """Several modes entered together."""

    def __init__(self, *modes):
        self.modes = [mode for mode in modes if mode is not None]

    def __enter__(self):
        for mode in self.modes:
            mode.__enter__()

    def __exit__(self, *error):
        for mode in reversed(self.modes):
            mode.__exit__(*error)


def _parameter_names(f, count):
    """What the arguments of a function are called, for the placeholders."""
    if isinstance(f, torch.nn.Module):
        f = f.forward
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return ["arg%d" % i for i in range(count)]
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = [p.name for p in parameters if p.kind == p.VAR_POSITIONAL]
    required = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
    if required != count and not rest:
        raise RuntimeError("Tracing expected %d arguments but got %d concrete arguments" % (required, count))
    return plain + ["%s_%d" % (rest[0], i) for i in range(count - len(plain))]


def dispatch_trace(root, tracer, concrete_args=()):
    """The graph of root(*concrete_args), with what `tracer` has to know."""
    return _trace(root, tracer, concrete_args, "real", {}, None)


def _fresh(value, fake_mode):
    """The tensor that stands for an argument while it is traced: its own object, with its own place in a graph."""
    if not isinstance(value, torch.Tensor):
        return value
    if fake_mode is not None:
        return fake_mode.from_tensor(value)
    return value


def _trace(f, tracer, args, tracing_mode, decomposition_table, fake_mode):
    names = _parameter_names(f, len(args))
    leaves, spec = pytree.tree_flatten(list(args))
    flat = len(leaves) == len(args)
    values, counts = [], {}
    for i, leaf in enumerate(leaves):
        stem = names[i] if flat else _stem(names, args, i)
        counts[stem] = counts.get(stem, 0) + 1
        name = "%s_%d" % (stem, counts[stem])
        proxy = tracer.create_proxy("placeholder", name, (), {}, name=name)
        value = _fresh(leaf, fake_mode)
        if isinstance(value, torch.Tensor):
            tracer.remember(value, proxy)
        else:
            proxy.node.meta["val"] = value
        values.append(value)
    mode = ProxyTorchDispatchMode(tracer, tracing_mode)
    mode.decomposition_table = decomposition_table
    with _WithModes(fake_mode, mode):
        out = f(*pytree.tree_unflatten(values, spec))

    def to_node(value):
        if not isinstance(value, torch.Tensor):
            return value
        return tracer.constant(value).node
    results, out_spec = pytree.tree_flatten(out)
    results = [to_node(value) for value in results]
    plain = all(pytree.tree_structure(a).is_leaf() for a in args)
    if plain:
        tracer.graph.output(pytree.tree_unflatten(results, out_spec))
    else:
        tracer.graph.output(results)
        tracer.graph.set_codegen(_nested_codegen(names, spec, out_spec))
    return tracer.graph


def _stem(names, args, i):
    """The name of the argument that leaf i belongs to."""
    for name, value in zip(names, args):
        i -= len(pytree.tree_leaves(value))
        if i < 0:
            return name
    return "arg"


def _nested_codegen(names, in_spec, out_spec):
    from rushlight.fx.graph import _PyTreeCodeGen, _PyTreeInfo
    return _PyTreeCodeGen(_PyTreeInfo(list(names), pytree.tree_structure((tuple(pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)), {})), out_spec))


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True, **kwargs):
    """A function that, called with example arguments, returns a GraphModule of the operations that f runs on them.

    tracing_mode "fake" runs them without data; "symbolic" does too, and sizes are the numbers that they are.
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError('tracing_mode should be one of "real", "fake", "symbolic", got %s' % tracing_mode)

    def wrapped(*args):
        fake_mode = None
        if tracing_mode != "real":
            from rushlight._subclasses.fake_tensor import FakeTensorMode, maybe_get_fake_mode
            fake_mode = next((m for m in map(maybe_get_fake_mode, pytree.tree_leaves(args)) if m is not None), None) or \
                FakeTensorMode(allow_non_fake_inputs=_allow_non_fake_inputs or True)
        tracer = PythonKeyTracer()
        graph = _trace(f, tracer, args, tracing_mode, decomposition_table or {}, fake_mode)
        name = type(f).__name__ if isinstance(f, torch.nn.Module) else getattr(f, "__name__", type(f).__name__)
        return GraphModule(tracer.root, graph, name)
    return wrapped


class DecompositionInterpreter(torch.fx.Interpreter):
    """Runs a graph again, with some operators taken apart, into another graph."""

    def __init__(self, module, new_graph, decomposition_table=None, **kwargs):
        super().__init__(module, **kwargs)
        self.new_graph = new_graph
        self.tracer = torch.fx.proxy.GraphAppendingTracer(new_graph)
        self.decomposition_table = decomposition_table or {}

    def placeholder(self, target, args, kwargs):
        return Proxy(self.new_graph.placeholder(target), self.tracer)

    def get_attr(self, target, args, kwargs):
        return Proxy(self.new_graph.get_attr(target), self.tracer)

    def call_function(self, target, args, kwargs):
        rule = self.decomposition_table.get(target)
        if rule is not None:
            return rule(*args, **kwargs)
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def output(self, target, args, kwargs):
        self.new_graph.output(torch.fx.node.map_aggregate(args[0], lambda x: x.node if isinstance(x, Proxy) else x))


@contextlib.contextmanager
def disable_proxy_modes_tracing(enable_current=False):
    """Operations are run, not recorded, inside."""
    mode = get_proxy_mode()
    if mode is None:
        yield
        return
    with mode._paused():
        yield


disable_proxy_torch_dispatch_tracing = disable_proxy_modes_tracing


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode():
    from rushlight._subclasses.fake_tensor import unset_fake_temporarily
    with unset_fake_temporarily() as mode:
        yield mode


@contextlib.contextmanager
def maybe_enable_thunkify():
    yield


maybe_disable_thunkify = maybe_enable_thunkify


def handle_sym_dispatch(func, args, kwargs):
    """Sizes are numbers: there is nothing to record."""
    return func(*args, **kwargs)


def get_isolated_graphmodule(func, args, kwargs, tracing_mode="real", decomposition_table=None):
    """The graph of func(*args, **kwargs), whatever modes are active around."""
    flat, spec = pytree.tree_flatten((args, kwargs))

    def call(*leaves):
        args, kwargs = pytree.tree_unflatten(leaves, spec)
        return func(*args, **kwargs)
    with _disable_current_modes():
        return make_fx(call, decomposition_table, tracing_mode)(*flat)
