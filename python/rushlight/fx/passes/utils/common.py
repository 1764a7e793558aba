"""Parts of graphs as modules, and whether two graphs are the same."""
import rushlight as torch
from rushlight.fx.graph_module import GraphModule, _walk

from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "lift_subgraph_as_module", "compare_graphs"]


class HolderModule(torch.nn.Module):
    """Holds modules by name."""

    def __init__(self, d):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm, subgraph, comp_name="", class_name="GraphModule"):
    """A graph of nodes of a module, as a module that has what they name; and {name in the new one: name in the old}."""
    root, names = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        source, owner, last = gm.get_submodule(node.target.rpartition(".")[0]), *_walk(root, node.target)
        value = getattr(source, last)
        if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
            owner.register_buffer(last, value, persistent=last not in source._non_persistent_buffers_set)
        else:
            setattr(owner, last, value)
        names[node.target] = "%s.%s" % (comp_name, node.target)
    return GraphModule(root, subgraph, class_name), names


def compare_graphs(left, right):
    """Whether the graphs are of the same calls."""
    return len(left.nodes) == len(right.nodes) and len(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)) > 0
