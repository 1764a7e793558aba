"""Exported programs with the modules that they were made of: each call of a module is a graph of its own; and tensors put into modules by name.

The nodes of a program say which modules they were called in. Those that stand together in one call become the graph of a module at the
place where the original was; what they need from outside is what it is given, and what others need of them is what it returns. A module
whose signature was kept is called as the original was, so that another may be put in its place.
"""
import itertools
import operator
from enum import Enum

import rushlight as torch
from rushlight._ops import OpOverload
from rushlight.fx._pytree import tree_flatten_spec
from rushlight.utils import _pytree as pytree

from .exported_program import in_order
from .graph_signature import ConstantArgument, InputKind, OutputKind


class _AttrKind(Enum):
    """What an attribute is to the module that has it."""
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    MODULE = "module"


def _assign_attr(from_obj, to_module, target, attr_kind, persistent=True):
    """Gives a module what it is to call "a.b.weight", with modules between; a tensor that is no parameter goes where it was a buffer."""
    *path, last = target.split(".")
    for name in path:
        if not hasattr(to_module, name):
            to_module.add_module(name, torch.nn.Module())
        to_module = getattr(to_module, name)
    if attr_kind is _AttrKind.PARAMETER:
        to_module.register_parameter(last, from_obj)
    elif attr_kind is _AttrKind.BUFFER:
        to_module.register_buffer(last, from_obj, persistent=persistent)
    elif attr_kind is _AttrKind.MODULE:
        to_module.add_module(last, from_obj)
    else:
        setattr(to_module, last, from_obj)


class InterpreterModule(torch.nn.Module):
    """A module that runs a graph. With a signature it takes and gives what the original did, else the values that the graph has."""

    def __init__(self, graph=None, signature=None):
        super().__init__()
        self.graph, self._signature = graph, signature

    def forward(self, *args, **kwargs):
        kept = self._signature
        if kept is not None:
            args = tree_flatten_spec((args, kwargs), kept.in_spec)
        result = torch.fx.Interpreter(self, graph=self.graph).run(*args, enable_io_processing=False)
        return result if kept is None else pytree.tree_unflatten(result, kept.out_spec)


class InterpreterModuleDispatcher(torch.nn.Module):
    """A module that runs another graph with each of the calls that the program makes of it."""

    def __init__(self, calls):
        super().__init__()
        self._calls, self._next = tuple(calls), 0      # not their owner: what they have stands in the first
        for places, own in ((self._parameters, calls[0]._parameters), (self._buffers, calls[0]._buffers), (self._modules, calls[0]._modules)):
            places.update(own)

    def call_modules(self):
        return list(self._calls)

    def forward(self, *args, **kwargs):
        module = self._calls[self._next]
        self._next = (self._next + 1) % len(self._calls)
        return module(*args, **kwargs)


class FlatArgsAdapter:
    """Fits arguments of one structure to another: a base class."""

    def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
        raise NotImplementedError

    def get_flat_arg_paths(self):
        return []


class UnflattenedModule(torch.nn.Module):
    """A program with its hierarchy of modules."""

    def __init__(self, export_module, flat_args_adapter=None):
        super().__init__()
        if export_module.graph_signature.backward_signature is not None:
            raise ValueError("Unflattening on JointExportModule NYI")
        self.graph_signature, self.module_call_graph = export_module.graph_signature, export_module.module_call_graph
        self.flat_args_adapter, self.meta = flat_args_adapter, {"unflattened_module": True}
        _Unflattening(export_module, self)

    def forward(self, *args, **kwargs):
        kept = self.module_call_graph[0].signature
        paths, spec = pytree.tree_flatten_with_path((args, in_order(kept.in_spec.child(1).context, kwargs) if kwargs else kwargs))
        leaves = [leaf for _, leaf in paths]
        if spec != kept.in_spec:
            if self.flat_args_adapter is None:
                raise TypeError("There is no flat args adapter specified. Are you sure you are calling this with the right arguments? "
                                "Input treespec: %s. Exported module treespec: %s" % (spec, kept.in_spec))
            leaves = self.flat_args_adapter.adapt(target_spec=kept.in_spec, input_spec=spec, input_args=leaves)
            if len(leaves) != kept.in_spec.num_leaves:
                raise TypeError("Flat args adaption failed, number of args mismatch Adatped: %d \nExported module: %d" % (len(leaves), kept.in_spec.num_leaves))
            paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(leaves, kept.in_spec))
        self._check_inputs(leaves, [path for path, _ in paths])
        results = torch.fx.Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        return pytree.tree_unflatten(results, kept.out_spec)

    def _check_inputs(self, leaves, paths):
        """Are the sizes of tensors those that the program was captured for?"""
        bound = {}
        for about, leaf, path in zip(self._inputs, leaves, paths):
            if about is None or not isinstance(leaf, torch.Tensor):
                continue
            where = "*%s%s" % ("kwargs" if path[0].idx else "args", pytree.keystr(path[1:]))
            if leaf.dim() != len(about["size"]):
                raise RuntimeError("Unexpected number of dimensions in input at %s.shape. Expected %s, got %s" % (where, about["size"], leaf.shape))
            for d, (size, n) in enumerate(zip(about["size"], leaf.shape)):
                here = "Expected input at %s.shape[%d] to be " % (where, d)
                if isinstance(size, int):
                    if size != n:
                        raise RuntimeError(here + "equal to %d, but got %d. If you meant for this dimension to be dynamic, please re-export and specify "
                                           "dynamic_shapes (e.g. with Dim.DYNAMIC)" % (size, n))
                elif isinstance(size, str):
                    allowed = self._ranges.get(size)
                    if bound.setdefault(size, n) != n:
                        raise RuntimeError(here + "equal to %d, but got %d" % (bound[size], n))
                    if allowed is not None and n < allowed.lower and allowed.lower > 2:    # 2 is said of all sizes that were no 0 or 1, and not asked for
                        raise RuntimeError(here + ">= %d, but got %d" % (allowed.lower, n))
                    if allowed is not None and n > allowed.upper:
                        raise RuntimeError(here + "<= %d, but got %d" % (allowed.upper, n))


