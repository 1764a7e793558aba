"""replace_pattern: find a pattern of calls in a graph and put another one in its place."""
from dataclasses import dataclass
from typing import Dict, List, NamedTuple

import rushlight as torch
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_arg

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


class Match(NamedTuple):
    """One place where the pattern was found: the last node, and which node stands for which."""

    anchor: Node
    nodes_map: Dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """One place that was replaced, and the nodes that are there now."""

    anchor: Node
    nodes_map: Dict[Node, Node]
    replacements: List[Node]


def _graph_of(value):
    if isinstance(value, Graph):
        return value
    if isinstance(value, torch.fx.GraphModule):
        return value.graph
    return torch.fx.symbolic_trace(value).graph


def replace_pattern(gm, pattern, replacement):
    """Replace every (non-overlapping) occurrence of pattern by replacement; both take the same arguments."""
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement, [], False, None, "")]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False, replacement_callback=None, node_name_match=""):
    """replace_pattern, of the matches that all filters let through; the callback makes a replacement for a match."""
    return _replace(gm, pattern, replacement, match_filters or [], ignore_literals, replacement_callback, node_name_match)


def _take_attributes(gm, replacement, graph):
    """The module has what the nodes of the replacement's graph name, too."""
    gm.delete_all_unused_submodules()
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr") and not _is_guard(node) and not torch.fx.graph_module._has_attr(gm, node.target):
            torch.fx.graph_module._copy_attr(replacement, gm, node.target)


def _place_of(gm, match, inputs):
    """New nodes go before the first use of what they replace, and after all that they use."""
    nodes = list(gm.graph.nodes)
    order = {n: i for i, n in enumerate(nodes)}
    inner = {n for p, n in match.nodes_map.items() if p.op != "placeholder" and isinstance(n, Node)}
    last_input = max((order[n] for n in inputs if isinstance(n, Node)), default=-1)
    users = [order[u] for n in match.returning_nodes if isinstance(n, Node) for u in n.users if u not in inner]
    first = min(users) if users else min((order[n] for n in inner), default=last_input + 1)
    return nodes[max(first, last_input + 1)]


def _is_guard(node):
    """Does a node compare an exported program's inputs with what was captured?"""
    from rushlight.export._unlift import GuardsFn
    owner = node.graph.owning_module
    return node.op == "call_module" and owner is not None and isinstance(owner.get_submodule(node.target), GuardsFn)


def _put_in(gm, source, match):
    """Replaces one match by the nodes of a graph; they come back, with the replaced nodes as new ones."""
    targets = [n for n in source.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(targets):
        raise AssertionError("Placeholder count mismatch: %d vs %d" % (len(match.placeholder_nodes), len(targets)))
    values = dict(zip(targets, match.placeholder_nodes))
    values.update((n, None) for n in source.nodes if _is_guard(n))      # these are about the inputs of an exported replacement
    with gm.graph.inserting_before(_place_of(gm, match, match.placeholder_nodes)):
        result = gm.graph.graph_copy(source, values)
    results = []
    map_arg(result, lambda n: results.append(n) or n)
    changed = dict(zip(match.returning_nodes, results))
    for old, new in changed.items():
        old.replace_all_uses_with(new)
    inner = {n for p, n in match.nodes_map.items() if p.op != "placeholder" and isinstance(n, Node)}
    for node in reversed([n for n in gm.graph.nodes if n in inner]):
        if not node.users:
            gm.graph.erase_node(node)
    return [values[n] for n in source.nodes if n.op not in ("placeholder", "output") and values[n] is not None], changed


def _replace(gm, pattern, replacement, filters, ignore_literals, callback, node_name_match):
    from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
    pattern_graph = _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [m for m in matcher.match(gm.graph, node_name_match) if all(f(m, gm.graph, pattern_graph) for f in filters)]
    if replacement is None and callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = _graph_of(replacement) if replacement is not None else None
    replaced, changed = [], {}

    def now(node):
        """What stands where a node did that an earlier match returned."""
        while isinstance(node, Node) and node in changed:
            node = changed[node]
        return node
    for match in matches:
        match.nodes_map = {p: now(n) for p, n in match.nodes_map.items()}
        match.placeholder_nodes = [now(n) for n in match.placeholder_nodes]
        source = common if common is not None else callback(match, gm.graph, pattern_graph)
        made, renewed = _put_in(gm, source, match)
        changed.update({old: new for old, new in renewed.items() if old is not new})
        replaced.append(ReplacedPatterns(matcher.pattern_anchors[0], match.nodes_map, made))
    gm.recompile()
    if isinstance(replacement, torch.nn.Module):
        _take_attributes(gm, replacement, common)
    return replaced
