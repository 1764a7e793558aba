"""What a trace calls, as nodes of a graph (_graph.py): each call under PyTorch's name, with all arguments that its schema has.

PyTorch's trace holds a few operations otherwise than this library calls them: _TOLD has these.
"""
import contextlib
import functools
import sys

import rushlight as torch
from rushlight import _C

from ._graph import (AnyType, BoolType, ClassType, ComplexType, DeviceObjType, DictType, FloatType, FunctionType, GeneratorType, Graph, IntType, ListType, Node, NoneType, NumberType,
                     OptionalType, PyObjectType, StringType, TensorType, TupleType)

_PACKAGE = torch.__path__[0]
_ELEMENTS = {"Tensor": TensorType, "Tensor?": lambda: OptionalType(TensorType()), "int": IntType, "SymInt": IntType, "float": FloatType, "bool": BoolType, "Scalar": NumberType,
             "str": StringType}
_PLAIN = ((bool, BoolType), (int, IntType), (float, FloatType), (complex, ComplexType), (str, StringType), (torch.Generator, GeneratorType), (type(None), NoneType))
_CONVERSIONS = {"Scalar": ("ScalarImplicit", NumberType), "float": ("FloatImplicit", FloatType)}


# What traces hold that has no record here.
_MORE = {s.partition("(")[0]: s for s in (
    "size.int(Tensor self, int dim) -> int", "numel(Tensor self) -> int", "Int.Tensor(Tensor a) -> int", "FloatImplicit(Tensor a) -> float", "ScalarImplicit(Tensor a) -> Scalar",
    "_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
    "bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32) -> Tensor",
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, SymInt[] dilation, SymInt groups) -> Tensor")}


@functools.lru_cache(None)
def _schema(name):
    if name in _MORE:
        return _C.parse_schema("aten::" + _MORE[name])
    base, _, overload = name.partition(".")
    return _C._get_schema(base, overload)


def _where():
    """The lines of Python that run, the innermost first."""
    frame, lines = sys._getframe(1), []
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE + "/jit/") and not file.startswith("<frozen"):
            lines.append((file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(lines)


class Number:
    """A tensor where an operation takes a number."""

    def __init__(self, tensor):
        self.tensor = tensor


class Tracer:
    """Makes the graph of the calls that it is told of. It is PyTorch's TracingState, too: hooks of modules open scopes in it."""
    passes_numbers = False

    def __init__(self):
        self.made, self.values, self.kept, self.scopes = Graph(), {}, [], []
        self.where, self.owned, self.paths = (), {}, {}  # where it is; of a module: whose tensors have which names, and the paths of those below it
        self.outside = set()  # the memory of what was there before
        self.hidden = 0  # inside of so many calls that are one node
        self.storages = {}  # the memory of a value; of a node that writes, the set of what it writes to

    def graph(self):
        return self.made

    def push_scope(self, name):
        self.scopes.append(name)

    def pop_scope(self):
        self.scopes.pop()

    def current_scope(self):
        return "/".join(self.scopes)

    # ---- values ----

    def give(self, t, value):
        """From here on `value` stands for the tensor."""
        self.values[id(t)] = value
        self.kept.append(t)
        if t.layout is torch.strided:
            self.storages[value] = t.untyped_storage()._cdata
        return value

    def node(self, kind, inputs=(), attributes=None, schema=None, where=True):
        made = Node(self.made, kind, inputs, attributes, self.current_scope() if kind != "prim::GetAttr" else "", self.where if where else (), schema)
        self.made._nodes.append(made)
        return made

    def one(self, kind, inputs, type_, **more):
        """The value of a node that gives one."""
        return self.node(kind, inputs, **more).addOutput(type_)

    def constant(self, x):
        if x is None:
            return self.one("prim::Constant", (), NoneType(), where=False)
        held = x
        if isinstance(x, torch.Tensor):
            type_ = TensorType.create_from_tensor(x)
            self.kept.append(x)
        elif isinstance(x, torch.device):
            held, type_ = str(x), DeviceObjType()
        elif isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
            x = held = int(_C._script_code(x))
            type_ = IntType()
        else:
            type_ = _plain_type(x)
        value = self.one("prim::Constant", (), type_, attributes={"value": held})
        value.constant = x
        return value

    def tensor(self, t):
        value = self.values.get(id(t))
        if value is None:
            owned = self.owned.get(id(t))
            value = self.give(t, self.attribute(*owned, TensorType()) if owned else self.constant(t.detach()))
            if owned:
                self.outside.add(self.storages.get(value))
        return value

    def argument(self, kind, x, size=None):
        """A value for an argument whose type in the schema is `kind`."""
        kind = kind.removesuffix("?")
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, Number):
            return self.tensor(x.tensor) if kind == "Tensor" else self.number(self.tensor(x.tensor), *_CONVERSIONS.get(kind, ("Int.Tensor", IntType)))
        if x is None:
            return self.constant(None)
        if kind.endswith("]"):
            inner = kind[:kind.rindex("[")]
            items = list(x) if isinstance(x, (list, tuple)) else [x] * (size or 1)
            return self.one("prim::ListConstruct", [self.argument(inner, v) for v in items], ListType(_ELEMENTS.get(inner, AnyType)()), where=False)
        if kind == "Tensor":
            value = self.constant(torch.tensor(x))
            value.constant = x
            return value
        if kind == "float":
            x = float(x)
        return self.constant(x)

    def number(self, value, kind, type_):
        """The number in a tensor: PyTorch has it right behind what made the tensor, and below a traced module none where that was made of a number."""
        if self.passes_numbers and self.scopes and value.node().kind() == "prim::NumToTensor":
            return value.node().input()
        number = self.one("aten::" + kind.partition(".")[0], [value], type_(), where=False, schema=_schema(kind))
        nodes = self.made._nodes
        node, at = nodes.pop(), len(nodes)
        while at and nodes[at - 1] is not value.node():
            at -= 1
        nodes.insert(at, node)
        return number

    # ---- calls ----

    def call(self, name, form, args, kwargs, results):
        """A call as the capture tells it: form 1 is in place, 2 with out=."""
        if self.hidden:
            return
        self.where = _where()
        told = _TOLD.get(name) or _TOLD.get(name.partition(".")[0])
        if told:
            told(self, name, form, args, kwargs, results)
        else:
            self.emit(_renamed(name, form), form, args, kwargs, results)

    def run(self, name, *args):
        """The result of an operation that is called here, as a node."""
        with torch.no_grad():
            result = getattr(torch._C._nn if name == "linear" else torch, name)(*args) if not name.endswith("_") else getattr(args[0], name)(*args[1:])
        base = name.removesuffix("_")
        self.emit(base + ".Tensor" * (base in ("add", "sub", "mul")), int(base != name), args, {}, (result,))
        return result

    def stand_for(self, made, results):
        """The values of `made` are those of `results`."""
        for t, r in zip(made, results):
            self.give(r, self.values[id(t)].setType(TensorType.create_from_tensor(r)))

    def emit(self, name, form, args, kwargs, results):
        """One node with all arguments; `results` are the tensors that it gives."""
        base, _, overload = name.partition(".")
        if form == 1 and not base.endswith("_"):
            name = f"{base}_" + f".{overload}" * bool(overload)
        schema, kwargs = _schema(name), dict(kwargs)
        inputs, given = [], dict(zip((a.name for a in schema.arguments), args)) | kwargs
        factory = not any(isinstance(x, torch.Tensor) for x in args)
        for a in schema.arguments:
            x = given.pop(a.name, a.default_value)
            if a.name == "pin_memory" and x is None:
                x = False
            elif a.name == "device" and x is None and factory:
                x = results[0].device
            inputs.append((str(a.written), x, a.N))
        inputs += [("Tensor", x, None) for x in given.values()]  # out=
        space = "" if "::" in base else "aten::"
        node = self.node_of(space + name.partition(".")[0], inputs, results, schema)
        if form or schema.is_mutable:
            self.storages[node] = {self.storages.get(self.tensor(t)) for t in (kwargs.values() if form == 2 else args[:1]) if isinstance(t, torch.Tensor)}
        return node

    def node_of(self, kind, inputs, results, schema=None):
        values = [self.argument(*x) for x in inputs]
        node = self.node(kind, values, schema=schema)
        self.outputs(node, results)
        return node

    def outputs(self, node, results):
        for r in results:
            if isinstance(r, torch.Tensor):
                self.give(r, node.addOutput(TensorType.create_from_tensor(r)))
            elif isinstance(r, (list, tuple)) and all(isinstance(t, torch.Tensor) for t in r):
                unpack = self.node("prim::ListUnpack", [node.addOutput(ListType(TensorType()))], where=False)
                self.outputs(unpack, r)
            else:
                node.addOutput(_type_of(r))

    def function(self, cls, args, run):
        """A function of autograd, which is one node."""
        self.hidden += 1
        try:
            results = run()
        finally:
            self.hidden -= 1
        if not self.hidden:
            _C._capture_paused(lambda: self.python_op(cls, args, results if isinstance(results, tuple) else (results,)))
        return results

    def python_op(self, cls, args, results):
        self.where = _where()
        node = self.node("prim::PythonOp", [self.tensor(x) for x in args if isinstance(x, torch.Tensor)], {"inplace": 0, "module": cls.__module__})
        node._python = cls, [x for x in args if not isinstance(x, torch.Tensor)]
        self.outputs(node, results)

    def program(self, owner, name, args, kwargs, result):
        """A call of what has a program: a scripted function or a method of a scripted module."""
        if name is not None and id(owner) not in self.paths:
            raise RuntimeError(f"Tried to trace {owner} but it is not part of the active trace. Modules that are called during a trace must be registered as submodules of the thing "
                               "being traced.")
        if self.hidden:
            return
        self.where = _where()
        values = [self.packed(x) for x in (*args, *kwargs.values())]
        if name is None:
            function = self.one("prim::Constant", (), FunctionType(), attributes={"name": owner.name}, where=False)
            node = self.node("prim::CallFunction", [function, *values])
        else:
            node = self.node("prim::CallMethod", [self.module(self.paths[id(owner)]), *values], {"name": name})
        self.unpacked(node.addOutput(_type_of(result)), result)

    # ---- arguments and results of the whole ----

    def inputs(self, name, x):
        """An input of the graph, and the tensors in it."""
        self.unpacked(self.made.addInput(name).setType(_type_of(x)), x)

    def unpacked(self, value, x):
        if isinstance(x, torch.Tensor):
            self.give(x, value)
        elif isinstance(x, (tuple, list)):
            node = self.node("prim::TupleUnpack" if isinstance(x, tuple) else "prim::ListUnpack", [value], where=False)
            for v in x:
                self.unpacked(node.addOutput(_type_of(v)), v)
        elif isinstance(x, dict):
            for k, v in x.items():
                self.unpacked(self.one("aten::__getitem__", [value, self.constant(k)], _type_of(v)), v)

    def packed(self, x):
        """The value of a structure."""
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, dict):
            parts = [v for pair in x.items() for v in map(self.packed, pair)]
            return self.one("prim::DictConstruct", parts, DictType(StringType(), TensorType()), where=False)
        if isinstance(x, (tuple, list)):
            parts = [self.packed(v) for v in x]
            types = [v.type() for v in parts]
            return self.one("prim::TupleConstruct", parts, TupleType(types), where=False) if isinstance(x, tuple) else self.one(
                "prim::ListConstruct", parts, ListType(types[0] if types and not isinstance(types[0], TensorType) else TensorType()), where=False)
        return self.argument("", x)

    def finish(self, result):
        """The graph that gives `result`, less what nobody reads."""
        self.where, self.scopes = (), []
        self.made.registerOutput(self.packed(result))
        live = self.outside | {self.storages.get(v) for v in (*self.made._param._outputs, *self.made._return._inputs)}
        live.discard(None)
        kept = []
        for n in reversed(self.made._nodes):
            if n.hasUses() or n.kind() in ("prim::PythonOp", "prim::CallMethod") or live & self.storages.get(n, set()):
                kept.append(n)
                live.update(self.storages[v] for v in (*n._inputs, *n._outputs) if v in self.storages)
            else:
                n._leave()
        self.made._nodes = kept[::-1]
        return self.made


