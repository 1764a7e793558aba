"""split_by_tags: a module cut into parts by what its nodes are tagged with."""
import copy
import dataclasses
import operator
from typing import Optional

import rushlight as torch
from rushlight.fx.graph_module import GraphModule, _get_attr, _has_attr
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS, is_node_output_tensor
from rushlight.fx.passes.utils import HolderModule, lift_subgraph_as_module

__all__ = ["getattr_recursive", "setattr_recursive", "Component", "split_by_tags", "move_non_tensor_nodes_on_boundary"]


def getattr_recursive(obj, name):
    """What "a.b.c" is, or None."""
    return _get_attr(obj, name) if _has_attr(obj, name) else None


def setattr_recursive(obj, attr, value):
    """Sets "a.b.c"."""
    *path, last = attr.split(".")
    for part in path:
        obj = getattr(obj, part)
    setattr(obj, last, value)


@dataclasses.dataclass
class Component:
    """One part: its graph, its place among the parts, what goes in and comes out of it."""
    graph: torch.fx.Graph
    order: int
    name: str
    input_placeholders: list = dataclasses.field(default_factory=list)
    orig_inputs: list = dataclasses.field(default_factory=list)
    orig_outputs: list = dataclasses.field(default_factory=list)
    getattr_maps: dict = dataclasses.field(default_factory=dict)
    constructor_args: list = dataclasses.field(default_factory=list)
    gm: Optional[GraphModule] = None


class _Splitting:
    """Copies each node into the graph of its tag."""

    def __init__(self, gm, tags):
        self.gm, self.parts = gm, {tag: Component(torch.fx.Graph(), i, tag) for i, tag in enumerate(tags)}
        self.home, self.copy = {}, {}

    def copy_nodes(self):
        for node in self.gm.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            if node.op == "output":
                for x in node.all_input_nodes:
                    self.returned(x)
                continue
            part = self.parts[node.tag]
            above = [self.home[x].order for x in node.all_input_nodes if x in self.home]
            if above and max(above) > part.order:
                raise AssertionError("Component %s order must be >= max of its upstream components, order=%d and max=%d" % (part.name, part.order, max(above)))
            self.copy[node] = part.graph.node_copy(node, lambda x, part=part: self.inside(part, x))
            self.home[node] = part

    def returned(self, x):
        part = self.home.get(x)
        if part is not None and x not in part.orig_outputs:
            part.orig_outputs.append(x)

    def inside(self, part, x):
        """What stands for a value in a part."""
        if self.home.get(x) is part:
            return self.copy[x]
        if x.op == "get_attr":
            if x not in part.getattr_maps:
                part.getattr_maps[x] = part.graph.get_attr(x.target, type_expr=x.type)
                part.getattr_maps[x].meta = copy.copy(x.meta)
            return part.getattr_maps[x]
        self.returned(x)
        if x not in part.orig_inputs:
            part.orig_inputs.append(x)
            made = part.graph.placeholder(x.name, type_expr=x.type)
            made.meta = copy.copy(x.meta)
            part.input_placeholders.append(made)
        return part.input_placeholders[part.orig_inputs.index(x)]

    def join(self, return_tuple, cls):
        """The graph that calls the parts, the parts by name, and which names of the module they took."""
        graph, values, names = torch.fx.Graph(), {}, {}
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                default = node.args[0] if node.args else torch.fx.Node
                values[node] = graph.placeholder(node.name, type_expr=node.type, default_value=default)
                values[node].meta = copy.copy(node.meta)
        for part in self.parts.values():
            results = tuple(self.copy[x] for x in part.orig_outputs)
            single = len(results) == 1 and not return_tuple
            part.graph.output(results[0] if single else results)
            made, taken = lift_subgraph_as_module(self.gm, part.graph, comp_name=part.name)
            part.gm = made if cls is GraphModule else cls(made, made.graph)
            names.update(taken)
            call = graph.call_module(part.name, args=tuple(values[x] for x in part.orig_inputs))
            for i, x in enumerate(part.orig_outputs):
                values[x] = call if single else graph.call_function(operator.getitem, (call, i))
                values[x].meta = copy.copy(x.meta)
        final = self.gm.graph.output_node()

        def value(x):
            if x.op == "get_attr" and x not in values:
                values[x] = graph.get_attr(x.target)
            return values[x]
        made = graph.output(torch.fx.map_arg(final.args[0], value))
        made.meta = copy.copy(final.meta)
        return graph, names


def split_by_tags(gm, tags, return_fqn_mapping=False, return_tuple=False, GraphModuleCls=GraphModule):
    """A module that calls a submodule for each tag, in the tags' order; each call in gm has a node.tag."""
    splitting = _Splitting(gm, tags)
    splitting.copy_nodes()
    graph, names = splitting.join(return_tuple, GraphModuleCls)
    root = HolderModule({part.name: part.gm for part in splitting.parts.values()})
    for node in graph.nodes:
        if node.op == "get_attr":
            torch.fx.graph_module._copy_attr(gm, root, node.target)
    made = GraphModuleCls(root, graph)
    return (made, names) if return_fqn_mapping else made


def move_non_tensor_nodes_on_boundary(subgraphs):
    """Moves calls whose value is no tensor behind the cut that they are in front of, where nothing on this side uses them."""
    for here, behind in zip(subgraphs, subgraphs[1:]):
        inside = set(here.nodes)
        for node in reversed(list(here.nodes)):
            if node.op in CALLABLE_NODE_OPS and not is_node_output_tensor(node) and not any(user in inside for user in node.users) and \
                    any(user in behind.nodes for user in node.users):
                here.nodes.remove(node)
                inside.discard(node)
                behind.nodes.insert(0, node)
