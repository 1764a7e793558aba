"""What passes over graphs that are quantized share."""
import dataclasses
from typing import Any, Optional

import rushlight as torch
from rushlight.fx import GraphModule
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.nn import functional as F

__all__ = ["assert_and_get_unique_device", "collect_producer_nodes", "create_getattr_from_value", "get_new_attr_name_with_prefix",
           "graph_module_from_producer_nodes", "maybe_get_next_module", "node_arg_is_bias", "node_arg_is_weight", "all_node_args_have_no_tensors",
           "ObservedGraphModuleAttrs"]

# function -> where its weight and its bias are
_WEIGHTS = {**dict.fromkeys((F.linear, F.conv1d, F.conv2d, F.conv3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d), {"weight": 1, "bias": 2}),
            F.group_norm: {"weight": 2, "bias": 3}, F.layer_norm: {"weight": 2, "bias": 3}, F.instance_norm: {"weight": 3, "bias": 4}}


@dataclasses.dataclass
class ObservedGraphModuleAttrs:
    """How a model was prepared."""
    node_name_to_qconfig: dict
    node_name_to_scope: dict
    prepare_custom_config: Any
    equalization_node_name_to_qconfig: dict
    qconfig_mapping: Any
    is_qat: bool
    observed_node_names: set
    is_observed_standalone_module: bool = False
    standalone_module_input_quantized_idxs: Optional[list] = None
    standalone_module_output_quantized_idxs: Optional[list] = None


def _arg_is(node, arg, which):
    places = node.meta.get("target_dtype_info", {}).get(which + "_index")
    if places is None and node.op == "call_function" and node.target in _WEIGHTS:
        places = _WEIGHTS[node.target][which]
    if places is not None and places < len(node.args) and node.args[places] is arg:
        return True
    return node.kwargs.get(which) is arg


def node_arg_is_weight(node, arg):
    """Whether an argument is the weight of a functional layer."""
    return _arg_is(node, arg, "weight")


def node_arg_is_bias(node, arg):
    """Whether an argument is the bias of a functional layer."""
    return _arg_is(node, arg, "bias")


def get_new_attr_name_with_prefix(prefix):
    """A function that finds a name with this prefix that a module does not have yet."""
    prefix = prefix.replace(".", "_")

    def get_new_attr_name(module):
        i = 0
        while hasattr(module, prefix + str(i)):
            i += 1
        return prefix + str(i)
    return get_new_attr_name


def collect_producer_nodes(node):
    """What a value is computed of, the value's node first; None where an input has part in it."""
    nodes, pending, seen = [node], [node], set()
    while pending:
        current = pending.pop()
        for arg in current.all_input_nodes:
            if arg in seen:
                continue
            seen.add(arg)
            if arg.op == "placeholder":
                return None
            nodes.append(arg)
            if arg.op not in ("call_function", "call_module") or arg.all_input_nodes:
                pending.append(arg)
    return nodes


def graph_module_from_producer_nodes(root, producer_nodes):
    """A module that computes the first of the nodes (they come as collect_producer_nodes gives them)."""
    if not producer_nodes:
        raise AssertionError("list of producer nodes can not be empty")
    graph, values = Graph(), {}
    for node in reversed(producer_nodes):
        values[node] = graph.node_copy(node, lambda n: values[n])
    graph.output(values[producer_nodes[0]])
    return GraphModule(root, graph)


def assert_and_get_unique_device(module):
    """The device of all parameters and buffers; None where there are none."""
    devices = {t.device for t in (*module.parameters(), *module.buffers())}
    if devices == {torch.device("cpu"), torch.device("meta")}:
        return torch.device("cpu")
    if len(devices) > 1:
        raise AssertionError("prepare only works with cpu or single-device CUDA modules, but got devices %s" % devices)
    return next(iter(devices), None)


def create_getattr_from_value(module, graph, prefix, value, device=None):
    """A node that reads a value, which the module keeps as a buffer."""
    name = get_new_attr_name_with_prefix(prefix)(module)
    module.register_buffer(name, value.detach().clone() if isinstance(value, torch.Tensor) else torch.tensor(value, device=device))
    return graph.create_node("get_attr", name)


def all_node_args_have_no_tensors(node, modules, cache):
    """Whether no tensor goes into a value."""
    if node in cache:
        return cache[node]
    if node.op == "placeholder":
        found = False
    elif node.op == "call_module":
        from ..observer import _is_activation_post_process
        found = _is_activation_post_process(modules[node.target]) and all_node_args_have_no_tensors(node.args[0], modules, cache)
    elif node.op == "get_attr" or (node.op == "call_method" and node.target != "size"):
        found = False
    else:
        found = node.target == "size" or all(all_node_args_have_no_tensors(a, modules, cache) for a in node.all_input_nodes)
    cache[node] = found
    return found


def maybe_get_next_module(node, modules, target_module_type=None, target_functional_type=None):
    """The user of a value that is such a module or function, or None."""
    for user in node.users:
        if user.op == "call_module" and target_module_type is not None and isinstance(modules[user.target], target_module_type):
            return user
        if user.op == "call_function" and target_functional_type is not None and user.target == target_functional_type:
            return user
    return None


def _get_module(node, modules):
    """The module that a node calls, or None."""
    return modules[node.target] if isinstance(node, Node) and node.op == "call_module" and node.target in modules else None
