"""run_decompositions: the nodes of a program are run again, and what is written down are the operations that they are made of.

Three things happen to each node, from the top down: an operation that the table has a rule for is given to that rule (_Interpreted.call, and _Above
inside of composites); changes in place become results (FunctionalizeMode); what arrives below is given to its rule, too, or is written down (_Below).
"""
import dataclasses
import math

import rushlight as torch
from rushlight import _C, _decomp
from rushlight._dynamo.exc import UserError
from rushlight._functorch.functional import FunctionalizeMode
from rushlight._ops import HigherOrderOperator, OpOverload
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _pop_mode, _push_mode

from ._capture import Builder, Differs, Run, Sizes, _running, without_dead
from ._export import Capturing, Varying, argument_specs, lift_constants
from .exported_program import ExportedProgram, ModuleCallEntry
from ._symbols import Number, Relation
from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


aten = torch.ops.aten
# Composites that may be views, of numbers that follow from data: with the sizes that were asked for.
_WITH_NUMBERS = {
    aten.narrow.default: lambda x, dim, start, length: aten.slice.Tensor(x, dim, start, start + length),
    aten.reshape.default: lambda x, shape: aten.view.default(x if x.is_contiguous() else aten.clone.default(x, memory_format=torch.contiguous_format), shape),
    aten.view_as.default: lambda x, other: aten.view.default(x, other.shape),
    aten.expand_as.default: lambda x, other: aten.expand.default(x, other.shape),
    aten.flatten.using_ints: lambda x, start=0, end=-1: _WITH_NUMBERS[aten.reshape.default](x, _flat(x, start % max(x.dim(), 1), end % max(x.dim(), 1))),
}


def _flat(x, start, end):
    sizes = list(x.shape)
    return [*sizes[:start], math.prod(sizes[start:end + 1]), *sizes[end + 1:]]


class _ByRules(TorchDispatchMode):
    """What its subclasses share: calls of operations that a table has rules for."""

    def __init__(self, run, table):
        super().__init__()
        self.run, self.table = run, table

    def ruled(self, func, args, kwargs):
        """What the rule gives, or NotImplemented."""
        rule = self.table.get(func)
        if self.run.follows_data(args, kwargs) and _decomp.computes_inside(func, rule):
            return self.run.kept(func, args, kwargs)
        if rule is None:
            return NotImplemented
        with self:
            return rule(*args, **kwargs)


class _Below(_ByRules):
    """Writes down operations below autograd and below functionalization. `self.node` is the node of the program that they come from."""

    _mode_key = _C._TorchDispatchModeKey.PROXY

    def __init__(self, run, table):
        super().__init__(run, table)
        self.node = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = self.ruled(func, args, kwargs)
        if out is not NotImplemented:
            return out
        out = func(*args, **kwargs)
        self.write(func, args, kwargs, tuple(out) if len(func._schema.returns) > 1 else (out,))
        return out

    def write(self, func, args, kwargs, results):
        self.run.add(func, args, kwargs, results, True)
        call, meta = self.run.calls[-1], self.node.meta if self.node is not None else {}
        call.where, call.modules, call.function = meta.get("stack_trace"), meta.get("nn_module_stack"), meta.get("torch_fn")


