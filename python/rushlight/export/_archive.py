"""Programs in files: .pt2, a zip of JSON and of tensors' bytes; PyTorch's format 8, both ways.

Nothing pickled is read, so that a file runs no code: the sample inputs of PyTorch's files are left alone.
"""
import ctypes
import io
import json
import math
import operator
import os
import zipfile

import rushlight as torch
from rushlight import _ops
from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from rushlight.utils import _pytree as pytree

from ._sizes import symbols_in
from .dynamic_shapes import UNBOUNDED
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, Symbol, ValueRanges
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, SymBoolArgument, SymFloatArgument,
                              SymIntArgument, TensorArgument)

_DTYPES = {name: code for code, name in {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64", 11: "complex128",
    12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu",
    34: "uint32", 35: "uint64"}.items()}
_FORMATS = {"contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3, "preserve_format": 4}

_PLAIN = {"_operator." + name: getattr(operator, name) for name in ("eq ne le ge lt gt neg pos add sub mul floordiv truediv mod pow and_ or_ lshift rshift".split())}
_PLAIN.update({"math.trunc": math.trunc, "math.ceil": math.ceil, "math.floor": math.floor})
_PLAIN.update({"torch." + name: getattr(torch, name) for name in "sym_not sym_int sym_float sym_ite sym_max sym_min sym_sqrt".split()})
_PLAIN["torch._sym_sqrt"] = torch.sym_sqrt
_PLAIN_NAMES = {**{f: n for n, f in reversed(_PLAIN.items())}}
_HIGHER = "torch.ops.higher_order."


# ---- sizes ----

def _sympy(expr):
    """As PyTorch writes expressions: constructors of SymPy."""
    if isinstance(expr, str):
        if expr.startswith("zuf"):
            return "Symbol('%s')" % expr
        return "Symbol('%s', positive=True, integer=True)" % expr if not expr.startswith("u") else "Symbol('%s', integer=True)" % expr
    if isinstance(expr, int):
        return "Integer(%d)" % expr
    if isinstance(expr, float):
        return "Float('%r')" % expr
    name, *args = expr
    if name == "truediv":
        return "Mul(%s, Pow(%s, Integer(-1)))" % (_sympy(args[0]), _sympy(args[1]))
    return "%s(%s)" % ({"add": "Add", "mul": "Mul", "floordiv": "FloorDiv", "pow": "Pow", "mod": "PythonMod"}[name], ", ".join(map(_sympy, args)))


def _size(expr, hint):
    follows = not isinstance(expr, int) and any(name.startswith(("u", "zuf")) for name in symbols_in(expr))     # from data: nobody knows it
    return {"as_int": expr} if isinstance(expr, int) else {"as_expr": {"expr_str": _sympy(expr), "hint": None if follows else {"as_int": hint}}}


def _parse_sympy(text):
    """Numbers and symbols and constructors of them; what is not understood is kept as its text."""
    import ast

    def walk(node):
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -walk(node.operand)
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ValueError(text)
        name, args = node.func.id, [walk(a) for a in node.args]
        if name in ("Integer", "Float", "Symbol"):
            return float(args[0]) if name == "Float" else args[0]
        known = {"Add": "add", "Mul": "mul", "FloorDiv": "floordiv", "Pow": "pow", "PythonMod": "mod"}.get(name)
        if known is None:
            raise ValueError(text)
        numbers, others = [a for a in args if not isinstance(a, (str, tuple))], [a for a in args if isinstance(a, (str, tuple))]
        args = others + numbers if known in ("add", "mul") else args
        made = args[0]
        for a in args[1:]:
            made = (known, made, a)
        return made
    try:
        return walk(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError):
        return text


# ---- writing ----

def _device(device):
    return {"type": device.type, "index": device.index}


def _meta(about):
    size, stride, offset = about["hint"]
    return {"dtype": _DTYPES[str(about["dtype"]).split(".")[-1]], "sizes": [_size(e, h) for e, h in zip(about["size"], size)],
            "requires_grad": bool(about["requires_grad"]), "device": _device(about["device"]), "strides": [_size(e, h) for e, h in zip(about["stride"], stride)],
            "storage_offset": _size(about["offset"], offset), "layout": 7}


def _plain_meta(t):
    return _meta({"dtype": t.dtype, "size": list(t.shape), "stride": list(t.stride()), "offset": t.storage_offset(), "requires_grad": t.requires_grad,
                  "device": t.device, "hint": (list(t.shape), list(t.stride()), t.storage_offset())})


class _Writer:
    """One graph as JSON."""

    def __init__(self, module):
        self.module, self.tensors, self.ints, self.floats, self.bools = module, {}, {}, {}, {}

    def value(self, node):
        """What a node is: said once, then by name."""
        about, number = node.meta.get("tensor"), node.meta.get("number")
        if about is None and isinstance(node.meta.get("val"), torch.Tensor):
            t = node.meta["val"]
            self.tensors[node.name] = dict(_plain_meta(t), device={"type": "cpu", "index": None}) if t.device.type == "meta" else _plain_meta(t)
            return {"as_tensor": {"name": node.name}}
        if about is not None:
            self.tensors[node.name] = _meta(about)
            return {"as_tensor": {"name": node.name}}
        val = node.meta.get("val")
        if isinstance(val, bool):
            self.bools[node.name] = {"as_bool": val} if number is None else {"as_expr": {"expr_str": _sympy(number), "hint": {"as_bool": val}}}
            return {"as_sym_bool": {"as_name": node.name}}
        if isinstance(val, float):
            follows = isinstance(number, (str, tuple)) and any(name.startswith(("u", "zuf")) for name in symbols_in(number))
            self.floats[node.name] = {"as_expr": {"expr_str": _sympy(number), "hint": None if follows else {"as_float": val}}} if isinstance(number, (str, tuple)) else {"as_float": val}
            return {"as_sym_float": {"as_name": node.name}}
        if isinstance(val, int):
            self.ints[node.name] = _size(number if number is not None else val, val)
            return {"as_sym_int": {"as_name": node.name}}
        raise RuntimeError("torch.export.save: it is not known what the value '%s' is: a pass that made it left out meta['val']" % node.name)

    def refer(self, node):
        kind = self.value(node) if node.op != "get_attr" else None
        if kind is None:
            block = getattr(self.module, node.target)
            return {"as_graph": {"name": node.target, "graph": graph_json(block, node.target.startswith("while_loop_cond"))}}
        return kind

    def argument(self, x, wants=""):
        """x in the form that a parameter of a schema's type wants."""
        if isinstance(x, torch.fx.Node):
            return self.refer(x)
        if isinstance(x, (list, tuple)):
            return self.items(list(x), wants)
        if x is None:
            return {"as_none": True}
        if isinstance(x, bool):
            return {"as_bool": x}
        if isinstance(x, int):
            return {"as_float": float(x)} if wants.startswith("float") else {"as_int": x}
        if isinstance(x, float):
            return {"as_float": x if math.isfinite(x) else "NaN" if x != x else "Infinity" if x > 0 else "-Infinity"}
        if isinstance(x, complex):
            return {"as_complex": {"real": x.real, "imag": x.imag}}
        if isinstance(x, str):
            return {"as_string": x}
        if isinstance(x, torch.dtype):
            return {"as_scalar_type": _DTYPES[str(x).split(".")[-1]]}
        if isinstance(x, torch.device):
            return {"as_device": _device(x)}
        if isinstance(x, torch.layout):
            return {"as_layout": 7}
        if isinstance(x, torch.memory_format):
            return {"as_memory_format": _FORMATS[str(x).split(".")[-1]]}
        raise NotImplementedError("torch.export.save: an argument of type %s" % type(x))

    def items(self, x, wants):
        forms = [self.argument(i) for i in x]
        tags = {next(iter(f)) for f in forms}
        if "Tensor" in wants or "as_tensor" in tags:
            if "as_none" in tags or "?]" in wants or "Tensor?" in wants:
                return {"as_optional_tensors": forms}
            return {"as_tensors": [f["as_tensor"] for f in forms]}
        if "as_sym_int" in tags:
            return {"as_sym_ints": [f["as_sym_int"] if "as_sym_int" in f else f for f in forms]}
        if "float" in wants or "as_float" in tags:
            return {"as_floats": [float(i) for i in x]}
        if tags == {"as_bool"}:
            return {"as_bools": x}
        return {"as_strings": x} if tags == {"as_string"} else {"as_ints": x}

    def node(self, node):
        target, inputs = node.target, []
        if isinstance(target, _ops.OpOverload):
            params = target._schema.arguments
            for p, x in zip(params, node.args):
                inputs.append({"name": p.name, "arg": self.argument(x, str(p.written)), "kind": 1})
            types = {p.name: str(p.written) for p in params}
            for name, x in node.kwargs.items():
                inputs.append({"name": name, "arg": self.argument(x, types.get(name, "")), "kind": 2})
            name, returns = "torch.ops." + str(target), [str(r.written) for r in target._schema.returns]
        elif getattr(target, "namespace", "") == "higher_order":
            inputs = [{"name": "", "arg": self.argument(x), "kind": 1} for x in node.args]
            name, returns = _HIGHER + target._name, None
        elif target in _PLAIN_NAMES:
            inputs = [{"name": n, "arg": self.argument(x), "kind": 1} for n, x in zip("abc", node.args)]
            name, returns = _PLAIN_NAMES[target], ["int"]
        else:
            raise NotImplementedError("torch.export.save: the graph calls %s, which is no operator" % (target,))
        trace = {"stack_trace": node.meta["stack_trace"]} if node.meta.get("stack_trace") else {}
        return {"target": name, "inputs": inputs, "outputs": self.outputs(node, returns), "metadata": trace, "name": node.name, "is_hop_single_tensor_return": False if returns is None else None}

    def outputs(self, node, returns):
        if returns is not None and len(returns) == 1 and "[]" not in returns[0]:
            return [self.value(node)]
        if not returns and returns is not None:
            return []
        taken = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        count = len(returns) if returns and len(returns) > 1 else len(node.meta.get("items", ())) or max(taken, default=-1) + 1
        parts = []
        for i in range(count):
            if i in taken:
                parts.append(self.value(taken[i]))
                continue
            name = "%s_unused_%d" % (node.name, i)
            about = node.meta.get("items", {}).get(i) if isinstance(node.meta.get("items"), dict) else None
            self.tensors[name] = _meta(about) if about else {"dtype": 7, "sizes": [], "requires_grad": False, "device": {"type": "cpu", "index": None}, "strides": [],
                                                            "storage_offset": {"as_int": 0}, "layout": 7}
            parts.append({"as_tensor": {"name": name}})
        if returns is not None and len(returns) == 1:
            return [{"as_tensors": [p["as_tensor"] for p in parts]}]
        return parts


def graph_json(module, single=False):
    w, inputs, nodes, outputs = _Writer(module), [], [], []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            constant = not node.meta.get("tensor") and "number" not in node.meta and not isinstance(node.meta.get("val"), torch.Tensor)
            inputs.append(w.argument(node.meta.get("val")) if constant else w.value(node))
        elif node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (list, tuple)) else (node.args[0],)
            outputs = [w.argument(r) for r in results]
        elif node.op == "call_function" and node.target is not operator.getitem:
            nodes.append(w.node(node))
        elif node.op not in ("get_attr", "call_function"):
            raise NotImplementedError("torch.export.save: a node of the kind %s" % node.op)
    return {"inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": w.tensors, "sym_int_values": w.ints, "sym_bool_values": w.bools,
            "is_single_tensor_return": single, "custom_obj_values": {}, "sym_float_values": w.floats}


