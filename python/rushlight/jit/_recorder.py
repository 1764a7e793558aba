"""torch.jit.trace: what a function calls on example inputs, written down as a program.

_C._capture tells of each operation, composites whole. Sizes are tensors while it does, so that what is computed of them is written
down as well, and stays free. What becomes a number of Python (int(), bool(), a loop's count) is a constant, and said to be.
"""
import ast
import inspect
import math
import re
import textwrap
import typing
import sys
import warnings

import rushlight as torch
from rushlight import _C

from ..autograd import function as autograd_function
from . import _loaded
from ._nodes import Modules, Number, Tracer
from ._program import Program, copied


running = autograd_function.traces  # the records of the traces that run, the innermost last


class Untraceable(Exception):
    """The call cannot be written down; why."""


def _flatten(x, name, tensors, lines):
    """The type of an argument; its tensors are gathered with the names that the program gives them."""
    if isinstance(x, torch.Tensor):
        tensors.append((name, x))
        return "Tensor"
    if isinstance(x, (tuple, list)) and x:
        names = [f"{name}_{i}" for i in range(len(x))]
        lines.append(f"{', '.join(names)}, = {name}")
        types = [_flatten(v, n, tensors, lines) for v, n in zip(x, names)]
        return f"Tuple[{', '.join(types)}]" if isinstance(x, tuple) else f"List[{types[0]}]"
    if isinstance(x, dict) and x and all(isinstance(k, str) for k in x):
        types = []
        for k, v in x.items():
            inner = f"{name}_{len(lines)}"
            lines.append(f"{inner} = {name}[{_text(k)}]")
            types.append(_flatten(v, inner, tensors, lines))
        return f"Dict[str, {types[0]}]"
    raise Untraceable(f"Type '{type(x).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors can be traced")