def _plain_type(x):
    return next((made for kind, made in _PLAIN if isinstance(x, kind)), PyObjectType)()


def _type_of(x):
    if isinstance(x, torch.Tensor):
        return TensorType.create_from_tensor(x)
    if isinstance(x, tuple):
        return TupleType([_type_of(v) for v in x])
    if isinstance(x, list):
        return ListType(_type_of(x[0]) if x and not isinstance(x[0], torch.Tensor) else TensorType())
    if isinstance(x, dict):
        return DictType(StringType(), TensorType())
    return _plain_type(x)


class Modules(Tracer):
    """The tracer of a module: its tensors are attributes of `self`, and calls of those below it are scopes."""
    passes_numbers = True

    def __init__(self, module):
        super().__init__()
        self.at, self.types = {}, {}
        for path, m in module.named_modules(remove_duplicate=False):
            self.paths.setdefault(id(m), path)
            self.types[path] = ClassType(_class_of(m))
            for name, t in (*m._parameters.items(), *m._buffers.items()):
                if t is not None:
                    self.owned.setdefault(id(t), (path, name))
        self.root = module
        self.at[""] = self.made.addInput("self").setType(self.types[""])

    def attribute(self, path, name, type_):
        """self.path.name."""
        value = self.one("prim::GetAttr", [self.module(path)], type_, attributes={"name": name}, where=False)
        return value.setDebugName(name if not name.isdigit() else "_" + name)

    def module(self, path):
        if path not in self.at:
            owner, _, name = path.rpartition(".")
            self.at[path] = self.attribute(owner, name, self.types[path])
        return self.at[path]

    @contextlib.contextmanager
    def scoped(self):
        """While it records."""
        hooks = torch.nn.modules.module.register_module_forward_pre_hook(self.enter), torch.nn.modules.module.register_module_forward_hook(self.leave)
        try:
            yield self
        finally:
            for hook in hooks:
                hook.remove()

    def enter(self, module, args):
        if self.is_below(module):
            self.push_scope("__module." + self.paths[id(module)])

    def leave(self, module, args, result):
        if self.is_below(module):
            self.pop_scope()

    def is_below(self, module):
        return module is not self.root and id(module) in self.paths and not isinstance(module, torch.jit.ScriptModule)