def _constant(x):
    form = _Writer(None).argument(x)
    return form if next(iter(form)) in ("as_int", "as_float", "as_string", "as_bool", "as_none") else {"as_none": True}


def _input_json(spec):
    arg = spec.arg
    if spec.kind is InputKind.PARAMETER:
        return {"parameter": {"arg": {"name": arg.name}, "parameter_name": spec.target}}
    if spec.kind is InputKind.BUFFER:
        return {"buffer": {"arg": {"name": arg.name}, "buffer_name": spec.target, "persistent": spec.persistent is not False}}
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": {"name": arg.name}, "tensor_constant_name": spec.target}}
    if isinstance(arg, ConstantArgument):
        return {"constant_input": {"name": arg.name, "value": _constant(arg.value)}}
    return {"user_input": {"arg": _by_name(arg)}}


def _by_name(arg):
    if isinstance(arg, ConstantArgument):
        return _Writer(None).argument(arg.value)
    tag = "as_tensor" if isinstance(arg, TensorArgument) else "as_sym_int" if isinstance(arg, SymIntArgument) else "as_sym_float" if isinstance(arg, SymFloatArgument) else "as_sym_bool"
    return {tag: {"name" if tag == "as_tensor" else "as_name": arg.name}}


_OUTPUTS = {OutputKind.USER_OUTPUT: ("user_output", None), OutputKind.LOSS_OUTPUT: ("loss_output", None), OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
            OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"), OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name")}


