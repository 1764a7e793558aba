"""torch.jit.trace: what a function calls on example inputs, written down as a program.

_C._capture tells of each operation, composites whole. Sizes of the inputs that may vary are found by running again with other
sizes: numbers that follow them in a straight line become expressions of size(); what does not follow stays fixed, as in PyTorch.
"""
import ast
import inspect
import math
import re
import textwrap
import warnings

import rushlight as torch
from rushlight import _C

from . import _loaded


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
    """The calls of one run."""

    def __init__(self):
        self.calls = []

    def tell(self, name, form, args, kwargs, results, grad):
        self.calls.append((name, form, args, dict(kwargs or {}), results))

    def run(self, function, args, kwargs):
        self.result = _C._capture(self.tell, function, tuple(args), dict(kwargs))
        return self


def _numbers(call):
    """All whole numbers among a call's arguments, in order."""
    found = []

    def walk(x):
        if isinstance(x, bool):
            return
        if isinstance(x, int):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            for v in x:
                walk(v)
    walk(call[2])
    walk([call[3][k] for k in sorted(call[3])])
    return found


def _resized(tensors, places, new):
    """The inputs with the sizes of these dimensions made `new`, by repeating what is there."""
    out = list(tensors)
    for k, d in places:
        out[k] = out[k].index_select(d, torch.arange(new) % out[k].shape[d])
    return out


def _places(tensors):
    """Which dimensions may vary together: first all of one size, then the first of each tensor, then each alone."""
    by_size = {}
    for k, (_, t) in enumerate(tensors):
        for d, n in enumerate(t.shape):
            if n:
                by_size.setdefault(n, []).append((k, d))
    return {n: [places, [p for p in places if p[1] == 0], *([p] for p in places)] if len(places) > 1 else [places] for n, places in sorted(by_size.items())}


def _rebuilt(x, tensors):
    if isinstance(x, torch.Tensor):
        return next(tensors)
    if isinstance(x, dict):
        return {k: _rebuilt(v, tensors) for k, v in x.items()}
    return type(x)(_rebuilt(v, tensors) for v in x)


class Sizes:
    """follows: call -> number -> (where the size is, slope, rest), where a number follows a size of the inputs."""

    def __init__(self, first, function, args, kwargs, tensors, state):
        self.follows, self.given = {}, (function, args, kwargs, tensors, state)
        if not any(_numbers(c) for c in first.calls):
            return
        for size, groups in _places(tensors).items():
            for k, places in enumerate(groups):
                works = places and self.vary(first, size, places)
                if works and k == 0:
                    break

    def vary(self, first, size, places):
        function, args, kwargs, tensors, state = self.given
        runs = []
        for new in (size + 1, size + 3):
            try:
                with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    it = iter(_resized([t.detach() for _, t in tensors], places, new))
                    given = [_rebuilt(a, it) for a in args]
                    named = {k: _rebuilt(v, it) for k, v in kwargs.items()}
                    runs.append((new, Record().run(function, given, named)))
            except Exception:  # with this size the program is another one, or none: the size is not free
                return False
            finally:
                state.restore()
        return self.compare(first, size, places, runs)

    def compare(self, first, size, places, runs):
        found = []
        for _, run in runs:
            if len(run.calls) != len(first.calls) or any(a[:2] != b[:2] or len(_numbers(a)) != len(_numbers(b)) for a, b in zip(first.calls, run.calls)):
                return False
        for k, call in enumerate(first.calls):
            for i, n in enumerate(_numbers(call)):
                (s1, a), (s2, b) = ((s, _numbers(run.calls[k])[i]) for s, run in runs)
                if n == a == b:
                    continue
                slope, rest = divmod(a - n, s1 - size)
                if rest or b - n != slope * (s2 - size) or i in self.follows.get(k, ()):
                    return False  # not in a straight line: this size is fixed
                found.append((k, i, (places[0], slope, n - slope * size)))
        for k, i, how in found:
            self.follows.setdefault(k, {})[i] = how
        return True


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

    def __init__(self, owned):
        self.names, self.kept, self.lines, self.constants, self.owned = {}, [], [], [], owned
        self.sizes, self.counted = {}, 0

    def give(self, t, name):
        self.names[id(t)] = name
        self.kept.append(t)

    def tensor(self, t):
        if id(t) not in self.names:
            if id(t) in self.owned:
                self.give(t, self.owned[id(t)])
            else:
                if t.requires_grad and not t.is_leaf:
                    raise Untraceable("a tensor that was computed outside of the trace, with gradients, is used in it")
                self.constants.append(t.detach())
                self.give(t, f"CONSTANTS.c{len(self.constants) - 1}")
        return self.names[id(t)]

    def number(self, follows):
        place, slope, rest = follows
        text = self.sizes[place]
        text = text if slope == 1 else f"torch.mul({text}, {slope})"
        return text if not rest else f"torch.add({text}, {rest})"

    def value(self, x, follows):
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, bool) or x is None:
            return str(x)
        if isinstance(x, int):
            self.counted += 1
            known = follows.get(self.counted - 1)
            return self.number(known) if known else str(x)
        if isinstance(x, float):
            return str(x) if math.isinf(x) or math.isnan(x) else repr(x)
        if isinstance(x, str):
            return _text(x)
        if isinstance(x, (list, tuple)):
            inner = "[" + ", ".join(self.value(v, follows) for v in x) + "]"
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

    def call(self, call, follows):
        name, form, args, kwargs, results = call
        self.counted = 0
        base = name.split(".")[0]
        written = [self.value(x, follows) for x in args]
        named = {k: self.value(kwargs[k], follows) for k in sorted(kwargs)}
        if name == "view.dtype" and len(written) == 2:  # a dtype is a number in programs, and a number in this place a size
            named["dtype"] = written.pop()
        if form == 1:
            base += "" if base.endswith("_") else "_"
        space, _, own = base.rpartition("::")
        text = (f"ops.{space}.{own}" if space else f"torch.{base}") + "(" + ", ".join(written + [f"{k}={v}" for k, v in named.items()]) + ")"
        outs = []
        several = len(results) == 1 and isinstance(results[0], (list, tuple))
        for r in (results[0] if several else results):
            outs.append(f"_{len(self.kept)}")
            if isinstance(r, torch.Tensor):
                self.give(r, outs[-1])
            else:
                self.kept.append(r)
        self.lines.append((", ".join(outs) + ("," if several else "") + " = " if outs else "") + text)

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


