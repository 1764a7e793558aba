"""A matcher whose pattern gives its nodes names, as the last of its results: return ..., {"conv": conv, "bn": bn}."""
import copy

from rushlight.fx.graph_module import GraphModule
from rushlight.utils import _pytree as pytree

from .matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap", "InternalMatch"]


def _split_to_graph_and_name_node_map(gm):
    """The module without the dictionary among its results, and that dictionary."""
    if gm._out_spec is None:
        raise AssertionError("the module was made without the structure of its results")
    gm = copy.deepcopy(gm)
    output = gm.graph.output_node()
    results = pytree.tree_unflatten(output.args[0], gm._out_spec)
    if not isinstance(results, tuple):
        raise AssertionError("Expecting the pattern graph to return a tuple")
    if len(results) < 2 or not isinstance(results[-1], dict):
        raise AssertionError("Expecting the pattern graph to have at least two outputs, the last one a dict of nodes' names")
    *results, names = results
    leaves, spec = pytree.tree_flatten(results)
    with gm.graph.inserting_before(output):
        gm.graph.output(leaves)
    gm.graph._codegen.pytree_info.out_spec = spec
    gm.graph.erase_node(output)
    gm.recompile()
    return gm, names


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Like SubgraphMatcher, of an exported module; matches say in name_node_map which nodes have the pattern's names."""

    def __init__(self, pattern_gm, match_output=False, match_placeholder=False, remove_overlapping_matches=True, ignore_literals=False):
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph, node_name_match=""):
        matches = super().match(graph, node_name_match)
        for match in matches:
            match.name_node_map.update({name: match.nodes_map[node] for name, node in self.name_node_map.items()})
        return matches