def _output_json(spec):
    tag, name = _OUTPUTS[spec.kind]
    return {tag: {"arg": _by_name(spec.arg)} if name is None else {"arg": {"name": spec.arg.name}, name: spec.target}}


def _program_json(program):
    signature, calls = program.graph_signature, []
    for entry in program.module_call_graph:
        s = entry.signature
        calls.append({"fqn": entry.fqn, "signature": s and {"inputs": [_by_name(a) for a in s.inputs], "outputs": [_by_name(a) for a in s.outputs], "in_spec": pytree.treespec_dumps(s.in_spec), "out_spec": pytree.treespec_dumps(s.out_spec),
                                                            "forward_arg_names": s.forward_arg_names}})
    graph = {"graph": graph_json(program.graph_module), "signature": {"input_specs": [_input_json(s) for s in signature.input_specs],
                                                                      "output_specs": [_output_json(s) for s in signature.output_specs]},
             "module_call_graph": calls, "metadata": {}, "treespec_namedtuple_fields": {}}
    ends = {UNBOUNDED: None, -UNBOUNDED: None, math.inf: None, -math.inf: None}
    ranges = {str(k): {"min_val": ends.get(v.lower, v.lower), "max_val": ends.get(v.upper, v.upper)} for k, v in program.range_constraints.items()}
    return {"graph_module": graph, "opset_version": {"aten": 10}, "range_constraints": ranges, "schema_version": {"major": 8, "minor": 20}, "verifiers": [program.dialect],
            "torch_version": torch.__version__.split("+")[0], "guards_code": []}