def trace_text(name, function, args, kwargs, owned, modules, method=True):
    """The text of one method, and the tensors that it has as constants."""
    tensors, lines, types = [], [], []
    names = _parameters(function, args, kwargs)
    names = [n if n not in ("self", "torch", "ops", "in", "is", "not") else n + "_" for n in names]
    for n, x in zip(names, [*args, *kwargs.values()]):
        types.append(_flatten(x, n, tensors, lines))
    record = Record().run(function, args, kwargs)
    writer = Writer(owned)
    for k, (n, t) in enumerate(tensors):
        writer.give(t, n)
        writer.sizes.update({(k, d): f"torch.size({n}, {d})" for d in range(t.ndim)})
    after = State(modules)
    sizes = Sizes(record, function, args, kwargs, tensors, after)
    for k, call in enumerate(record.calls):
        writer.call(call, sizes.follows.get(k, {}))
    value, type_ = writer.result(record.result)
    head = ["self"] * method + [f"{n}: {t}" for n, t in zip(names, types)]
    body = lines + writer.lines + [f"return {value}"]
    return f"def {name}({', '.join(head)}) -> {type_}:\n" + "".join(f"  {x}\n" for x in body), writer.constants


def _attribute(path):
    """self.layers.0.weight, as TorchScript writes it."""
    text = "self"
    for part in path.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text


def module_classes(module, root_methods, prefix="__torch__"):
    """The text of the classes of a module and all below it, and how to fill their objects: {module: class path}."""
    texts, paths, order = [], {}, []

    def visit(m):
        if id(m) in paths:
            return
        for child in m._modules.values():
            if child is not None:
                visit(child)
        name = re.sub(r"\W", "_", type(m).__name__)
        paths[id(m)] = f"{prefix}.{name}" if m is module else f"{prefix}.{name}_{len(paths)}"
        order.append(m)
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
    visit(module)
    return "".join(texts), paths, order


def build(module, root_methods, constants, prefix="__torch__", others=()):
    """A module with a program, whose tensors are those of `module`; `others` are the texts of functions that it calls."""
    text, paths, order = module_classes(module, root_methods, prefix)
    text += "".join(t for path, t, _ in others if path == prefix)
    sources = [(prefix, text, "a traced program"), *(x for x in others if x[0] != prefix)]
    unit = _C._ScriptUnit(sources, tuple(constants))
    made = {}
    for m in order:
        made[id(m)] = x = unit.make(paths[id(m)])
        for table in (m._parameters, m._buffers):
            for n, t in table.items():
                if t is not None:
                    x.set(n, t)
        for n, c in m._modules.items():
            if c is not None:
                x.set(n, made[id(c)])
        x.set("training", m.training)
    result = _loaded._module_of(made[id(module)], {})
    _loaded._own(result, "_sources", (sources, tuple(constants)))
    return result


def owned_tensors(module):
    owned = {}
    for name, t in [*module.named_buffers(), *module.named_parameters()]:
        owned.setdefault(id(t), _attribute(name))
    return owned


def trace_methods(module, inputs):
    """{method: (args, kwargs)} of one module."""
    texts, constants, owned = [], [], owned_tensors(module)
    for name, (args, kwargs) in inputs.items():
        function = module if name == "forward" else getattr(module, name)
        text, more = trace_text(name, function if name != "forward" else _Forward(module), args, kwargs, owned, [module])
        for i in reversed(range(len(more))):
            text = re.sub(rf"CONSTANTS\.c{i}\b", f"CONSTANTS.c{i + len(constants)}", text)
        constants += more
        texts.append(text)
    return build(module, texts, constants)


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

    def __init__(self, unit, path, sources, constants, original=None):
        self._unit, self._path, self._sources, self._wrapped = unit, path, (sources, tuple(constants)), original
        self.__name__ = self.name = path.rsplit(".", 1)[-1]
        self.__doc__ = getattr(original, "__doc__", None)

    def __call__(self, *args, **kwargs):
        return _loaded._back(self._unit.call(self._path, args, kwargs))

    @property
    def code(self):
        return textwrap.dedent(self._unit.code(self._path))

    @property
    def graph(self):
        return _loaded.Graph(self.code)

    inlined_graph = graph

    def save(self, f, **kwargs):
        from . import save
        save(self, f, **kwargs)


def trace_function(function, args, kwargs, cls):
    owner = getattr(function, "__self__", None)
    modules = [owner] if isinstance(owner, torch.nn.Module) else []
    name = getattr(function, "__name__", "traced")
    name = name if name.isidentifier() else "traced"
    text, constants = trace_text(name, function, args, kwargs, {}, modules, method=False)
    sources = [("__torch__", text, "a traced program")]
    return cls(_C._ScriptUnit(sources, tuple(constants)), f"__torch__.{name}", sources, constants, function)


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
    return build(torch.nn.Module(), [text], constants, others=sources)
