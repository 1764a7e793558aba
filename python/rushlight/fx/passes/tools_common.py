"""What several passes need: names of targets, orders of nodes, groups that must stay together."""
import dataclasses
import operator
from collections import deque

import rushlight as torch
from rushlight._alias import torch_name
from rushlight.fx.node import _get_qualified_name

__all__ = ["get_acc_ops_name", "get_node_target", "is_node_output_tensor", "FxNetAccFusionsFinder", "legalize_graph", "stable_topological_sort"]

Tensors = "tuple[torch.Tensor] | list[torch.Tensor]"
TensorOrTensors = "torch.Tensor | " + Tensors
NodeList, NodeSet, Names = list, set, list
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k):
    """The name of a function; those of a module acc_ops by that module's."""
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return "acc_ops." + k.__name__
    module = torch_name(k.__module__ or "").replace("torch._ops", "torch.ops")
    return "%s.%s" % (module, k.__name__) if module else _get_qualified_name(k)


def get_node_target(submodules, node):
    """The name of what a node calls: a module's class, a function in full, a method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError("Expect op types of %s, but found %s" % (", ".join(sorted(CALLABLE_NODE_OPS)), node.op))
    if node.op == "call_module":
        module = submodules[node.target]
        kind = getattr(module, "_base_class_origin", type(module))
        return torch_name("%s.%s" % (kind.__module__, kind.__qualname__))
    if node.op == "call_method":
        return node.target
    name = _get_qualified_name(node.target)
    return "_" + name if name.startswith("operator.") else name


def is_node_output_tensor(node):
    """Whether the value is one tensor, by what ShapeProp noted."""
    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, torch.Tensor)


class FxNetAccFusionsFinder:
    """Groups of an accelerator's nodes that hand each other what is no tensor: such a group cannot be cut."""

    @dataclasses.dataclass
    class FusionGroup:
        """One group: the index of its first node, its nodes, what comes in, and which of them were not looked at."""
        top_node_idx: int
        nodes: set
        inputs: set
        nodes_need_process: set

        def add_node(self, node):
            if node not in self.nodes:
                self.nodes_need_process.add(node)
                self.nodes.add(node)
                self.inputs.discard(node)
                self.inputs.update(n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS and n not in self.nodes)

    def __init__(self, module, acc_nodes):
        self.module, self.nodes, self.acc_nodes = module, list(module.graph.nodes), acc_nodes
        self.node_index = {node: i for i, node in enumerate(self.nodes)}

    def recursive_add_node(self, fusion_group, inputs, visited=None):
        """Takes in what lies between the group and these inputs; whether one of them comes from the group."""
        found = False
        for arg in inputs:
            if visited is not None:
                if arg in visited:
                    continue
                visited.add(arg)
            if arg.op not in CALLABLE_NODE_OPS or self.node_index[arg] < fusion_group.top_node_idx:
                continue
            if arg in fusion_group.nodes or self.recursive_add_node(fusion_group, arg.all_input_nodes, visited):
                found = True
                fusion_group.add_node(arg)
        return found

    def __call__(self):
        result, members = {}, set(self.acc_nodes)
        for node in self.nodes:
            if node not in members or node in result or node.op not in CALLABLE_NODE_OPS or "tensor_meta" in node.meta:
                continue
            group = self.FusionGroup(self.node_index[node], {node}, set(node.all_input_nodes), {node})
            while group.nodes_need_process:
                each = group.nodes_need_process.pop()
                self.recursive_add_node(group, group.inputs, visited=set())
                if "tensor_meta" not in each.meta:
                    for user in each.users:
                        if user.op in CALLABLE_NODE_OPS:
                            group.add_node(user)
                for arg in each.all_input_nodes:
                    if arg.op in CALLABLE_NODE_OPS and "tensor_meta" not in arg.meta and arg not in group.nodes:
                        group.add_node(arg)
                        group.top_node_idx = min(group.top_node_idx, self.node_index[arg])
            if not group.nodes <= members:
                members -= group.nodes
                continue
            result.update((n, group.nodes) for n in group.nodes)
        return result


# Arithmetic of sizes comes as early as it can, so that what asks for sizes finds them.
_EARLY = {operator.add, operator.mul, operator.sub, operator.floordiv, operator.truediv, operator.mod, operator.le, operator.lt, operator.ge, operator.gt,
          operator.eq, operator.ne, torch.ops.aten.sym_size.int}


def _ordered(gm, order, error):
    """The module with its nodes in another order."""
    if len(order) < len(gm.graph.nodes):
        placed = set(order)
        raise error("Input graph has cycles, unable to add %s" % [n for n in gm.graph.nodes if n not in placed])
    for node in order:
        gm.graph._root.prepend(node)
    return gm


def legalize_graph(gm):
    """Puts the nodes in an order in which each comes after what it uses: breadth first."""
    waits = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    ready, order = deque(node for node in gm.graph.nodes if not waits[node]), []
    while ready:
        node = ready.popleft()
        order.append(node)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                if user.op == "call_function" and user.target in _EARLY:
                    ready.appendleft(user)
                else:
                    ready.append(user)
    return _ordered(gm, order, RuntimeError)


def stable_order(nodes):
    """The nodes in an order in which each comes after those of them that it uses, moved no more than that takes; without those on a circle."""
    inside, order, placed, waiting = set(nodes), [], set(), {}
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        missing = next((n for n in reversed(node.all_input_nodes) if n in inside and n not in placed), None)
        if missing is not None:
            waiting.setdefault(missing, []).append(node)
            continue
        placed.add(node)
        order.append(node)
        pending.extend(reversed(waiting.pop(node, [])))
    return order


def stable_topological_sort(gm):
    """Puts the nodes in an order in which each comes after what it uses, and moves no more of them than that takes."""
    return _ordered(gm, stable_order(list(gm.graph.nodes)), AssertionError)