def _bytes_of(t):
    storage = t.untyped_storage()
    return ctypes.string_at(storage.data_ptr(), storage.nbytes()) if storage.nbytes() else b""


class _Payloads:
    """Tensors' bytes, each storage once."""

    def __init__(self, archive, folder, stem):
        self.archive, self.folder, self.stem, self.files, self.config = archive, folder, stem, {}, {}

    def add(self, name, t):
        t = t.detach() if t.device.type == "cpu" else t.detach().cpu()
        key = (t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) if t.untyped_storage().nbytes() else ("empty", len(self.files))
        if key not in self.files:
            self.files[key] = "%s_%d" % (self.stem, len(self.files))
            self.archive.writestr("%s/%s" % (self.folder, self.files[key]), _bytes_of(t))
        return self.files[key], t

    def put(self, name, tensor, is_param):
        file, t = self.add(name, tensor)
        self.config[name] = {"path_name": file, "is_param": is_param, "use_pickle": False, "tensor_meta": dict(_plain_meta(t), requires_grad=tensor.requires_grad)}

    def end(self, name):
        self.archive.writestr("%s/%s" % (self.folder, name), json.dumps({"config": self.config}))


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program as a .pt2 file, for this library and for PyTorch."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError("The 'ep' parameter must be an instance of 'ExportedProgram', got '%s' instead." % type(ep).__name__)
    if isinstance(f, (str, os.PathLike)):
        f = os.fspath(f)
        root = os.path.splitext(os.path.basename(f))[0]
    else:
        root = "archive"
    text = json.dumps(_program_json(ep))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        weights, constants = (_Payloads(archive, "%s/data/%s" % (root, a), b) for a, b in (("weights", "weight"), ("constants", "tensor")))
        parameters = set(ep.graph_signature.parameters)
        for name, t in ep.state_dict.items():
            weights.put(name, t, name in parameters)
        for name, t in ep.constants.items():
            constants.put(name, t, False)
        weights.end("model_weights_config.json")
        constants.end("model_constants_config.json")
        archive.writestr(root + "/models/model.json", text)
        sample = io.BytesIO()
        if ep.example_inputs is not None:
            torch.save(ep.example_inputs, sample)
        archive.writestr(root + "/data/sample_inputs/model.pt", sample.getvalue())
        for name, value in (extra_files or {}).items():
            archive.writestr("%s/extra/%s" % (root, name), value)
        for name, value in (("archive_format", "pt2"), ("archive_version", "0"), (".data/version", "6\n"), ("byteorder", "little")):
            archive.writestr("%s/%s" % (root, name), value)
    if isinstance(f, str):
        with open(f, "wb") as file:
            file.write(buffer.getvalue())
    else:
        f.write(buffer.getvalue())