class _Call:
    """One call of a module: the nodes of the program and the calls that are in it, in order."""

    def __init__(self, fqn, key):
        self.fqn, self.key, self.items = fqn, key, []

    def nodes(self):
        for item in self.items:
            if isinstance(item, _Call):
                yield from item.nodes()
            else:
                yield item

    def results(self):
        """Its nodes that others use."""
        inner = list(self.nodes())
        have = set(inner)
        return [n for n in inner if any(user not in have for user in n.users)]

    def needs(self):
        """The nodes of others that it uses."""
        inner = list(self.nodes())
        have = set(inner)
        return list(dict.fromkeys(used for node in inner for used in node.all_input_nodes if used not in have))


class _Frame:
    """A graph that is being made: of which call, for which module, what nodes of the program are in it."""

    def __init__(self, call, module):
        self.call, self.module, self.graph, self.env = call, module, torch.fx.Graph(), {}


def _same(a, b):
    """Do two modules run the same graph on the same tensors?"""
    first, second = list(a.graph.nodes), list(b.graph.nodes)
    place = [{n: i for i, n in enumerate(nodes)} for nodes in (first, second)]

    def arguments(node, places):
        return repr(torch.fx.node.map_arg((node.args, node.kwargs), lambda n: "%%%d" % places[n]))
    if len(first) != len(second):
        return False
    for x, y in zip(first, second):
        if x.op != y.op or arguments(x, place[0]) != arguments(y, place[1]):
            return False
        if x.op in ("call_function", "get_attr", "call_module") and x.target != y.target:
            return False
        if x.op == "get_attr" and operator.attrgetter(x.target)(a) is not operator.attrgetter(y.target)(b):
            return False
        if x.op == "call_module" and not _same(a.get_submodule(x.target), b.get_submodule(y.target)):
            return False
    return True


