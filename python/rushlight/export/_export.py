"""export(): which sizes vary and how far, the runs that find it out, the program that they make."""
import contextlib
import inspect
import itertools
import random

import rushlight as torch
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from rushlight.utils import _pytree as pytree

from ._capture import Border, Builder, Differs, Run, Sizes, without_dead
from .dynamic_shapes import UNBOUNDED, Dim, _DimHint, leaf_specs
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, Symbol, ValueRanges
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, SymFloatArgument, SymIntArgument,
                              TensorArgument)

RUNS = 7     # with sizes that vary: enough that an expression which fits all of them is the one


class Varying:
    """A symbol: the sizes that it may have, the one in the example, whether the caller insists."""

    def __init__(self, name, label, least, most, example, insists):
        self.name, self.label, self.least, self.most, self.example, self.insists = name, label, least, most, example, insists


def violated(symbol, why):
    from rushlight._dynamo.exc import UserError
    return UserError("Constraints violated (%s)! The program was run with several sizes within the range of %s, and it is not the same program for all of them: %s"
                     % (symbol.label, symbol.label, why))


class Capturing:
    """One export: the module, its arguments, the symbols. as_traced: numbers that it reads out of tensors are those of the example, as torch.jit.trace has them."""
    run_type = Run

    def __init__(self, module, args, kwargs, dynamic_shapes, as_traced, preserved=()):
        self.module, self.as_traced = module, as_traced
        self.preserved = {name: module.get_submodule(name) for name in preserved}      # modules whose signature the program keeps
        self.leaves, self.spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.dims, self.symbols, self.sizes = {}, {}, []      # dims: by name; sizes: per leaf {dimension: (symbol, factor, term)}
        roots = {}
        for leaf, spec in zip(self.leaves, leaf_specs(module, args, kwargs, dynamic_shapes)):
            self.sizes.append(self.read(leaf, spec, roots) if isinstance(leaf, torch.Tensor) else {})

    def read(self, leaf, spec, roots):
        found = {}
        for d, what in spec.items():
            n = leaf.shape[d]
            if isinstance(what, Dim):
                example, rest = divmod(n - what.term, what.factor)
                symbol, known = roots.get(what.root.__name__), self.dims.setdefault(what.root.__name__, what.root)
                if (known.min, known.max) != (what.root.min, what.root.max):
                    raise self.wrong("Found different definitions %s and %s for the same symbolic dimension" % (known, what.root))
                if rest:
                    raise self.wrong("%s is %d in the example, which no %s gives" % (what, n, what.root.__name__))
                if symbol is None:
                    least = what.root.min if what.factor == 1 and not what.term else max(what.root.min, 1)
                    symbol = roots[what.root.__name__] = self.symbol(what.root.__name__, least, what.root.max, example, True)
                elif symbol.example != example:
                    raise self.wrong("%s = %d is not equal to %s = %d" % (what, example, symbol.label, symbol.example))
                found[d] = (symbol, what.factor, what.term)
            elif isinstance(what, _DimHint) and what.name != "STATIC":
                if n < 2 and what.name == "DYNAMIC":
                    raise self.wrong("a size of %d in the example cannot be dynamic: sizes of 0 and 1 are special" % n)
                if n >= 2:
                    label = "size %d" % d
                    found[d] = (self.symbol(label, max(what.min or 2, 2), what.max or UNBOUNDED, n, what.name == "DYNAMIC"), 1, 0)
            elif type(what) is int and what != n:
                raise self.wrong("dimension %d was said to be %d, and is %d" % (d, what, n))
        return found

    def wrong(self, text):
        from rushlight._dynamo.exc import UserError
        return UserError(text)

    def symbol(self, label, least, most, example, insists):
        name = "s%d" % len(self.symbols)
        if insists and not least <= example <= most:
            raise self.wrong("%s is %d in the example, which is not within [%d, %d]" % (label, example, least, most))
        self.symbols[name] = Varying(name, label, least, most, example, insists)
        return self.symbols[name]

    # ---- runs ----

    def inputs(self, numbers):
        """The example's leaves, of these sizes: repeated or cut."""
        made, known = [], {}
        for leaf, sizes in zip(self.leaves, self.sizes):
            same = next((t for other, t in known.get(id(leaf), ()) if other == sizes), None)
            if same is not None:
                leaf = same
            elif isinstance(leaf, torch.Tensor):
                t = leaf.detach()
                for d, (symbol, factor, term) in sizes.items():
                    n = numbers[symbol.name] * factor + term
                    if n != t.shape[d]:
                        t = t.index_select(d, torch.arange(n, device=t.device) % max(t.shape[d], 1))
                given, leaf = leaf, (t.clone() if t is not leaf and t._base is not None else t).requires_grad_(leaf.requires_grad)
                known.setdefault(id(given), []).append((sizes, leaf))
            made.append(leaf)
        return made

    def run(self, numbers):
        leaves = self.inputs(numbers)
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        kept = [*self.module.parameters(), *self.module.buffers()]
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        run = self.run_type([*kept, *tensors])
        run.leaves, run.as_traced = leaves, self.as_traced
        with self.put_back(kept, [t for t in self.leaves if isinstance(t, torch.Tensor)]), contextlib.ExitStack() as hooks:
            for hook in (h for name, m in self.preserved.items() for h in Border.watch(name, m)):
                hooks.callback(hook.remove)
            run.capture(self.module, args, kwargs)
        return run

    @contextlib.contextmanager
    def put_back(self, kept, given):
        """The module's tensors, the example's and the random state are afterwards as they were."""
        with torch.no_grad():
            before = [(t, t._version, t.detach().clone()) for t in (*kept, *given)]
        quiet = {id(t) for t in kept if not isinstance(t, torch.nn.Parameter)}      # statistics change without a new version
        state = torch.random._states()
        try:
            yield
        finally:
            torch.random._go_on_from(state)
            with torch.no_grad():
                for t, version, value in before:
                    if t._version != version or id(t) in quiet:
                        t.data.copy_(value)

    def example(self):
        return {name: s.example for name, s in self.symbols.items()}

    def fits(self, first, name, n):
        """Is it the same program with another size?"""
        try:
            other = self.run({**self.example(), name: n})
            self.build([first, other], {k: (s.example, n if k == name else s.example) for k, s in self.symbols.items()}, rough=True)
        except GuardOnDataDependentSymNode:
            raise
        except (Differs, RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError) as error:
            return error
        return None

    def find_ranges(self, first):
        """How far sizes may go: the ends that were asked for are tried; where nothing was asked for, the end is found."""
        for name, s in self.symbols.items():
            error = self.fits(first, name, s.least) if s.least != s.example else None
            if error is not None:
                if s.insists and s.label != "size" and s.least > 2:
                    raise violated(s, "with %d, %s" % (s.least, error)) from error
                s.least = self.bisect(first, name, s.least, s.example)
            high = min(s.most, 2 * s.example + 9)
            error = self.fits(first, name, high) if high != s.example else None
            if error is not None:
                if s.insists and s.most < UNBOUNDED:
                    raise violated(s, "with %d, %s" % (high, error)) from error
                s.most = self.bisect(first, name, high, s.example)
            if s.least == s.most and s.insists:
                raise violated(s, "it runs with %d alone: %s" % (s.example, error)) from error

    def bisect(self, first, name, bad, good):
        while abs(good - bad) > 1:
            middle = (good + bad) // 2
            if self.fits(first, name, middle) is None:
                good = middle
            else:
                bad = middle
        return good

    def numbers(self):
        """The sizes of each run: the example's, then others nearby, no two symbols in step."""
        rng, chosen = random.Random(7), [self.example()]
        for k in range(RUNS - 1):
            row = {}
            for name, s in self.symbols.items():
                low, high = max(s.least, s.example - 4), min(s.most, s.example + 13)
                row[name] = s.least if k == 0 and s.example - s.least < 64 else rng.randint(low, high)
            chosen.append(row)
        return chosen

    def capture(self):
        first = self.run(self.example())
        if not self.symbols:
            return self.build([first], {})
        self.find_ranges(first)
        for name in [n for n, s in self.symbols.items() if s.least == s.most]:
            self.forget(name)
        rows = self.numbers()
        runs = [first] + [self.run(row) for row in rows[1:]]
        try:
            return self.build(runs, {name: tuple(row[name] for row in rows) for name in self.symbols})
        except Differs as error:
            if all(s.insists for s in self.symbols.values()):
                raise violated(next(iter(self.symbols.values())), str(error)) from error
        for name in [n for n, s in self.symbols.items() if not s.insists]:
            self.forget(name)
        return self.capture()

    def forget(self, name):
        del self.symbols[name]
        self.sizes = [{d: x for d, x in sizes.items() if x[0].name != name} for sizes in self.sizes]

    # ---- the graph ----

    def names(self):
        """The names of the user's leaves: x, or x_0 and x_key of a list and a dict."""
        args, kwargs = pytree.tree_unflatten(list(range(len(self.leaves))), self.spec)
        parameters = inspect.signature(self.module.forward).parameters.values()
        plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), "args")
        top = plain[:len(args)] + ["%s_%d" % (rest, i) for i in range(len(args) - len(plain))]
        names = {}

        def walk(value, name):
            if isinstance(value, dict):
                for k, v in value.items():
                    walk(v, "%s_%s" % (name, k))
            elif isinstance(value, (list, tuple)):
                for i, v in enumerate(value):
                    walk(v, "%s_%d" % (name, i))
            elif isinstance(value, int):
                names[value] = name
            else:
                for i, v in enumerate(pytree.tree_leaves(value)):
                    names[v] = "%s_%d" % (name, i)
        for name, value in (*zip(top, args), *kwargs.items()):
            walk(value, name)
        self.argument_names = top + list(kwargs)
        return [names[i] for i in range(len(self.leaves))]

    def build(self, runs, symbols, rough=False):
        sizes = Sizes(symbols)
        if rough:
            sizes.fit = lambda numbers: numbers[0]
        b = Builder(runs, sizes)
        m, specs, taken = self.module, [], set()
        users = [_unique(_identifier(name), taken) for name in self.names()]
        persistent, b.constant_names = _state(m), _tensor_attributes(m)
        for name, p in m.named_parameters(remove_duplicate=False):
            specs.append(InputSpec(InputKind.PARAMETER, self.state(b, _unique(_identifier("p_" + name), taken), p, runs), name))
        for name, t in m.named_buffers(remove_duplicate=False):
            specs.append(InputSpec(InputKind.BUFFER, self.state(b, _unique(_identifier("b_" + name), taken), t, runs), name, name in persistent))
        for i, name in enumerate(users):
            specs.append(self.user_input(b, name, [run.leaves[i] for run in runs]))
        b.build()
        flat = [pytree.tree_flatten(run.result) for run in runs]
        if any(spec != flat[0][1] for _, spec in flat):
            raise Differs("the structure of what is returned")
        results = [b.argument([leaves[i] for leaves, _ in flat]) for i in range(len(flat[0][0]))]
        if rough:
            return None
        b.graph.output(tuple(results))
        without_dead(b.graph, [n for border in b.borders.values() for _, nodes in border for n in nodes])
        constants = lift_constants(b, specs)
        return self.program(b, specs, constants, [self.result(r) for r in results], flat[0][1])

    def state(self, b, name, t, runs):
        return TensorArgument(b.input(name, [t for _ in runs]).name)

    def user_input(self, b, name, values):
        node = b.input(name, values)
        constant = not isinstance(values[0], torch.Tensor)
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(node.name, values[0]) if constant else TensorArgument(node.name), None)

    def result(self, r):
        if not isinstance(r, torch.fx.Node):
            return OutputSpec(OutputKind.USER_OUTPUT, ConstantArgument("", r), None)
        kind = TensorArgument if r.meta.get("tensor") else SymFloatArgument if isinstance(r.meta.get("val"), float) else SymIntArgument
        return OutputSpec(OutputKind.USER_OUTPUT, kind(r.name), None)

    def ranges(self, b):
        found = {Symbol(n): ValueRanges(s.least, s.most) for n, s in self.symbols.items()}
        for n in b.unknown.values():
            found[Symbol(n)] = ValueRanges(0, UNBOUNDED)
        for n in b.roots:
            lows, highs = zip(*(run.known.ranges[n] for run in b.runs))     # where runs differ the end follows from a size
            low, high = lows[0] if len(set(lows)) == 1 else -UNBOUNDED, highs[0] if len(set(highs)) == 1 else UNBOUNDED
            if not isinstance(b.runs[0].known.values[n], float):
                low, high = max(low, -UNBOUNDED), min(high, UNBOUNDED)
            found[Symbol(n)] = ValueRanges(low, high)
        return found

    def program(self, b, specs, constants, outputs, out_spec):
        module = self.module
        args, kwargs = pytree.tree_unflatten(self.leaves, self.spec)
        state = _state(module)
        for name, t in module.named_buffers(remove_duplicate=False):
            if name not in state:
                constants[name] = t
        root = torch.nn.Module()
        for name, block in b.blocks.items():
            root.add_module(name, block)
        ranges = self.ranges(b)
        entry = ModuleCallEntry("", ModuleCallSignature([], [], self.spec, out_spec, self.argument_names))
        kept = {key: ModuleCallSignature(argument_specs(given), argument_specs(results), in_spec, out_spec) for key, ((in_spec, given), (out_spec, results)) in b.borders.items()}
        names = [name for name, _ in module.named_modules(remove_duplicate=False) if name]
        calls = [entry] + [ModuleCallEntry(name, kept.get(name)) for name in [*names, *(key for key in kept if key not in names)]]
        return ExportedProgram(torch.fx.GraphModule(root, b.graph), b.graph, ExportGraphSignature(specs, outputs), state, ranges, calls, (args, kwargs), constants)