def _class_of(module):
    """The path of a module's class."""
    if isinstance(module, torch.jit.RecursiveScriptModule):
        return module._c.type
    path = f"__torch__.{type(module).__module__}.{type(module).__qualname__}"
    return path.replace("__main__.", "").replace("<locals>.", "").replace(".rushlight.", ".torch.")


# ---- what PyTorch's traces hold otherwise: told(tracer, name, form, args, kwargs, results) ----

def _size(tracer, name, form, args, kwargs, results):
    schema = _schema("size.int" if name == "size" else name)
    n = tracer.one("aten::" + name, [tracer.argument(str(a.written), x) for a, x in zip(schema.arguments, args)], IntType(), schema=schema)
    tracer.give(results[0], tracer.one("prim::NumToTensor", [n], TensorType.create_from_tensor(results[0]), where=False))


def _convolution(tracer, name, form, args, kwargs, results):
    """Convolutions under their common name, with the switches of cuDNN."""
    schema = _schema(name)
    given = {a.name: a.default_value for a in schema.arguments} | dict(zip((a.name for a in schema.arguments), args)) | kwargs
    out, x = results[0], given["input"]
    n = given["weight"].dim() - 2
    single = x.dim() == n + 1
    if single:
        x = x.unsqueeze(0)
        tracer.emit("unsqueeze", 0, (given["input"], 0), {}, (x,))
        out = out.unsqueeze(0)
    many = f"int[{n}]"
    start = [("Tensor", x, None), ("Tensor", given["weight"], None), ("Tensor?", given["bias"], None), (many, given["stride"], n)]
    if isinstance(given["padding"], str):
        tracer.node_of("aten::_convolution_mode", [*start, ("str", given["padding"], None), (many, given["dilation"], n), ("int", given["groups"], None)], (out,), _schema("_convolution_mode"))
    else:
        switches = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, torch.backends.cudnn.enabled, torch.backends.cudnn.allow_tf32
        transposed = given.get("transposed", "transpose" in name)
        tracer.node_of("aten::_convolution", [*start, (many, given["padding"], n), (many, given["dilation"], n), ("bool", transposed, None), (many, given.get("output_padding", 0), n),
                                              ("int", given["groups"], None), *(("bool", x, None) for x in switches)], (out,), _schema("_convolution"))
    if single:
        tracer.emit("squeeze.dim", 0, (out, 0), {}, results)