def _text(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class Record:
    """The calls of one run, which the tracer hears of as well."""

    def __init__(self, tracer):
        self.calls, self.tracer = [], tracer

    def tell(self, name, form, args, kwargs, results, grad):
        if name == "_local_scalar_dense":
            if sys._getframe(1).f_globals.get("__name__", "").startswith("rushlight.nn."):
                return  # a layer checks a size: nothing that the program could mend
            kind = {bool: "boolean", int: "integer", float: "float"}.get(type(results[0] if isinstance(results, (tuple, list)) else results), "number")
            warnings.warn(f"Converting a tensor to a Python {kind} might cause the trace to be incorrect. We can't record the data flow of Python values, so this value will be "
                          "treated as a constant in the future. This means that the trace might not generalize to other inputs!", torch.jit.TracerWarning, stacklevel=2)
            return
        self.calls.append((name, form, args, dict(kwargs or {}), results))
        self.tracer.call(*self.calls[-1])

    def size(self, t, dim):
        """A size of t, or with -1 how many elements it has, as a tensor."""
        n = torch.tensor(t.numel() if dim < 0 else t.shape[dim])
        self.calls.append(("numel" if dim < 0 else "size", 0, (t,) if dim < 0 else (t, dim), {}, (n,)))
        self.tracer.call(*self.calls[-1])
        return n

    def program(self, owner, name, run, args, kwargs):
        """A call of what has a program; tensors in the place of its numbers are numbers from here on."""
        types = _types_of(owner, name)
        args = tuple(_numbers(x, t) for x, t in zip(args, [*types.values()] + [""] * len(args)))
        kwargs = {k: _numbers(x, types.get(k, "")) for k, x in kwargs.items()}
        result = _C._capture_paused(lambda: run(args, kwargs))
        self.calls.append(ProgramCall(owner, name, args, kwargs, result))
        _C._capture_paused(lambda: self.tracer.program(*self.calls[-1]))
        return result

    def run(self, function, args, kwargs):
        running.append(self)
        try:
            self.result = _C._capture(self.tell, function, tuple(args), dict(kwargs), self.size, Number)
        finally:
            running.pop()
        return self


class ProgramCall(typing.NamedTuple):
    """A call of a method of a scripted module, or of a scripted function, which has no name here."""
    owner: object
    name: object
    args: list
    kwargs: dict
    result: object


def _types_of(owner, name):
    """The types of a program's arguments, by their names."""
    head = ast.parse(textwrap.dedent(owner.code if name is None else owner._c.code(name))).body[0].args
    return {a.arg: ast.unparse(a.annotation) if a.annotation is not None else "Tensor" for a in (*head.args, *head.kwonlyargs) if a.arg != "self"}


def _numbers(x, kind):
    if isinstance(x, torch.Tensor):
        return x.item() if kind in ("int", "float", "bool") else x
    return [_numbers(v, kind[5:-1]) for v in x] if isinstance(x, (list, tuple)) and kind.startswith("List[") else x


class State:
    """Buffers and parameters of a module, given back what they held after runs that do not count."""

    def __init__(self, modules):
        self.saved = [(t, t.detach().clone()) for m in modules for t in (*m.buffers(), *m.parameters())]

    def restore(self):
        with torch.no_grad():
            for t, old in self.saved:
                if not torch.equal(t, old):
                    t.copy_(old)


class Writer:
    """Calls as lines of TorchScript."""

    def __init__(self, owned, modules, program):
        """owned: how the module's tensors are written, and modules those below it; program: what else the text calls, and its constants."""
        self.names, self.kept, self.lines, self.constants, self.owned = {}, [], [], program.constants, owned
        self.modules, self.program = modules, program
        self.learns = True  # whether what is written has a gradient, as what is quantized has not
        self.numbers, self.read = set(), set()  # names of what is computed of sizes alone; names in the line that is written

    def give(self, t, name):
        self.names[id(t)] = name
        self.kept.append(t)

    def tensor(self, t):
        if id(t) not in self.names:
            if id(t) in self.owned:
                self.give(t, self.owned[id(t)])
            else:
                if t.requires_grad and self.learns:
                    raise RuntimeError(f"Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or detaching the gradient\nTensor:\n{t.detach()}")
                self.constants.append(t.detach())
                self.give(t, f"CONSTANTS.c{len(self.constants) - 1}")
        self.read.add(self.names[id(t)])
        return self.names[id(t)]

    def value(self, x):
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, Number):
            return f"{'float' if x.tensor.is_floating_point() else 'int'}({self.tensor(x.tensor)})"
        if isinstance(x, bool) or x is None:
            return str(x)
        if isinstance(x, int):
            return str(x)
        if isinstance(x, float):
            return str(x) if math.isinf(x) or math.isnan(x) else repr(x)
        if isinstance(x, str):
            return _text(x)
        if isinstance(x, (list, tuple)):
            inner = "[" + ", ".join(map(self.value, x)) + "]"
            if any(v is None for v in x):
                return f"annotate(List[Optional[Tensor]], {inner})"
            return inner if x else f"annotate(List[int], {inner})"
        if isinstance(x, torch.dtype):
            return str(_C._script_code(x))
        if isinstance(x, (torch.layout, torch.memory_format)):
            return str(_C._script_code(x))
        if isinstance(x, torch.device):
            return f"torch.device({_text(str(x))})"
        raise Untraceable(f"an argument of {type(x)} has no form in a program")

    def call(self, call):
        name, form, args, kwargs, results = call
        base = name.split(".")[0]
        self.read, self.learns = set(), any(isinstance(t, torch.Tensor) and t.requires_grad for t in torch.utils._pytree.tree_leaves(results))
        written = [self.value(x) for x in args]
        named = {k: self.value(kwargs[k]) for k in sorted(kwargs)}
        if name == "view.dtype" and len(written) == 2:  # a dtype is a number in programs, and a number in this place a size
            named["dtype"] = written.pop()
        if form == 1:
            base += "" if base.endswith("_") else "_"
        space, _, own = base.rpartition("::")
        text = (f"ops.{space}.{own}" if space else f"torch.{base}") + "(" + ", ".join(written + [f"{k}={v}" for k, v in named.items()]) + ")"
        sized = len(results) == 1 and name in ("size", "numel")
        if sized:
            text = f"ops.prim.NumToTensor({text})"
        outs = []
        several = len(results) == 1 and isinstance(results[0], (list, tuple))
        for r in (results[0] if several else results):
            outs.append(f"_{len(self.kept)}")
            if isinstance(r, torch.Tensor):
                self.give(r, outs[-1])
            else:
                self.kept.append(r)
        if sized or (form == 0 and self.read and self.read <= self.numbers):
            self.numbers.update(outs)
        self.lines.append(((", ".join(outs) + ("," if several else "") + " = " if outs else "") + text, outs, self.read))

    def program_call(self, call):
        if call.name is None:
            text = self.program.include(call.owner)(call.owner._path)
        else:
            text = f"{self.modules[id(call.owner)]}.{call.name}"
        self.read, self.learns = set(), True
        given = [self.given(x) for x in call.args] + [f"{k}={self.given(x)}" for k, x in call.kwargs.items()]
        out = f"_{len(self.kept)}"
        self.kept.append(call.result)
        self.lines.append((f"{out} = {text}({', '.join(given)})", [out], self.read))
        self.taken_apart(call.result, out)

    def given(self, x):
        """An argument of a program."""
        if isinstance(x, dict):
            return "{" + ", ".join(f"{self.given(k)}: {self.given(v)}" for k, v in x.items()) + "}"
        if isinstance(x, (tuple, list)) and x:
            inner = ", ".join(map(self.given, x))
            return f"({inner},)" if isinstance(x, tuple) else f"[{inner}]"
        return self.value(x)

    def taken_apart(self, x, name):
        """Names for the tensors of a program's result."""
        if isinstance(x, torch.Tensor):
            self.give(x, name)
        elif isinstance(x, (tuple, list)) and torch.utils._pytree.tree_any(lambda v: isinstance(v, torch.Tensor), x):
            outs = [f"{name}_{i}" for i in range(len(x))]
            self.lines.append((f"{', '.join(outs)}, = {name}", outs, {name}))
            for v, out in zip(x, outs):
                self.taken_apart(v, out)
        elif isinstance(x, dict):
            for i, (k, v) in enumerate(x.items()):
                self.lines.append((f"{name}_{i} = {name}[{self.given(k)}]", [f"{name}_{i}"], {name}))
                self.taken_apart(v, f"{name}_{i}")

    def body(self, result):
        """The lines, less those that compute numbers for nobody; `result` is what was read last."""
        kept, needed = [], set(result)
        for text, outs, read in reversed(self.lines):
            if needed.intersection(outs) or not (outs and self.numbers.issuperset(outs)):
                kept.append(text)
                needed |= read
        return kept[::-1]

    def result(self, x):
        """What is returned, and its type."""
        if isinstance(x, torch.Tensor):
            return self.tensor(x), "Tensor"
        if isinstance(x, tuple) and x:
            parts = [self.result(v) for v in x]
            return f"({', '.join(p[0] for p in parts)},)", f"Tuple[{', '.join(p[1] for p in parts)}]"
        if isinstance(x, list) and x:
            parts = [self.result(v) for v in x]
            return f"[{', '.join(p[0] for p in parts)}]", f"List[{parts[0][1]}]"
        if isinstance(x, dict) and x and all(isinstance(k, str) for k in x):
            parts = {k: self.result(v) for k, v in x.items()}
            return "{" + ", ".join(f"{_text(k)}: {p[0]}" for k, p in parts.items()) + "}", f"Dict[str, {next(iter(parts.values()))[1]}]"
        raise Untraceable(f"Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions, not {type(x).__name__}")