def argument_specs(values):
    """What is said of values that a module takes or gives."""
    def one(v):
        if not isinstance(v, torch.fx.Node):
            return ConstantArgument("", v)
        name = v.meta.get("lifted", v).name
        return TensorArgument(name) if v.meta.get("tensor") else SymIntArgument(name)
    return [one(v) for v in values]


def lift_constants(b, specs):
    """Tensors that are part of the program become inputs of the graph, behind parameters and buffers."""
    used, place = {}, sum(s.kind is not InputKind.USER_INPUT for s in specs)
    placeholders = [n for n in b.graph.nodes if n.op == "placeholder"]
    for node in list(b.graph.nodes):
        if node.op != "get_attr" or not node.meta.get("constant"):
            continue
        before = placeholders[place] if place < len(placeholders) else next(n for n in b.graph.nodes if n.op != "placeholder")
        with b.graph.inserting_before(before):
            made = b.graph.placeholder(_identifier("c_" + node.target))
            made.target = made.name
        made.meta = dict(node.meta)
        node.meta["lifted"] = made
        specs.insert(place, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(made.name), node.target))
        placeholders.insert(place, made)
        place += 1
        used[node.target] = b.constants[node.target]
        node.replace_all_uses_with(made)
        b.graph.erase_node(node)
    return used


