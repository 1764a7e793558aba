"""replace_pattern: find a pattern of calls in a graph and put another one in its place."""
import copy
from dataclasses import dataclass
from typing import Dict, NamedTuple, List

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
    anchor: Node
    nodes_map: Dict[Node, Node]
    replacements: List[Node]


def _graph_of(value):
    if isinstance(value, Graph):
        return value
    if isinstance(value, torch.fx.GraphModule):
        return value.graph
    return torch.fx.symbolic_trace(value).graph


def _same_target(pattern, node, pattern_module, module):
    if pattern.op != node.op:
        return False
    if pattern.op == "call_module" and pattern.target != node.target:
        return False
    return pattern.target == node.target


def _match(pattern, node, found, ignore_literals):
    """Match a pattern node (or argument) with one of the graph, filling in found."""
    if isinstance(pattern, Node):
        if pattern in found:
            return found[pattern] is node
        if pattern.op == "placeholder":
            found[pattern] = node
            return True
        if not isinstance(node, Node) or not _same_target(pattern, node, None, None):
            return False
        found[pattern] = node
        if len(pattern.args) != len(node.args) or set(pattern.kwargs) != set(node.kwargs):
            return False
        return all(_match(a, b, found, ignore_literals) for a, b in zip(pattern.args, node.args)) and \
            all(_match(value, node.kwargs[key], found, ignore_literals) for key, value in pattern.kwargs.items())
    if isinstance(pattern, (list, tuple)):
        return isinstance(node, (list, tuple)) and len(pattern) == len(node) and \
            all(_match(a, b, found, ignore_literals) for a, b in zip(pattern, node))
    if isinstance(pattern, dict):
        return isinstance(node, dict) and set(pattern) == set(node) and \
            all(_match(pattern[k], node[k], found, ignore_literals) for k in pattern)
    if isinstance(node, Node):
        return False
    return True if ignore_literals else type(pattern) is type(node) and pattern == node


def _find(graph, pattern, ignore_literals, filters):
    outputs = [a for a in pattern.output_node().all_input_nodes]
    taken, result = set(), []
    for anchor in graph.nodes:
        if anchor.op in ("placeholder", "output"):
            continue
        found = {}
        if not _match(outputs[0], anchor, found, ignore_literals):
            continue
        ok = True
        for other in outputs[1:]:
            if other in found:
                continue
            ok = any(_extends(other, node, found, ignore_literals) for node in graph.nodes)
            if not ok:
                break
        if not ok:
            continue
        inner = {p: n for p, n in found.items() if p.op != "placeholder" and isinstance(n, Node)}
        # What is inside may not be used outside, for it goes away.
        for p, n in inner.items():
            if p not in outputs and p.op != "get_attr" and any(user not in inner.values() for user in n.users):
                ok = False
        if not ok or any(n in taken for n in inner.values()):
            continue
        match = Match(anchor, found)
        if all(f(match, graph, pattern) for f in filters):
            taken.update(inner.values())
            result.append((match, outputs))
    return result


def _extends(pattern, node, found, ignore_literals):
    trial = dict(found)
    if _match(pattern, node, trial, ignore_literals):
        found.update(trial)
        return True
    return False


def replace_pattern(gm, pattern, replacement):
    """Replace every (non-overlapping) occurrence of pattern by replacement; both take the same arguments."""
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement, [], False, None)]


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
                                 replacement_callback=None, node_name_match=""):
    return _replace(gm, pattern, replacement, match_filters or [], ignore_literals, replacement_callback)


def _replace(gm, pattern, replacement, filters, ignore_literals, callback):
    pattern_graph = _graph_of(pattern)
    replaced = []
    for match, outputs in _find(gm.graph, pattern_graph, ignore_literals, filters):
        source = callback(match, gm.graph, pattern_graph) if callback is not None else _graph_of(replacement)
        if isinstance(replacement, torch.nn.Module):
            for node in source.nodes:
                if node.op in ("call_module", "get_attr") and not torch.fx.graph_module._has_attr(gm, node.target):
                    torch.fx.graph_module._copy_attr(replacement, gm, node.target)
        inputs = [n for n in pattern_graph.nodes if n.op == "placeholder"]
        targets = [n for n in source.nodes if n.op == "placeholder"]
        if len(inputs) != len(targets):
            raise AssertionError("pattern and replacement take different numbers of arguments")
        val_map = {}
        for p, t in zip(inputs, targets):
            val_map[t] = match.nodes_map.get(p)
        # The new nodes go before the first use of what they replace, and after all that they use.
        inner = [n for p, n in match.nodes_map.items() if p.op != "placeholder" and isinstance(n, Node)]
        order = {n: i for i, n in enumerate(gm.graph.nodes)}
        last_input = max((order[n] for n in val_map.values() if isinstance(n, Node)), default=-1)
        nodes = list(gm.graph.nodes)
        users = [order[u] for p in outputs if isinstance(match.nodes_map[p], Node) for u in match.nodes_map[p].users if u not in inner]
        first = min(users) if users else min(order[n] for n in inner)
        at = nodes[max(first, last_input + 1)]
        made = []
        with gm.graph.inserting_before(at):
            for node in source.nodes:
                if node.op == "placeholder":
                    continue
                if node.op == "output":
                    result = map_arg(node.args[0], lambda n: val_map[n])
                    continue
                val_map[node] = gm.graph.node_copy(node, lambda n: val_map[n])
                made.append(val_map[node])
        new = []
        map_arg(result, lambda n: new.append(n) or n)
        for p, value in zip(outputs, new):
            match.nodes_map[p].replace_all_uses_with(value)
        for node in reversed([n for n in nodes if n in set(inner)]):
            if not node.users:
                gm.graph.erase_node(node)
        replaced.append(ReplacedPatterns(match.anchor, copy.copy(match.nodes_map), made))
    gm.recompile()
    return replaced