# ---- reading ----

class _Reader:
    """One graph from JSON, as a GraphModule."""

    def __init__(self, tree, missing, names=()):
        self.tree, self.missing, self.names, self.root, self.graph, self.env = tree, missing, names, torch.nn.Module(), torch.fx.Graph(), {}
        self.fake_mode = FakeTensorMode()

    def describe(self, node, name):
        tree = self.tree
        if name in tree["tensor_values"]:
            about = node.meta["tensor"] = _read_meta(tree["tensor_values"][name])
            size, stride, _ = about["hint"]
            with torch.no_grad():
                node.meta["val"] = FakeTensor(self.fake_mode, torch.empty_strided(size, stride, dtype=about["dtype"], device="meta"), about["device"])
        for kind, key in (("sym_int_values", "as_int"), ("sym_float_values", "as_float"), ("sym_bool_values", "as_bool")):
            if name in tree.get(kind, {}):
                form = tree[kind][name]
                expr = form.get("as_expr")
                hint = (expr.get("hint") or {}).get(key) if expr else form.get(key)
                node.meta["val"] = hint if hint is not None else {"as_int": 2, "as_float": 0.5, "as_bool": True}[key]
                node.meta["number"] = _parse_sympy(expr["expr_str"]) if expr else form.get(key)
        self.env[name] = node

    def argument(self, form):
        (tag, x), = form.items()
        if tag == "as_none":
            return None
        if tag in ("as_tensor", "as_optional_tensor"):
            return self.env[x["name"]] if "name" in x else self.argument(x)
        if tag in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self.env[x["as_name"]] if "as_name" in x else next(iter(x.values()))
        if tag == "as_graph":
            self.root.add_module(x["name"], read_graph(x["graph"], self.missing))
            return self.graph.get_attr(x["name"])
        if tag == "as_tensors":
            return [self.env[i["name"]] for i in x]
        if tag == "as_optional_tensors":
            return [self.argument(i) for i in x]
        if tag in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self.env[i["as_name"]] if "as_name" in i else next(iter(i.values())) for i in x]
        if tag == "as_float" or tag == "as_floats":
            return float(x) if tag == "as_float" else [float(i) for i in x]
        if tag == "as_complex":
            return complex(x["real"], x["imag"])
        if tag == "as_scalar_type":
            return getattr(torch, next(n for n, code in _DTYPES.items() if code == x))
        if tag == "as_layout":
            return torch.strided
        if tag == "as_memory_format":
            return getattr(torch, next(n for n, code in _FORMATS.items() if code == x))
        if tag == "as_device":
            return torch.device(x["type"]) if x.get("index") is None else torch.device(x["type"], x["index"])
        if tag in ("as_int", "as_ints", "as_int_lists", "as_bool", "as_bools", "as_string", "as_strings"):
            return x
        raise NotImplementedError("torch.export.load: an argument of the kind '%s' is not supported" % tag)

    def target(self, name):
        if name in _PLAIN:
            return _PLAIN[name]
        if name.startswith(_HIGHER):
            from rushlight import _higher_order_ops
            return _higher_order_ops.operator_named(name[len(_HIGHER):])
        if not name.startswith("torch.ops."):
            return None
        found = torch.ops
        for part in name.split(".")[2:]:
            found = getattr(found, part, None)
            if found is None:
                return None
        return found

    def node(self, x):
        try:
            target = self.target(x["target"])
        except (AttributeError, RuntimeError):
            target = None
        if target is None:
            self.missing.append(x["target"])
            return
        args, kwargs = [], {}
        names = {a.name: i for i, a in enumerate(target._schema.arguments)} if isinstance(target, _ops.OpOverload) else {}
        for i in x["inputs"]:
            value = self.argument(i["arg"])
            if i.get("kind", 1) == 1 and (i["name"] not in names or names[i["name"]] == len(args)):
                args.append(value)
            else:
                kwargs[i["name"]] = value
        made = self.graph.call_function(target, tuple(args), kwargs)
        if x.get("metadata", {}).get("stack_trace"):
            made.meta["stack_trace"] = x["metadata"]["stack_trace"]
        self.outputs(made, x, isinstance(target, _ops.OpOverload))

    def outputs(self, made, x, plain):
        outputs = x["outputs"]
        several = not plain and x["target"].startswith(_HIGHER)
        if len(outputs) == 1 and "as_tensors" in outputs[0]:
            names, several = [i["name"] for i in outputs[0]["as_tensors"]], True
        else:
            names = [next((v for v in (o[t].get("name"), o[t].get("as_name")) if v), None) if isinstance(o[t], dict) else None for o in outputs for t in o]
            several = several or len(names) > 1
        if not several:
            for name in names:
                made.name = name
                self.describe(made, name)
            return
        made.name = x.get("name") or made.name
        for i, name in enumerate(names):
            if name is None or name.startswith(made.name + "_unused_"):
                made.meta.setdefault("items", {})[i] = _read_meta(self.tree["tensor_values"][name]) if name in self.tree["tensor_values"] else None
                continue
            item = self.graph.call_function(operator.getitem, (made, i))
            item.name = name
            self.describe(item, name)

    def read(self):
        for i, form in enumerate(self.tree["inputs"]):
            name = next(iter(form.values()))
            name = name.get("name") or name.get("as_name") if isinstance(name, dict) else None
            node = self.graph.placeholder(name or (self.names[i] if i < len(self.names) else "constant_%d" % i))
            if name is None:
                node.meta["val"] = self.argument(form)
            else:
                self.describe(node, name)
        for x in self.tree["nodes"]:
            if not self.missing or self.target(x["target"]) is None:
                self.node(x)
        if not self.missing:
            self.graph.output(tuple(self.argument(form) for form in self.tree["outputs"]))
        return torch.fx.GraphModule(self.root, self.graph)