def _state(module):
    """The parameters and buffers of a state dict, by the names that they have in the module."""
    found = {}
    for prefix, m in module.named_modules(remove_duplicate=False):
        for name, t in (*m._parameters.items(), *((n, b) for n, b in m._buffers.items() if n not in m._non_persistent_buffers_set)):
            if t is not None:
                found[prefix + "." * bool(prefix) + name] = t
    return found


def _tensor_attributes(module):
    """Tensors that modules have and that are no parameters or buffers: id -> name."""
    found = {}
    for prefix, m in module.named_modules():
        for name, t in vars(m).items():
            if isinstance(t, torch.Tensor):
                found.setdefault(id(t), prefix + "." * bool(prefix) + name)
    return found


def _unique(name, taken):
    """The name, with a number if another has it."""
    made = next(n for n in itertools.chain([name], ("%s_%d" % (name, i) for i in itertools.count(1))) if n not in taken)
    taken.add(made)
    return made


def _identifier(name):
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name)


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):
    """Captures a module as a program without Python: torch.export.export."""
    return captured(mod, args, kwargs, dynamic_shapes, preserved=preserve_module_call_signature)


def captured(mod, args, kwargs=None, dynamic_shapes=None, as_traced=False, preserved=()):
    if not isinstance(mod, torch.nn.Module):
        raise ValueError("Expected `mod` to be an instance of `torch.nn.Module`, got %s." % type(mod))
    if isinstance(mod, torch.jit.ScriptModule):
        raise ValueError("Exporting a ScriptModule is not supported: export the module that it was made of.")
    if not isinstance(args, (tuple, list)):
        from rushlight._dynamo.exc import UserError
        raise UserError("Expecting `args` to be a tuple of example positional inputs, got %s" % type(args))
    capturing = Capturing(mod, tuple(args), kwargs or {}, dynamic_shapes, as_traced, preserved)
    try:
        return capturing.capture()
    except Differs as error:
        raise RuntimeError("torch.export: the program cannot be captured: %s" % error) from error


