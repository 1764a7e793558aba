"""run_decompositions: the program is run again, and what is written down are the operations that composites are made of."""
import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

from ._capture import Differs, Run, _running
from ._export import Capturing, Varying
from .graph_signature import ConstantArgument, InputKind, TensorArgument


class _Below(TorchDispatchMode):
    """Sees operations below autograd, where composites are open."""

    def __init__(self, run, table):
        super().__init__()
        self.run, self.table = run, table

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, rule = kwargs or {}, self.table.get(func)
        if rule is not None:
            with self:
                out = rule(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        self.run.add(func, args, kwargs, tuple(out) if len(func._schema.returns) > 1 else (out,), True)
        return out


class _OpenRun(Run):
    table = {}

    def capture(self, function, args, kwargs):
        _running.append(self)
        try:
            with _Below(self, self.table):
                self.result = function(*args, **kwargs)
        finally:
            _running.pop()
        return self


class _Again(Capturing):
    """A program that was captured, captured again: its sizes are known."""

    def __init__(self, program, table):
        self.origin, self.module, self.run_type = program, program.module(), type("_Run", (_OpenRun,), {"table": table})
        nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        user = [(n, s) for n, s in zip(nodes, program.graph_signature.input_specs) if s.kind is InputKind.USER_INPUT]
        self.labels = [n.name for n, _ in user]
        self.spec, self.symbols, self.sizes = program.call_spec.in_spec, {}, []
        given = pytree.tree_leaves(program.example_inputs) if program.example_inputs is not None else [self.invented(n, s) for n, s in user]
        self.leaves, self.argument_names = given, program.module_call_graph[0].signature.forward_arg_names
        for (node, _), leaf in zip(user, given):
            self.sizes.append(self.varying(node.meta.get("tensor"), leaf) if isinstance(leaf, torch.Tensor) else {})

    def invented(self, node, spec):
        about = node.meta.get("tensor")
        return spec.arg.value if isinstance(spec.arg, ConstantArgument) else torch.zeros(about["hint"][0], dtype=about["dtype"], requires_grad=about["requires_grad"])

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

    def names(self):
        return self.labels

    def find_ranges(self, first):
        pass


def decompose(program, table):
    for node in program.graph.nodes:
        if node.op == "get_attr":
            raise NotImplementedError("run_decompositions: of a program with graphs inside (%s)" % node.target)
    again = _Again(program, dict(table))
    try:
        made = again.capture()
    except Differs as error:
        raise RuntimeError("run_decompositions: %s" % error) from error
    constants = set(program.graph_signature.lifted_tensor_constants)
    for spec in made.graph_signature.input_specs:
        if spec.kind is InputKind.BUFFER and spec.target in constants:
            spec.kind, spec.persistent, spec.arg = InputKind.CONSTANT_TENSOR, None, TensorArgument(spec.arg.name)
    names = set(made.graph_signature.parameters) | set(made.graph_signature.buffers)
    made._state_dict = {k: v for k, v in program.state_dict.items() if k in names}
    made._constants = {**{k: v for k, v in program.constants.items()}, **made._constants}
    made._module_call_graph, made._dialect = program.module_call_graph, "TRAINING"
    return made
