"""split_module: a module cut into parts by a function of its nodes."""
import operator

import rushlight as torch
from rushlight.fx.graph_module import GraphModule, _get_attr

__all__ = ["Partition", "split_module"]


class Partition:
    """One part: its nodes, the names of values that go in and come out, the parts before and after it."""

    def __init__(self, name):
        self.name, self.submod_name = name, "submod_" + name
        self.node_names, self.inputs, self.outputs, self.dependencies, self.dependents = [], {}, {}, {}, {}
        self.graph, self.environment, self.targets = torch.fx.Graph(), {}, {}

    def __repr__(self):
        return "name: %s,\n nodes: %s,\n inputs: %s,\n outputs: %s,\n partitions depended on: %s,\n partition dependents: %s" % (
            self.name, self.node_names, self.inputs, self.outputs, self.dependencies, self.dependents)


class _Splitting:
    """Assigns nodes to parts, copies them, and joins the parts."""

    def __init__(self, m, split_callback, qualname_map, affix, tuple_return):
        self.m, self.qualname_map, self.affix, self.tuple_return = m, qualname_map, affix, tuple_return
        self.parts, self.home, self.nodes = {}, {}, {n.name: n for n in m.graph.nodes}
        for node in m.graph.nodes:
            if node.op not in ("placeholder", "get_attr", "output"):
                name = str(split_callback(node))
                if name not in self.parts:
                    self.parts[name] = Partition(name)
                    if affix is not None:
                        self.parts[name].submod_name = "submod_%s_%s" % (affix, name)
                self.parts[name].node_names.append(node.name)
                self.home[node] = self.parts[name]
        for node in m.graph.nodes:
            for arg in node.all_input_nodes:
                self.connect(arg, node)

    def connect(self, source, user):
        """A value crosses from one part to another, or out of all."""
        here, there = self.home.get(source), self.home.get(user)
        if here is there:
            return
        if here is not None:
            here.outputs.setdefault(source.name)
        if there is not None:
            there.inputs.setdefault(source.name)
            if here is not None:
                here.dependents.setdefault(there.name)
                there.dependencies.setdefault(here.name)

    def order(self):
        """The parts, each behind those whose values it takes."""
        waits = {p.name: len(p.dependencies) for p in self.parts.values()}
        ready, order = [name for name, n in waits.items() if not n], []
        while ready:
            name = ready.pop()
            order.append(self.parts[name])
            for other in self.parts[name].dependents:
                waits[other] -= 1
                if not waits[other]:
                    ready.append(other)
        if len(order) < len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return order

    def target_inside(self, part, node):
        """The name in a part of what a node names in the module."""
        value, name = _get_attr(self.m, node.target), node.target.replace(".", "_")
        part.targets[name] = value
        if self.qualname_map is not None:
            self.qualname_map["%s.%s" % (part.submod_name, name)] = node.target
        return name

    def fill(self, keep_node_name, keep_input_name):
        for part in self.parts.values():
            for i, name in enumerate(part.inputs):
                source = self.nodes[name]
                made = part.graph.placeholder(name if keep_input_name else "arg_%d" % i, type_expr=source.type)
                made.meta = source.meta.copy()
                part.environment[source] = made
        for node in self.m.graph.nodes:
            part = self.home.get(node)
            if part is None:
                continue
            def inside(n, part=part):
                return part.environment[n]
            target = self.target_inside(part, node) if node.op == "call_module" else node.target
            made = part.graph.create_node(node.op, target, torch.fx.map_arg(node.args, inside), dict(torch.fx.map_arg(node.kwargs, inside)),
                                          node.name if keep_node_name else None, node.type)
            made.meta = node.meta.copy()
            part.environment[node] = made

    def outer(self, node, graph, values, attributes):
        """An input or an attribute of the module in the graph that joins the parts."""
        if node.op == "placeholder":
            values[node] = graph.placeholder(node.target, type_expr=node.type, default_value=node.args[0] if node.args else torch.fx.Node)
        else:
            values[node] = graph.get_attr(node.target)
            attributes[node.target] = _get_attr(self.m, node.target)
        values[node].meta = node.meta.copy()

    def call(self, part, graph, values, attributes):
        results = [part.environment[self.nodes[name]] for name in part.outputs]
        single = len(results) == 1 and not self.tuple_return
        part.graph.output(results[0] if single else tuple(results))
        attributes[part.submod_name] = GraphModule(part.targets, part.graph)
        call = graph.call_module(part.submod_name, tuple(values[self.nodes[name]] for name in part.inputs))
        for i, name in enumerate(part.outputs):
            values[self.nodes[name]] = call if single else graph.call_function(operator.getitem, (call, i))

    def join(self, order, keep_original_order):
        graph, values, attributes = torch.fx.Graph(), {}, {}
        outer = [n for n in self.m.graph.nodes if n.op in ("placeholder", "get_attr")]
        waiting = list(order)

        def call_before(node=None):
            """The parts that are done before a node of the module, all of them without one."""
            while waiting and (node is None or not self.behind(waiting[0], node)):
                self.call(waiting.pop(0), graph, values, attributes)
        for node in outer:
            if keep_original_order and node.op == "get_attr":
                call_before(node)
            self.outer(node, graph, values, attributes)
        call_before()
        final = self.m.graph.output_node()
        graph.output(torch.fx.map_arg(final.args[0], lambda n: values[n])).meta = final.meta.copy()
        return GraphModule(attributes, graph)

    def behind(self, part, node):
        """Does a part begin, or take what comes, behind a node?"""
        at = {n: i for i, n in enumerate(self.m.graph.nodes)}
        return any(at[self.nodes[name]] >= at[node] for name in part.inputs) or at[self.nodes[part.node_names[0]]] > at[node]


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False, keep_original_node_name=False, keep_original_input_name=True, *,
                 partition_affix=None, tuple_return=False):
    """A module that calls a submodule submod_N for each number that split_callback gives its nodes.

    `qualname_map` is filled with {name in the new module: name in m}. What the nodes name is m's; root_m, from which m was made, is not read.
    """
    splitting = _Splitting(m, split_callback, qualname_map, partition_affix, tuple_return)
    order = splitting.order()
    if keep_original_order:
        order = list(splitting.parts.values())
    splitting.fill(keep_original_node_name, keep_original_input_name)
    return splitting.join(order, keep_original_order)