def _to(tracer, name, form, args, kwargs, results):
    """to(): with a device, with a dtype, or with neither."""
    more = {k: v for k, v in kwargs.items() if k in ("non_blocking", "memory_format")}
    dtype = kwargs.get("dtype") or args[0].dtype
    if kwargs.get("device") is not None:
        tracer.emit("to.device", 0, (args[0], kwargs["device"], dtype), more, results)
    elif kwargs.get("dtype") is not None:
        tracer.emit("to.dtype", 0, (args[0], dtype), more, results)
    else:
        tracer.emit("to.dtype_layout", 0, args, {"dtype": dtype, "layout": args[0].layout, "device": args[0].device, "pin_memory": False, **more}, results)


def _fresh(tracer, name, form, args, kwargs, results):
    """torch.tensor(): a constant, moved to its place."""
    value = tracer.constant(args[0].detach())
    moved = tracer.one("aten::to", [value, *map(tracer.constant, (args[0].device, args[0].dtype, False, False, None))], value.type(), schema=_schema("to.device"))
    tracer.give(results[0], tracer.one("aten::detach", [moved], value.type(), schema=_schema("detach")))


def _assigned(tracer, name, form, args, kwargs, results):
    """x[...] = a number."""
    tracer.emit("fill_.Tensor" if results[0].dim() else "copy_", 0, args[:2], {}, results)


