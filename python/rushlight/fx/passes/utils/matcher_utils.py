"""SubgraphMatcher: where in a graph the calls of a smaller one are found."""
import dataclasses

import rushlight as torch
from rushlight.fx.graph_module import _get_attr
from rushlight.fx.node import Node

__all__ = ["SubgraphMatcher", "InternalMatch"]


@dataclasses.dataclass
class InternalMatch:
    """One place where a pattern was found.

    `nodes_map` says which node (or, for a placeholder, which value) stands for which node of the pattern; `anchors` are the pattern's
    last nodes, `placeholder_nodes` and `returning_nodes` what stands for its inputs and results.
    """
    anchors: list
    nodes_map: dict = dataclasses.field(default_factory=dict)
    placeholder_nodes: list = dataclasses.field(default_factory=list)
    returning_nodes: list = dataclasses.field(default_factory=list)
    name_node_map: dict = dataclasses.field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(self.anchors, dict(self.nodes_map), list(self.placeholder_nodes), list(self.returning_nodes), dict(self.name_node_map))


def _arguments(pattern, node):
    """The leaves of both calls' arguments, in the same order, or None where the calls differ in form."""
    pairs = [(pattern.args, dict(pattern.kwargs)), (node.args, dict(node.kwargs))]
    if isinstance(pattern.target, torch._ops.OpOverload):
        pairs = [([_argument(a, i, *pair) for i, a in enumerate(pattern.target._schema.arguments)], {}) for pair in pairs]
    (pattern_args, pattern_kwargs), (args, kwargs) = pairs
    if len(pattern_args) != len(args) or set(pattern_kwargs) != set(kwargs):
        return None
    found = []
    alike = all(_pair(a, b, found) for a, b in zip([*pattern_args, *pattern_kwargs.values()], [*args, *(kwargs[k] for k in pattern_kwargs)]))
    return found if alike else None


def _pair(left, right, found):
    """Adds the pairs of leaves; a node of the pattern stands for a whole list. False: they differ in form."""
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(_pair(a, b, found) for a, b in zip(left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_pair(left[k], right[k], found) for k in left)
    found.append((left, right))
    return True


def _argument(declared, i, args, kwargs):
    """What a call gives for an argument that its operator declares."""
    return args[i] if i < len(args) and not declared.kwarg_only else kwargs.get(declared.name, declared.default_value)


class SubgraphMatcher:
    """Finds a graph in others: match(graph).

    Placeholders of the pattern stand for any value unless match_placeholder is set; the output counts as a node with match_output.
    What lies within a match may not be used outside of it, for whoever replaces the match takes it away.
    """

    def __init__(self, pattern, match_output=False, match_placeholder=False, remove_overlapping_matches=True, ignore_literals=False):
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        for node in pattern.nodes:
            if not node.users and not node.is_impure():
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code: %s" % node)
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        # A match begins at the results that nothing else in the pattern uses.
        self.pattern_anchors = [output] if match_output else [n for n in self.pattern_returning_nodes if len(n.users) == 1]

    def _nodes_are_equal(self, pattern, node, node_name_match=""):
        if not self.match_placeholder and pattern.op == "placeholder":
            return True
        if node_name_match and node_name_match in node.name:
            return True
        if pattern.op != node.op:
            return False
        if pattern.op in ("placeholder", "output"):
            return True
        if pattern.op == "get_attr":
            return self._match_attributes(pattern, node)
        return pattern.target == node.target

    def _match_attributes(self, pattern, node):
        """Two tensors, or two modules or graphs of one kind."""
        values = []
        for n in (pattern, node):
            if n.graph.owning_module is None:
                raise AssertionError("%s: the graph has no module" % n)
            values.append(_get_attr(n.graph.owning_module, n.target))
        ours, theirs = values
        if isinstance(theirs, torch.fx.GraphModule):
            return isinstance(ours, torch.fx.GraphModule)
        return isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor) or type(ours) is type(theirs)

    def _match_value(self, pattern, value, found, node_name_match):
        if isinstance(pattern, Node) and (isinstance(value, Node) or pattern.op == "placeholder" and not self.match_placeholder):
            return self._match_nodes(pattern, value, found, node_name_match) if isinstance(value, Node) else self._match_literal(pattern, value, found)
        if isinstance(pattern, Node) or isinstance(value, Node):
            return False
        return self.ignore_literals or type(pattern) is type(value) and pattern == value

    def _match_literal(self, placeholder, value, found):
        """A placeholder may stand for a number, everywhere the same one."""
        if placeholder in found:
            return found[placeholder] == value
        found[placeholder] = value
        return True

    def _match_nodes(self, pattern, node, found, node_name_match):
        if pattern in found:
            return found[pattern] is node
        if any(known is node for known in found.values()) or not self._nodes_are_equal(pattern, node, node_name_match):
            return False
        before = dict(found)
        found[pattern] = node
        if pattern.op == "placeholder":
            return True
        pairs = _arguments(pattern, node)
        if pairs is not None and all(self._match_value(a, b, found, node_name_match) for a, b in pairs):
            return True
        found.clear()
        found.update(before)
        return False

    def _is_contained(self, found):
        """Is what lies between inputs and results used within the match alone?"""
        inside = {n for n in found.values() if isinstance(n, Node)}
        for pattern, node in found.items():
            if pattern.op in ("placeholder", "get_attr") or pattern in self.pattern_returning_nodes or pattern.op == "output":
                continue
            if any(user not in inside for user in node.users):
                return False
        return True

    def _extensions(self, anchors, graph, found, node_name_match):
        """All ways to find the anchors, one after the other."""
        if not anchors:
            yield dict(found)
            return
        for node in graph.nodes:
            trial = dict(found)
            if self._match_nodes(anchors[0], node, trial, node_name_match):
                yield from self._extensions(anchors[1:], graph, trial, node_name_match)

    def _remove_overlapping_matches(self, matches):
        kept, taken = [], set()
        for match in matches:
            nodes = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "get_attr") and isinstance(n, Node)}
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept

    def match(self, graph, node_name_match=""):
        """The places in the graph where the pattern is, in the graph's order."""
        matches = []
        for found in self._extensions(self.pattern_anchors, graph, {}, node_name_match):
            if self._is_contained(found):
                matches.append(InternalMatch(list(self.pattern_anchors), found, [found[p] for p in self.pattern_placeholder_nodes],
                                             [found[p] for p in self.pattern_returning_nodes]))
        return self._remove_overlapping_matches(matches) if self.remove_overlapping_matches else matches