class _Unflattening:
    """The making of an UnflattenedModule."""

    def __init__(self, program, root):
        self.program, self.root = program, root
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        pairs = list(zip(placeholders, program.graph_signature.input_specs))
        user = [n for n, s in pairs if s.kind is InputKind.USER_INPUT]
        root._inputs, root._ranges = [n.meta.get("tensor") for n in user], program.range_constraints
        self.signatures = {e.fqn: e.signature for e in program.module_call_graph if e.fqn and e.signature is not None}
        self.by_name = {n.name: n for n in program.graph.nodes}
        self.by_target = {s.target: n for n, s in pairs if s.target is not None}
        self.tensors, self.targets = {}, {}      # of a placeholder: the tensor and how it is kept, the names that it has
        self._copy_tensors([(n, s) for n, s in pairs if s.kind is not InputKind.USER_INPUT])
        self.kept = {}      # where a module is whose signature is preserved: (the module around it, its name) -> those that the calls run
        top, called = self._calls()
        for entry in program.module_call_graph:
            self._make_place(entry.fqn.partition("@")[0], called)
        for node, targets in self.targets.items():
            for target in targets:
                self._keep_tensor(root, target, node)
        frame = _Frame(top, root)
        for node in user:
            self._input(frame, node, node.name)
        self._body(frame)
        self._outputs(frame)
        root.graph = frame.graph
        for (owner, last), modules in self.kept.items():
            if any(m is not modules[0] for m in modules):
                owner.add_module(last, InterpreterModuleDispatcher(modules))

    # ---- tensors ----

    def _copy_tensors(self, pairs):
        same, names = {}, {}
        for node, spec in pairs:
            tensor = self.program._tensor_of(spec)
            if id(tensor) not in same:
                made = tensor.detach().clone()
                kind = _AttrKind.BUFFER if spec.kind is InputKind.BUFFER else _AttrKind.CONSTANT
                if spec.kind is InputKind.PARAMETER:
                    made, kind = torch.nn.Parameter(made, requires_grad=tensor.requires_grad), _AttrKind.PARAMETER
                same[id(tensor)], names[id(tensor)] = (made, kind, spec.persistent is not False), []
            names[id(tensor)].append(spec.target)
            self.tensors[node], self.targets[node] = same[id(tensor)], names[id(tensor)]

    def _keep_tensor(self, module, target, node):
        tensor, kind, persistent = self.tensors[node]
        owner, _, last = target.rpartition(".")
        for name in owner.split(".") if owner else ():
            module, before = module._modules.get(name), module
            if module is None:
                before.add_module(name, module := torch.nn.Module())
        if getattr(module, last, None) is not tensor:
            _assign_attr(tensor, module, last, kind, persistent)

    def _local(self, call, node):
        """The name that a tensor has in the module that is called, if it is one of it."""
        fqn, targets = call.fqn, self.targets.get(node, ())
        if targets and self.tensors[node][1] is _AttrKind.CONSTANT and "." not in targets[0]:
            return targets[0]       # nobody's: every module may have it
        return next((t[len(fqn) + 1:] if fqn else t for t in targets if _within(t, fqn)), None)

    # ---- calls ----

    def _calls(self):
        """The program as calls in calls, and the names of the modules that are called."""
        opened, called, path = [_Call("", "")], set(), []
        for node in self.program.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if "nn_module_stack" in node.meta:       # a node that has none belongs to where the one before it does
                path = []
                for key, (fqn, _) in node.meta["nn_module_stack"].items():
                    if fqn and _within(fqn, path[-1][1] if path else ""):
                        path.append((key, fqn))
            depth = 0
            while depth < len(path) and depth + 1 < len(opened) and opened[depth + 1].key == path[depth][0]:
                depth += 1
            del opened[depth + 1:]
            for key, fqn in path[depth:]:
                opened.append(_Call(fqn, key))
                opened[-2].items.append(opened[-1])
                called.add(fqn)
            opened[-1].items.append(node)
        return opened[0], called

    def _make_place(self, fqn, called):
        """A module where the original was, in its order."""
        module, so_far = self.root, ""
        for name in fqn.split(".") if fqn else ():
            so_far += "." * bool(so_far) + name
            if name not in module._modules:
                module.add_module(name, InterpreterModule() if so_far in called else torch.nn.Module())
            module = module._modules[name]

    def _module(self, frame, relative):
        """A module for a call: the one of that name, or if it has a graph already one of the name with a number."""
        for again in itertools.count():
            name = "%s@%d" % (relative, again) if again else relative
            owner, _, last = name.rpartition(".") if not again else (*relative.rpartition(".")[:2], name.rpartition(".")[2])
            module = frame.module
            for part in owner.split(".") if owner else ():
                if part not in module._modules:
                    module.add_module(part, torch.nn.Module())
                module = module._modules[part]
            found = module._modules.get(last)
            if not isinstance(found, InterpreterModule):
                made = InterpreterModule()
                if found is not None:
                    for mine, its in ((made._parameters, found._parameters), (made._buffers, found._buffers), (made._modules, found._modules)):
                        mine.update(its)
                module.add_module(last, made)
                return name, made
            if found.graph is None:
                return name, found

    # ---- graphs ----

    def _leaf(self, argument):
        return argument.value if isinstance(argument, ConstantArgument) else self.by_name.get(argument.name)

    def _input(self, frame, node, name):
        made = frame.graph.placeholder(name)
        if isinstance(node, torch.fx.Node):
            made.meta.update(node.meta)
            frame.env.setdefault(node, made)

    def _value(self, frame, node):
        """The node of a frame for one of the program: a tensor of its module is read, and numbers that others have made are made again."""
        if not isinstance(node, torch.fx.Node) or node in frame.env:
            return frame.env[node] if isinstance(node, torch.fx.Node) else node
        target = self._local(frame.call, node)
        if target is not None:
            self._keep_tensor(frame.module, target, node)
            made = frame.graph.get_attr(target)
            made.meta.update(node.meta)
        elif node.op == "call_function" and "number" in node.meta:
            made = frame.graph.node_copy(node, lambda n: self._value(frame, n))
        elif _written(node) is not node:
            made = self._value(frame, _written(node))
        else:
            raise RuntimeError("torch.export.unflatten: %s passes a module whose signature is preserved, and stands not in it" % node)
        frame.env[node] = made
        return made

    def _body(self, frame):
        for item in frame.call.items:       # the tensors of the module stand in front
            for node in item.needs() if isinstance(item, _Call) else item.all_input_nodes:
                if self._local(frame.call, node) is not None and not (isinstance(item, _Call) and self._local(item, node) is not None):
                    self._value(frame, node)
        for item in frame.call.items:
            if isinstance(item, _Call):
                self._emit(frame, item)
                continue
            if item.op == "get_attr":
                frame.module.add_module(item.target, getattr(self.program.graph_module, item.target))
            frame.env[item] = frame.graph.node_copy(item, lambda n: self._value(frame, n))

    def _emit(self, outer, call):
        """A call of a module in the graph of the one that makes it."""
        relative = call.fqn[len(outer.call.fqn) + 1:] if outer.call.fqn else call.fqn
        mark = call.key.rpartition("@")[2] if "@" in call.key else ""
        kept = self.signatures.get("%s@%s" % (call.fqn, mark) if mark else call.fqn)
        name, module = self._module(outer, relative)
        frame, results = _Frame(call, module), call.results()
        needs = [n for n in call.needs() if self._local(call, n) is None]
        leaves = needs if kept is None else [self._leaf(a) for a in kept.inputs]
        for i, leaf in enumerate(leaves):
            self._input(frame, leaf, leaf.name if isinstance(leaf, torch.fx.Node) else "arg_%d" % i)
        self._body(frame)
        if kept is not None:
            frame.graph.output([self._value(frame, self._leaf(a)) for a in kept.outputs])
        else:
            frame.graph.output(frame.env[results[0]] if len(results) == 1 else tuple(frame.env[n] for n in results))
        module.graph, module._signature = frame.graph, kept
        first = outer.module.get_submodule(relative)
        if name != relative and _same(first, module):
            owner, _, last = relative.rpartition(".")
            del outer.module.get_submodule(owner)._modules[last + name[len(relative):]]
            name, module = relative, first
        if kept is None:
            made = outer.graph.call_module(name, tuple(self._value(outer, n) for n in needs))
            self._take_results(outer, made, results)
        else:
            owner, _, last = relative.rpartition(".")
            self.kept.setdefault((outer.module.get_submodule(owner), last), []).append(module)
            self._call_as_original(outer, relative, kept, leaves, results)

    def _take_results(self, outer, made, results):
        if len(results) == 1:
            outer.env[results[0]] = made
            made.meta.update(results[0].meta)
            return
        made.meta["val"] = tuple(n.meta.get("val") for n in results)
        for i, node in enumerate(results):
            part = outer.env[node] = outer.graph.call_function(operator.getitem, (made, i))
            part.meta.update(node.meta)

    def _spec(self, frame, spec):
        name = "_spec_%d" % sum(k.startswith("_spec_") for k in frame.module.__dict__)
        setattr(frame.module, name, spec)
        return frame.graph.get_attr(name)

    def _call_as_original(self, outer, name, kept, leaves, results):
        graph = outer.graph
        values = [self._value(outer, leaf) for leaf in leaves]
        given = graph.call_function(pytree.tree_unflatten, (values, self._spec(outer, kept.in_spec)))
        args, kwargs = (graph.call_function(operator.getitem, (given, i)) for i in (0, 1))
        positional, named = kept.in_spec.child(0), kept.in_spec.child(1)
        made = graph.call_module(name, tuple(graph.call_function(operator.getitem, (args, i)) for i in range(positional.num_children)),
                                 {k: graph.call_function(operator.getitem, (kwargs, k)) for k in named.context})
        flat = graph.call_function(tree_flatten_spec, (made, self._spec(outer, kept.out_spec)))
        given = {n: i for i, n in reversed(list(enumerate(self._leaf(a) for a in kept.outputs))) if n in results}
        for node, i in given.items():
            part = outer.env[node] = graph.call_function(operator.getitem, (flat, i))
            part.meta.update(node.meta)

    def _outputs(self, frame):
        """What the program returns; changes of buffers and inputs are written back before."""
        final, returned = self.program.graph.output_node(), []
        for value, spec in zip(final.args[0], self.program.graph_signature.output_specs):
            value = self._value(frame, value)
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
                returned.append(value)
            else:
                into = self.by_target.get(spec.target) or self.by_name[spec.target]
                frame.graph.call_function(torch.ops.aten.copy_.default, (self._value(frame, into), value))
        frame.graph.output(tuple(returned)).meta.update(final.meta)


def _written(node):
    """What an operation in place gives is what it was given."""
    while isinstance(node.target, OpOverload) and node.target._schema.arguments and node.target._schema.arguments[0].is_write:
        node = node.args[0]
    return node


def _within(fqn, outer):
    return not outer or fqn.startswith(outer + ".")


def unflatten(module, flat_args_adapter=None):
    """An exported program as modules like those that it was made of, with copies of its tensors."""
    return UnflattenedModule(module, flat_args_adapter)