def _parameters(function, args, kwargs):
    """Names of the positional arguments."""
    try:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    names += [f"argument_{i + 1}" for i in range(len(names), len(args))]
    return [n for n in names[:len(args)]] + list(kwargs)


def own_inputs(args, kwargs):
    """The arguments with other tensors of the same memory: what is given twice, is a parameter as well, or is known to the function otherwise, stays apart in a trace."""
    def own(t):
        if type(t) not in (torch.Tensor, torch.nn.Parameter):
            return t
        return t.detach().requires_grad_(t.requires_grad) if t.is_leaf else t.view_as(t)  # a leaf could not be written
    return torch.utils._pytree.tree_map_only(torch.Tensor, own, (tuple(args), dict(kwargs)))


def trace_text(name, function, args, kwargs, program, tracer, owned, modules, method=True):
    """The text of one method, and its graph; the tensors that it has as constants are the program's."""
    tensors, lines, types = [], [], []
    args, kwargs = own_inputs(args, kwargs)
    names = _parameters(function, args, kwargs)
    names = [n if n not in ("self", "torch", "ops", "in", "is", "not") else n + "_" for n in names]
    for n, x in zip(names, [*args, *kwargs.values()]):
        types.append(_flatten(x, n, tensors, lines))
        tracer.inputs(n, x)
    record = Record(tracer).run(function, args, kwargs)
    writer = Writer(owned, modules, program)
    for n, t in tensors:
        writer.give(t, n)
    for call in record.calls:
        (writer.program_call if isinstance(call, ProgramCall) else writer.call)(call)
    writer.read, writer.learns = set(), True
    value, type_ = writer.result(record.result)
    head = ["self"] * method + [f"{n}: {t}" for n, t in zip(names, types)]
    body = lines + writer.body(writer.read) + [f"return {value}"]
    return f"def {name}({', '.join(head)}) -> {type_}:\n" + "".join(f"  {x}\n" for x in body), tracer.finish(record.result)


