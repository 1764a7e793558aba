"""fuse: batch normalisation folded into convolutions, in traced modules."""
import copy

import rushlight as torch
from rushlight.nn.utils.fusion import fuse_conv_bn_eval


def matches_module_pattern(pattern, node, modules):
    if not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    for expected, current in zip(pattern, (node.args[0], node)):
        if current.op != "call_module" or not isinstance(current.target, str) or \
                type(modules.get(current.target)) is not expected:
            return False
    return True


def replace_node_module(node, modules, new_module):
    owner, _, name = node.target.rpartition(".")
    modules[node.target] = new_module
    setattr(modules[owner], name, new_module)


def fuse(model, inplace=False, no_trace=False):
    """The model with each (conv, bn) pair as one convolution; for inference."""
    patterns = [(torch.nn.Conv1d, torch.nn.BatchNorm1d), (torch.nn.Conv2d, torch.nn.BatchNorm2d),
                (torch.nn.Conv3d, torch.nn.BatchNorm3d)]
    if not inplace:
        model = copy.deepcopy(model)
    traced = torch.fx.symbolic_trace(model) if not no_trace or not isinstance(model, torch.fx.GraphModule) else model
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in patterns:
        for node in graph.nodes:
            if matches_module_pattern(pattern, node, modules):
                if len(node.args[0].users) > 1:
                    continue
                conv, bn = modules[node.args[0].target], modules[node.target]
                if not bn.track_running_stats:
                    continue
                replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, bn))
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
    return torch.fx.GraphModule(traced, graph)
