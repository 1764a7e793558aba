"""ExportedProgram.module(): a program's graph as that of a module, which reads its parameters itself and takes arguments as the original did."""
import copy
import types

import rushlight as torch
from rushlight.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.traceback import NodeSource, NodeSourceAction
from rushlight.utils import _pytree as pytree

from .graph_signature import ConstantArgument, InputKind, OutputKind
from .unflatten import _assign_attr, _AttrKind

_COPIED, _UNLIFTED = "ExportedProgram.module()", "ExportedProgram.module().unlift()"


class GuardsFn(torch.nn.Module):
    """Compares inputs with what was captured. `checks`: per input (its name, its description, or the constant that it was)."""
    _is_impure = True       # nothing uses what it returns, and it stays

    def __init__(self, checks, ranges):
        super().__init__()
        self._checks, self._ranges = checks, ranges

    def forward(self, *leaves):
        bound = {}
        for (name, about, constant), value in zip(self._checks, leaves):
            if about is None:
                if value is not constant and value != constant and not isinstance(value, torch.Tensor):
                    raise AssertionError("Guard failed: %s == %r" % (name, constant))
                continue
            if not isinstance(value, torch.Tensor) or value.dim() != len(about["size"]):
                raise AssertionError("Guard failed: %s.dim() == %d" % (name, len(about["size"])))
            for d, (size, n) in enumerate(zip(about["size"], value.shape)):
                self._compare_size("%s.size()[%d]" % (name, d), size, n, bound)

    def _compare_size(self, what, size, n, bound):
        if isinstance(size, int) and size != n:
            raise AssertionError("Guard failed: %s == %d" % (what, size))
        if not isinstance(size, str):
            return
        if bound.setdefault(size, (n, what))[0] != n:
            raise AssertionError("Guard failed: %s == %s" % (what, bound[size][1]))
        allowed = self._ranges.get(size)
        if allowed is not None and n < allowed.lower and allowed.lower > 2:    # 2 is said of all sizes that were no 0 or 1, and not asked for
            raise AssertionError("Guard failed: %s >= %d" % (what, allowed.lower))
        if allowed is not None and n > allowed.upper:
            raise AssertionError("Guard failed: %s <= %d" % (what, allowed.upper))


class _InOrder:
    """A hook: arguments that are given by other names or in another order than in the capturing call are put in that order."""

    def __init__(self, in_spec, names):
        self.in_spec, self.names = in_spec, names

    def __call__(self, module, args, kwargs):
        spec = pytree.tree_structure((args, kwargs))
        if spec == self.in_spec:
            return None
        wanted = pytree.tree_unflatten(list(range(self.in_spec.num_leaves)), self.in_spec)
        given = dict(zip(self.names, args), **kwargs)
        if len(args) <= len(self.names) and set(given) == set(self.names):
            args, kwargs = tuple(given[n] for n in self.names[:len(wanted[0])]), {n: given[n] for n in wanted[1]}
            if pytree.tree_structure((args, kwargs)) == self.in_spec:
                return args, kwargs
        raise ValueError("Trying to flatten user inputs with exported input tree spec: \n%s\nbut actually got inputs with tree spec of: \n%s" % (self.in_spec, spec))


def _place(root, spec, tensor):
    """Gives a module the tensor "a.b.weight"."""
    if spec.kind is InputKind.PARAMETER:
        parameter = tensor if isinstance(tensor, torch.nn.Parameter) else torch.nn.Parameter(tensor, requires_grad=tensor.requires_grad)
        _assign_attr(parameter, root, spec.target, _AttrKind.PARAMETER)
    else:
        _assign_attr(tensor, root, spec.target, _AttrKind.BUFFER, persistent=spec.kind is InputKind.BUFFER and spec.persistent is not False)


def _came_from(made, node, graph, unlifted):
    """Notes of a node that it was made of one of the program, and in the meantime of an input."""
    source = NodeSource(node, _COPIED, NodeSourceAction.CREATE)
    if unlifted:
        source, inner = NodeSource(node, _UNLIFTED, [NodeSourceAction.CREATE, NodeSourceAction.REPLACE]), source
        source.graph_id, source.from_node = id(graph), [inner]
    made.meta["from_node"] = [source]