def _attribute(path):
    """self.layers.0.weight, as TorchScript writes it."""
    text = "self"
    for part in path.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text


def module_classes(module, root_methods, program, prefix="__torch__"):
    """The text of the classes of a module and all below it, and how to fill their objects: {module: class path}, and the modules, each after those within it.
    Those with a program keep theirs."""
    texts, paths, order = [], {}, []

    def visit(m):
        if id(m) in paths:
            return
        if isinstance(m, torch.jit.RecursiveScriptModule) and m is not module:
            paths[id(m)] = program.module(m).path()
            order.append(m)
            return
        for child in m._modules.values():
            if child is not None:
                visit(child)
        name = re.sub(r"\W", "_", type(m).__name__)
        paths[id(m)] = f"{prefix}.{name}" if m is module else f"{prefix}.{name}_{len(paths)}"
        lines = [f"class {paths[id(m)].rsplit('.', 1)[1]}(Module):"]
        lines.append("  __parameters__ = [" + "".join(f"{_text(n)}, " for n, p in m._parameters.items() if p is not None) + "]")
        lines.append("  __buffers__ = [" + "".join(f"{_text(n)}, " for n, b in m._buffers.items() if b is not None) + "]")
        fields = [(n, "Tensor") for n, t in [*m._parameters.items(), *m._buffers.items()] if t is not None]
        fields += [("training", "bool")] + [(n, paths[id(c)]) for n, c in m._modules.items() if c is not None]
        if any(not n.isidentifier() for n, _ in fields):
            lines.append("  __annotations__ = []")
        lines += [f"  {n} : {t}" if n.isidentifier() else f"  __annotations__[{_text(n)}] = {t}" for n, t in fields]
        if m is module:
            lines += [("  " + x).rstrip() for text in root_methods for x in text.rstrip("\n").split("\n")]
        texts.append("\n".join(lines) + "\n")
        order.append(m)
    visit(module)
    return "".join(texts), paths, order


def build(module, root_methods, program, prefix="__torch__", others=()):
    """A module with a program, whose tensors are those of `module`; `others` are the texts of functions that it calls."""
    text, paths, order = module_classes(module, root_methods, program, prefix)
    text += "".join(t for path, t, _ in others if path == prefix)
    sources = [(prefix, text, "a traced program"), *(x for x in others if x[0] != prefix), *program.sources()]
    unit = _C._ScriptUnit(sources, tuple(program.constants), program.of_included)
    made, inner = {}, {}
    for m in order:
        if isinstance(m, torch.jit.RecursiveScriptModule) and m is not module:
            made[id(m)] = copied(m._c, unit, program.module(m).renamed, inner)
            continue
        made[id(m)] = x = unit.make(paths[id(m)])
        for table in (m._parameters, m._buffers):
            for n, t in table.items():
                if t is not None:
                    x.set(n, t)
        for n, c in m._modules.items():
            if c is not None:
                x.set(n, made[id(c)])
        x.set("training", m.training)
    return _loaded.programmed(_loaded._module_of(made[id(module)], {}), sources, program.constants)