def read_graph(tree, missing, names=()):
    return _Reader(tree, missing, names).read()


def _read_meta(x):
    dtype = getattr(torch, next(n for n, code in _DTYPES.items() if code == x["dtype"]))

    def size(form):
        if "as_int" in form:
            return form["as_int"], form["as_int"]
        hint = form["as_expr"].get("hint") or {}
        return _parse_sympy(form["as_expr"]["expr_str"]), hint.get("as_int", 2)
    sizes, strides, offset = [size(s) for s in x["sizes"]], [size(s) for s in x["strides"]], size(x["storage_offset"])
    return {"dtype": dtype, "size": [a for a, _ in sizes], "stride": [a for a, _ in strides], "offset": offset[0], "requires_grad": bool(x.get("requires_grad")),
            "device": torch.device(x["device"]["type"]), "hint": ([b for _, b in sizes], [b for _, b in strides], offset[1])}


def _read_specs(signature):
    inputs, outputs = [], []
    for spec in signature["input_specs"]:
        (tag, x), = spec.items()
        if tag == "parameter":
            inputs.append(InputSpec(InputKind.PARAMETER, TensorArgument(x["arg"]["name"]), x["parameter_name"]))
        elif tag == "buffer":
            inputs.append(InputSpec(InputKind.BUFFER, TensorArgument(x["arg"]["name"]), x["buffer_name"], x.get("persistent", True)))
        elif tag == "tensor_constant":
            inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(x["arg"]["name"]), x["tensor_constant_name"]))
        elif tag == "constant_input":
            inputs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(x["name"], None if "as_none" in x["value"] else next(iter(x["value"].values()))), None))
        elif tag == "user_input":
            inputs.append(InputSpec(InputKind.USER_INPUT, _read_arg(x["arg"]), None))
        else:
            raise NotImplementedError("torch.export.load: an input of the kind '%s' is not supported" % tag)
    kinds = {tag: (kind, name) for kind, (tag, name) in _OUTPUTS.items()}
    for spec in signature["output_specs"]:
        (tag, x), = spec.items()
        if tag not in kinds:
            raise NotImplementedError("torch.export.load: a result of the kind '%s' is not supported" % tag)
        kind, name = kinds[tag]
        outputs.append(OutputSpec(kind, TensorArgument(x["arg"]["name"]) if name else _read_arg(x["arg"]), x[name] if name else None))
    return ExportGraphSignature(inputs, outputs)