def _spread(tracer, name, form, args, kwargs, results):
    """Variances and deviations of all elements, of which it is not said that they are biased or not."""
    tracer.emit(name + ".correction" if len(args) == 1 and "." not in name else name, form, args, kwargs, results)


def _lstm_cell(tracer, name, form, args, kwargs, results):
    x, (h, c), w_ih, w_hh, b_ih, b_hh = _weights(args, kwargs)
    do = tracer.run
    gates = do("add_", do("linear", h, w_hh, b_hh), do("linear", x, w_ih, b_ih))
    i, f, g, o = do("unsafe_chunk", gates, 4, 1)
    i, f, g, o = do("sigmoid_", i), do("sigmoid_", f), do("tanh_", g), do("sigmoid_", o)
    kept = do("mul", f, c)
    c = do("add_", kept, do("mul", i, g))
    tracer.stand_for((do("mul", o, do("tanh", c)), c), results)


def _gru_cell(tracer, name, form, args, kwargs, results):
    x, h, w_ih, w_hh, b_ih, b_hh = _weights(args, kwargs)
    do = tracer.run
    x_r, x_z, x_n = do("unsafe_chunk", do("linear", x, w_ih, b_ih), 3, 1)
    h_r, h_z, h_n = do("unsafe_chunk", do("linear", h, w_hh, b_hh), 3, 1)
    r = do("sigmoid_", do("add_", h_r, x_r))
    z = do("sigmoid_", do("add_", h_z, x_z))
    n = do("tanh_", do("add", x_n, do("mul_", h_n, r)))
    tracer.stand_for((do("add_", do("mul_", do("sub", h, n), z), n),), results)


def _rnn_cell(tracer, name, form, args, kwargs, results):
    x, h, w_ih, w_hh, b_ih, b_hh = _weights(args, kwargs)
    do = tracer.run
    out = do("add_", do("linear", h, w_hh, b_hh), do("linear", x, w_ih, b_ih))
    tracer.stand_for((do("tanh" if "tanh" in name else "relu", out),), results)


def _weights(args, kwargs):
    """A cell's input, state, weights and biases."""
    names = "input hx w_ih w_hh b_ih b_hh".split()
    given = dict.fromkeys(names) | dict(zip(names, args)) | kwargs
    return [given[n] for n in names]


# Names for the same operation, of which traces hold the second; operators of Python stand for the functions of their name.
_RENAMED = dict(pair.split("=") for pair in (
    "absolute=abs clip=clamp concat=cat concatenate=cat det=linalg_det divide=div fix=trunc greater=gt greater_equal=ge inverse=linalg_inv less=lt less_equal=le linalg_matmul=matmul "
    "matrix_power=linalg_matrix_power moveaxis=movedim multiply=mul negative=neg not_equal=ne orgqr=linalg_householder_product row_stack=vstack subtract=sub true_divide=div "
    "arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan arctan2=atan2 arctanh=atanh adjoint=mH conj=_conj swapaxes=transpose.int swapdims=transpose.int "
    "floor_divide.Scalar=floor_divide _to_dtype=to.dtype "
    "special_digamma=digamma special_erf=erf special_erfc=erfc special_erfinv=erfinv special_exp2=exp2 special_expit=sigmoid special_expm1=expm1 special_gammaln=lgamma special_i0=i0 "
    "special_log1p=log1p special_log_softmax=log_softmax special_logit=logit special_logsumexp=logsumexp special_multigammaln=mvlgamma special_polygamma=polygamma special_psi=digamma "
    "special_round=round special_sinc=sinc special_softmax=softmax.int special_xlogy=xlogy").split())
_OPERATORS = {"bitwise_and": "__and__", "bitwise_or": "__or__", "bitwise_xor": "__xor__", "bitwise_left_shift": "__lshift__", "bitwise_right_shift": "__rshift__"}


def _renamed(name, form):
    base, dot, overload = name.partition(".")
    base = _OPERATORS.get(base, base) if form == 0 else base
    return _RENAMED.get(name) or _RENAMED.get(base, base) + dot + overload


_TOLD = {"size": _size, "numel": _size, "var": _spread, "std": _spread, "lstm_cell": _lstm_cell, "gru_cell": _gru_cell,
         "rnn_tanh_cell": _rnn_cell, "rnn_relu_cell": _rnn_cell, "_to_copy": _to, "lift_fresh": _fresh, "fill_.Tensor": _assigned,
         **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"), _convolution)}