def owned_tensors(module):
    owned = {}
    for name, t in [*module.named_buffers(), *module.named_parameters()]:
        owned.setdefault(id(t), _attribute(name))
    return owned


def trace_methods(module, inputs):
    """{method: (args, kwargs)} of one module."""
    program, owned = Program(), owned_tensors(module)
    modules = {id(m): _attribute(name) for name, m in module.named_modules() if isinstance(m, torch.jit.RecursiveScriptModule) and m is not module}
    texts, graphs = [], {}
    for name, (args, kwargs) in inputs.items():
        function = _Forward(module) if name == "forward" else getattr(module, name)
        with Modules(module).scoped() as tracer:
            text, graphs[name] = trace_text(name, function, args, kwargs, program, tracer, owned, modules)
        texts.append(text)
    made = build(module, texts, program)
    _loaded._own(made, "_graphs", graphs)
    return made


def trace_graph(function, args, kwargs):
    """The graph of a call, whose inputs are the tensors among the arguments and the state of a module, and what the call returned."""
    tracer = Tracer()
    args, kwargs = own_inputs(args, kwargs)
    leaves = torch.utils._pytree.tree_leaves
    state = function.state_dict(keep_vars=True).values() if isinstance(function, torch.nn.Module) else ()
    for t in [*leaves((args, kwargs)), *{id(t): t for t in state}.values()]:
        if isinstance(t, torch.Tensor):
            tracer.inputs(None, t)
    result = Record(tracer).run(function, args, kwargs).result
    outs = [x for x in leaves(result) if x is not None]
    for x in outs:
        if not isinstance(x, torch.Tensor):
            raise RuntimeError(f"torch.jit._get_trace_graph: tensors, and lists, tuples and dictionaries of them, can be returned, not {type(x).__name__}")
    return tracer.finish(outs[0] if len(outs) == 1 else tuple(outs)), result


class _Forward:
    """A module as a function with its forward's signature."""

    def __init__(self, module):
        self.module = module
        try:
            self.__signature__ = inspect.signature(module.forward)
        except (TypeError, ValueError):
            pass

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)


class TracedFunction:
    """A function with a program."""

    def __init__(self, unit, path, sources, constants, original=None, graph=None):
        self._graph = graph
        self._unit, self._path, self._sources, self._wrapped = unit, path, (sources, tuple(constants)), original
        self.__name__ = self.name = path.rsplit(".", 1)[-1]
        self.__doc__ = getattr(original, "__doc__", None)

    def __call__(self, *args, **kwargs):
        return _loaded.called(self, None, args, kwargs)

    @property
    def code(self):
        return textwrap.dedent(self._unit.code(self._path))

    @property
    def graph(self):
        return self._graph or _loaded.Graph(self.code)

    inlined_graph = graph

    @property
    def schema(self):
        return _loaded.schema_of(self.code)

    @property
    def qualified_name(self):
        return self._path

    def save(self, f, **kwargs):
        from . import save
        save(self, f, **kwargs)


def trace_function(function, args, kwargs, cls):
    name = getattr(function, "__name__", "traced")
    name = name if name.isidentifier() else "traced"
    program = Program()
    text, graph = trace_text(name, function, args, kwargs, program, Tracer(), {}, {}, method=False)
    sources = [("__torch__", text, "a traced program"), *program.sources()]
    unit = _C._ScriptUnit(sources, tuple(program.constants), program.of_included)
    return cls(unit, f"__torch__.{name}", sources, program.constants, function, graph)


def function_module(f):
    """A module whose forward is the function, for files: they hold modules."""
    sources, constants = f._sources
    head = ast.parse(textwrap.dedent(f.code)).body[0]
    names = [a.arg for a in (*head.args.args, *head.args.kwonlyargs)]
    given = ", ".join([a.arg for a in head.args.args] + [f"{a.arg}={a.arg}" for a in head.args.kwonlyargs])
    head.name, head.args.args = "forward", [ast.arg("self"), *head.args.args]
    head.body = [ast.parse(f"return {f._path}({given})").body[0]]
    text = ast.unparse(ast.fix_missing_locations(head))
    assert "self" not in names
    program = Program()
    program.constants += constants
    return build(torch.nn.Module(), [text], program, others=sources)