class _Above(_ByRules):
    """Gives what has a rule to it while changes in place are still what they are: the rules' own are taken apart below, too."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = self.ruled(func, args, kwargs)
        return func(*args, **kwargs) if out is NotImplemented else out


class _Interpreted(Run):
    """One run of a graph with these values of its inputs. `changed`: what inputs have become, by number."""

    wanted = frozenset()    # names of nodes whose values are asked for

    def __init__(self, module, table, values):
        super().__init__([v for v in values if isinstance(v, torch.Tensor)])
        self.module, self.table, self.operands = module, table, list(values)

    def capture(self):
        self.within = bool(_running)
        _running.append(self)
        self.below, self.pure = _Below(self, self.table), FunctionalizeMode()
        given = [self.pure.own(v) if isinstance(v, torch.Tensor) else v for v in self.operands]
        try:
            with torch.no_grad(), self.below:
                with self.pure, _Above(self, self.table):
                    if self.within:
                        out = _C._capture_paused(lambda: self.interpret(iter(given)))
                    else:       # so that numbers that follow from data may be arguments
                        out = _C._capture(lambda *told: None, self.interpret, (iter(given),), {}, self.size, self.number, None, Number)
                self.result = [self.pure.read(x) for x in out]
                self.changed = {i: self.pure.read(x) for i, x in enumerate(given) if isinstance(x, torch.Tensor) and x.store.raised}
        finally:
            _running.pop()
        return self

    def size(self, t, dim):
        return super().size(getattr(t, "value", t), dim)

    def take(self, t):
        """item(): a number that follows from data, if the tensor does."""
        pure = self.read(t)
        with _disable_current_modes():
            value = pure.item()
        if id(pure) not in self.tainted:
            return value
        if type(value) not in (int, float) or self.within:
            self.below.write(aten._local_scalar_dense.default, (pure,), {}, (value,))
            return value
        return self.known.once("item", pure, lambda: self.first_item(pure, value))

    def first_item(self, pure, value):
        made = self.known.fresh(value)
        self.below.write(aten._local_scalar_dense.default, (pure,), {}, (made,))
        return made

    def interpret(self, given):
        values, self.marked = {}, {}
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr":
                values[node] = getattr(self.module, node.target)
            elif node.op == "output":
                return torch.fx.node.map_arg(node.args[0], lambda n: values[n])
            else:
                self.below.node = node
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
                values[node] = self.call(node.target, tuple(args), kwargs)
            if node.name in self.wanted:
                self.marked[node.name] = self.pure.read(values[node])

    def call(self, target, args, kwargs):
        if isinstance(target, HigherOrderOperator):
            return self.blocks(target, args)
        if not isinstance(target, OpOverload):
            return target(*args, **kwargs)
        if target is torch.ops.aten.sym_size.int:
            return args[0].shape[args[1]]
        if target in (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default):
            return self.take(args[0])
        if target is torch.ops.aten._assert_scalar.default:     # Builder writes what it says again
            if isinstance(args[0], Relation):
                self.known.learn(args[0])
            return None
        rule = self.table.get(target)
        if self.follows_data(args, kwargs) and _decomp.computes_inside(target, rule):
            return self.kept(target, args, kwargs)
        if rule is not None:
            try:
                out = rule(*args, **kwargs)
            except GuardOnDataDependentSymNode:     # the rule goes on as sizes say, and they are not known
                if not self.follows_data(args, kwargs):
                    raise
                return self.kept(target, args, kwargs)
            if out is not NotImplemented:
                return out
        elif _decomp.stays_whole(target):
            return self.whole(target, args, kwargs)
        return target(*args, **kwargs)

    def follows_data(self, args, kwargs):
        """Are there numbers, or sizes, that follow from data?"""
        return bool(self.known.values) and any(isinstance(x, Number) or id(getattr(x, "value", x)) in self.sizes for x in pytree.tree_leaves((args, kwargs)))

    def kept(self, func, args, kwargs):
        """A composite whose own arithmetic would make plain numbers of those that follow from data: what it is made of is said here, or it stays one call."""
        made_of = _WITH_NUMBERS.get(func)
        return made_of(*args, **kwargs) if made_of is not None else self.whole(func, args, kwargs)

    def read(self, values):
        """The pure tensors that values are now; what has to be computed for that is written down."""
        above, pure = _pop_mode(), _pop_mode(FunctionalizeMode._mode_key)
        try:
            return pytree.tree_map(self.pure.read, values)
        finally:
            _push_mode(pure)
            _push_mode(above)

    def whole(self, func, args, kwargs):
        """A composite that the table has no rule for: one call."""
        args, kwargs = self.read((args, kwargs))
        with _disable_current_modes():
            out = func(*args, **kwargs)
        self.below.write(func, args, kwargs, tuple(out) if len(func._schema.returns) > 1 else (out,))
        return self.pure.wrap(out)

    def blocks(self, target, args):
        """An operator that takes graphs: each is interpreted with values that it could get."""
        name, args = target._name, self.read(args)
        graphs = [a for a in args if isinstance(a, torch.fx.GraphModule)]
        lists = [list(a) for a in args if isinstance(a, (list, tuple))]
        if name not in ("cond", "while_loop", "scan", "map_impl"):
            raise NotImplementedError("run_decompositions: a graph of %s" % name)
        leads, free = ([args[0], *lists], []) if name == "cond" else (lists, []) if name == "map_impl" else (lists[:-1], lists[-1])
        with _disable_current_modes():
            if name == "scan":
                operands = [*lists[0], *(x[0] for x in lists[1])]
            else:
                operands = [*(x[0] for x in lists[0]), *lists[1]] if name == "map_impl" else lists[0]
            blocks = [_Interpreted(graph, self.table, [*operands, *free]).capture() for graph in graphs]
            results = [x.clone() for x in target(*args)]
        if any(block.changed for block in blocks):
            raise RuntimeError("run_decompositions: a graph of %s changes what it is given" % name)
        for block in blocks:
            block.operands = operands
        self.below.write(name, (leads, free), {"blocks": blocks}, tuple(results))
        return self.pure.wrap(tuple(results))


class _Again(Capturing):
    """A program that was captured, captured again: its sizes are known."""

    def __init__(self, program, table):
        self.origin, self.table = program, table
        self.nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        self.specs = program.graph_signature.input_specs
        self.symbols, self.sizes, self.leaves = {}, [], []
        given = iter(pytree.tree_leaves(program.example_inputs)) if program.example_inputs is not None else None
        for node, spec in zip(self.nodes, self.specs):
            leaf = program._tensor_of(spec) if spec.kind in _STATE else next(given) if given is not None else self.invented(node, spec)
            self.leaves.append(leaf)
            self.sizes.append(self.varying(node.meta.get("tensor"), leaf) if isinstance(leaf, torch.Tensor) and spec.kind not in _STATE else {})

    def invented(self, node, spec):
        about = node.meta.get("tensor")
        if isinstance(spec.arg, ConstantArgument):
            return spec.arg.value
        return torch.zeros(about["hint"][0], dtype=about["dtype"], requires_grad=about["requires_grad"])

    def varying(self, about, leaf):
        found = {}
        for d, size in enumerate(about["size"] if about else ()):
            symbol, factor, term = size, 1, 0
            if isinstance(symbol, tuple) and symbol[0] == "add":
                symbol, term = symbol[1], symbol[2]
            if isinstance(symbol, tuple) and symbol[0] == "mul":
                symbol, factor = symbol[1], symbol[2]
            if isinstance(symbol, str):
                allowed = self.origin.range_constraints[symbol]
                if symbol not in self.symbols:
                    self.symbols[symbol] = Varying(symbol, symbol, max(allowed.lower, 2), allowed.upper, (leaf.shape[d] - term) // factor, True)
                found[d] = (self.symbols[symbol], factor, term)
        return found

    def run(self, numbers):
        state = torch.random._states()
        try:
            run = _Interpreted(self.origin.graph_module, self.table, self.inputs(numbers))
            run.wanted = {a.name for e in self.origin.module_call_graph[1:] if e.signature for a in (*e.signature.inputs, *e.signature.outputs) if not isinstance(a, ConstantArgument)}
            return run.capture()
        finally:
            torch.random._go_on_from(state)

    def find_ranges(self, first):
        pass

    def build(self, runs, symbols, rough=False):
        b, specs = Builder(runs, Sizes(symbols)), []
        for i, (node, spec) in enumerate(zip(self.nodes, self.specs)):
            made = b.input(node.name, [run.operands[i] for run in runs])
            arg = ConstantArgument(made.name, spec.arg.value) if isinstance(spec.arg, ConstantArgument) else type(spec.arg)(made.name)
            specs.append(InputSpec(spec.kind, arg, spec.target, spec.persistent))
        b.build()
        marked = {name: b.argument([run.marked[name] for run in runs]) for name in runs[0].marked}
        changed = [i for i in runs[0].changed if self.specs[i].kind is not InputKind.PARAMETER]
        results = b.argument([[run.changed[i] for i in changed] + list(run.result) for run in runs])
        b.graph.output(tuple(results))
        without_dead(b.graph, marked.values())
        constants = lift_constants(b, specs)
        outputs = []
        for i, r in zip(changed, results):
            kind, target = (OutputKind.BUFFER_MUTATION, self.specs[i].target) if self.specs[i].kind is InputKind.BUFFER else (OutputKind.USER_INPUT_MUTATION, self.nodes[i].name)
            outputs.append(OutputSpec(kind, TensorArgument(r.name), target))
        for r, spec in zip(results[len(changed):], self.origin.graph_signature.output_specs):
            known = spec.kind is not OutputKind.USER_OUTPUT     # the program was made pure before
            outputs.append(OutputSpec(spec.kind, TensorArgument(r.name), spec.target) if known else self.result(r))
        return self.program(b, specs, constants, outputs, marked)

    def program(self, b, specs, constants, outputs, marked):
        origin, root = self.origin, torch.nn.Module()
        for name, block in b.blocks.items():
            root.add_module(name, block)
        signature = ExportGraphSignature(specs, outputs)
        return ExportedProgram(torch.fx.GraphModule(root, b.graph), b.graph, signature, dict(origin.state_dict), {**self.ranges(b), **origin.range_constraints},
                               [self.call_entry(e, marked) for e in origin.module_call_graph], origin.example_inputs, {**origin.constants, **constants})

    def call_entry(self, entry, marked):
        """What was said of a call of a module, with the names that nodes have now."""
        kept = entry.signature
        if kept is None:
            return entry
        inputs, outputs = ([a if isinstance(a, ConstantArgument) else argument_specs([marked.get(a.name)])[0] for a in arguments] for arguments in (kept.inputs, kept.outputs))
        return ModuleCallEntry(entry.fqn, dataclasses.replace(kept, inputs=inputs, outputs=outputs))


def _unrolled(op):
    """Recurrent layers are taken apart step by step: as many as the length says."""
    return op._opname in ("lstm", "gru", "rnn_tanh", "rnn_relu")


def decompose(program, table):
    table = {**_decomp.always_opened(), **table}
    try:
        try:
            return _Again(program, table).capture()
        except (Differs, UserError):
            kept = {op: rule for op, rule in table.items() if not _unrolled(op)}
            if not any(isinstance(n.target, OpOverload) and _unrolled(n.target) for n in program.graph.nodes):
                raise
            return _Again(program, kept).capture()      # the length varies: the layers stay one call
    except Differs as error:
        raise RuntimeError("run_decompositions: %s" % error) from error
