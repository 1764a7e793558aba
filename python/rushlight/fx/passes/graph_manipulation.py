"""Targets replaced, and how many bytes values and layers take."""
from typing import NamedTuple

import rushlight as torch
from rushlight.fx.graph import Graph
from rushlight.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = ["replace_target_nodes_with", "size_bytes", "get_size_of_all_nodes", "get_tensor_meta", "get_size_of_node"]


def replace_target_nodes_with(fx_module, old_op, old_target, new_op, new_target):
    """Makes each call of one target a call of another."""
    graph, values = Graph(), {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args = torch.fx.map_arg(node.args, lambda n: values[n])
            kwargs = torch.fx.map_arg(dict(node.kwargs), lambda n: values[n])
            values[node] = graph.create_node(new_op, new_target, tuple(args), dict(kwargs), node.name)
        else:
            values[node] = graph.node_copy(node, lambda n: values[n])
    fx_module.graph = graph


class size_bytes(NamedTuple):
    """Bytes of a value, and with the parameters of the layer that it comes from."""
    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module, args=None):
    """Sets node.size_bytes; with args, the module is run on them before."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node):
    """What ShapeProp noted of a value that is a tensor."""
    meta = node.meta.get("tensor_meta")
    if not isinstance(meta, TensorMetadata):
        raise RuntimeError("Node %s has no tensor metadata associated with it! Check that shape propagation has run." % node)
    return meta


def get_size_of_node(fx_module, node):
    total = 0
    if node.op == "call_module":
        submodule = dict(fx_module.named_modules())[node.target]
        total = sum(p.numel() * p.element_size() for p in submodule.parameters())
    meta = get_tensor_meta(node)
    output = meta.shape.numel() * torch.empty((), dtype=meta.dtype).element_size()
    return size_bytes(output, total + output)