def _read_arg(form):
    (tag, x), = form.items()
    if tag == "as_tensor":
        return TensorArgument(x["name"])
    if tag in ("as_sym_int", "as_sym_float", "as_sym_bool") and "as_name" in x:
        return {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}[tag](x["as_name"])
    return ConstantArgument("", None if tag == "as_none" else next(iter(x.values())) if isinstance(x, dict) else x)


def _tensors(archive, root, folder, name):
    config, storages, found = json.loads(archive.read("%s/data/%s/%s" % (root, folder, name)))["config"], {}, {}
    for key, entry in config.items():
        if entry.get("use_pickle"):
            raise NotImplementedError("torch.export.load: '%s' is pickled, and pickles can run code: it is not read" % key)
        about = _read_meta(entry["tensor_meta"])
        size, stride, offset = about["hint"]
        file = entry["path_name"]
        if file not in storages:
            data = archive.read("%s/data/%s/%s" % (root, folder, file))
            storages[file] = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(0, dtype=torch.uint8)
        raw = storages[file]
        extent = (sum((n - 1) * s for n, s in zip(size, stride)) + 1 + offset if 0 not in size else 0) * about["dtype"].itemsize
        if raw.numel() == 0 and extent:
            raw = storages[file] = torch.zeros(extent, dtype=torch.uint8)
        if extent > raw.numel():
            raise RuntimeError("torch.export.load: the tensor '%s' is longer than its bytes" % key)
        t = torch.empty(0, dtype=about["dtype"]).set_(raw.untyped_storage(), offset, size, stride)
        t = torch.nn.Parameter(t, requires_grad=about["requires_grad"]) if entry.get("is_param") else t.requires_grad_(about["requires_grad"])
        same = next((o for o in found.values() if type(o) is type(t) and o.untyped_storage().data_ptr() == t.untyped_storage().data_ptr() and o.shape == t.shape
                     and o.stride() == t.stride() and o.storage_offset() == t.storage_offset() and t.numel()), None)
        found[key] = t if same is None else same
    return found


def load(f, *, extra_files=None, expected_opset_version=None):
    """A program from a .pt2 file, of this library or of PyTorch."""
    with zipfile.ZipFile(f) as archive:
        names = archive.namelist()
        root = names[0].split("/")[0] if names else ""
        model = next((n for n in names if n.startswith(root + "/models/") and n.endswith(".json")), None)
        if model is None or root + "/archive_format" not in names:
            raise RuntimeError("torch.export.load: the file is no program: it lacks models/NAME.json or archive_format")
        name = model[len(root) + 8:-5]
        tree = json.loads(archive.read(model))
        if tree["schema_version"]["major"] != 8:
            raise RuntimeError("torch.export.load: a program of format %s; 8 is supported" % tree["schema_version"]["major"])
        state = _tensors(archive, root, "weights", name + "_weights_config.json")
        constants = _tensors(archive, root, "constants", name + "_constants_config.json")
        for key in extra_files or {}:
            extra_files[key] = archive.read("%s/extra/%s" % (root, key)).decode()
    graph, missing = tree["graph_module"], []
    signature = _read_specs(graph["signature"])
    module = read_graph(graph["graph"], missing, [s.arg.name for s in signature.input_specs])
    if missing:
        raise NotImplementedError("torch.export.load: the program calls operations that are not here: " + ", ".join(sorted(set(missing))))
    calls = []
    for entry in graph["module_call_graph"]:
        s = entry.get("signature")
        calls.append(ModuleCallEntry(entry["fqn"], s and ModuleCallSignature(*([_read_arg(a) for a in s[k]] for k in ("inputs", "outputs")), pytree.treespec_loads(s["in_spec"]), pytree.treespec_loads(s["out_spec"]), s.get("forward_arg_names"))))
    ranges = {Symbol(k): ValueRanges((-UNBOUNDED if k.startswith(("u", "zuf")) else 0) if v.get("min_val") is None else v["min_val"], UNBOUNDED if v.get("max_val") is None else v["max_val"]) for k, v in tree.get("range_constraints", {}).items()}
    return ExportedProgram(module, module.graph, signature, state, ranges, calls, None, constants, verifiers=tree.get("verifiers") or ["TRAINING"])