def _train(self, mode=True):
    raise NotImplementedError("Calling train() is not supported yet.")


def _eval(self):
    raise NotImplementedError("Calling eval() is not supported yet.")


def _read_tensors(program, graph, root, values):
    """The nodes that read parameters, buffers and constants, and then those of what the user gives."""
    specs = program.graph_signature.input_specs
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    lifted = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    for node, spec in zip(placeholders, specs):
        if spec.kind in lifted:
            _place(root, spec, program._tensor_of(spec))
            values[node] = graph.get_attr(spec.target)
            values[node].meta = copy.copy(node.meta)
            _came_from(values[node], node, graph, True)
    user = []
    for node, spec in zip(placeholders, specs):
        if spec.kind is InputKind.USER_INPUT:
            values[node] = graph.placeholder(node.name)
            values[node].meta = copy.copy(node.meta)
            _came_from(values[node], node, graph, False)
            user.append((node, spec))
    return user


def _results(program, graph, values):
    """What the module returns; changes of buffers and inputs are written back before."""
    specs, results = program.graph_signature.input_specs, []
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    targets = {s.target: n for n, s in zip(placeholders, specs) if s.target is not None}
    final = program.graph.output_node()
    for value, spec in zip(final.args[0], program.graph_signature.output_specs):
        value = values[value] if isinstance(value, torch.fx.Node) else value
        if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
            results.append(value)
        else:
            into = targets.get(spec.target) or next(n for n in placeholders if n.name == spec.target)
            graph.call_function(torch.ops.aten.copy_.default, (values[into], value))
    made = graph.output(tuple(results))
    made.meta = copy.copy(final.meta)
    _came_from(made, final, graph, True)


def unlift(program, check_guards):
    signature = program.module_call_graph[0].signature
    in_spec, out_spec = signature.in_spec, signature.out_spec
    root, graph, values = torch.nn.Module(), torch.fx.Graph(), {}
    user = _read_tensors(program, graph, root, values)
    for name, child in program.graph_module.named_children():
        root.add_module(name, child)
    if check_guards and user:
        checks = [(n.name, n.meta.get("tensor"), s.arg.value if isinstance(s.arg, ConstantArgument) else None) for n, s in user]
        root.add_module("_guards_fn", GuardsFn(checks, program.range_constraints))
        guards = graph.call_module("_guards_fn", tuple(values[n] for n, _ in user))
        first = next((n for n in program.graph.nodes if "nn_module_stack" in n.meta), None)
        if first is not None:
            guards.meta["nn_module_stack"] = first.meta["nn_module_stack"]
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "output"):
            values[node] = graph.node_copy(node, lambda n: values[n])
            _came_from(values[node], node, graph, node.op == "get_attr")
    _results(program, graph, values)
    names = signature.forward_arg_names or []
    wanted = pytree.tree_unflatten([n.name for n, _ in user], in_spec)
    plain = [names[i] if i < len(names) else "arg_%d" % i for i in range(len(wanted[0]))]
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo([*plain, *wanted[1]], in_spec, out_spec)))
    made = torch.fx.GraphModule(root, graph, "GraphModule")
    kinds = program.graph_signature
    for target in (*kinds.lifted_tensor_constants, *kinds.non_persistent_buffers):     # fx.GraphModule keeps all tensors as buffers of its state
        owner, _, last = target.rpartition(".")
        owner = made.get_submodule(owner)
        if target in kinds.non_persistent_buffers:
            owner._non_persistent_buffers_set.add(last)
        else:
            delattr(owner, last)
            _assign_attr(program.constants[target], owner, last, _AttrKind.CONSTANT)
    made.register_forward_pre_hook(_InOrder(in_spec, names), with_kwargs=True)
    made.train, made.eval = types.MethodType(_train, made), types.MethodType(_eval, made)
    return made
