"""get_source_partitions: the nodes that one call in the source became, by what was called."""
import dataclasses
from typing import Any

from rushlight._alias import torch_name

__all__ = ["get_source_partitions", "check_subgraphs_connected", "SourcePartition"]


@dataclasses.dataclass
class SourcePartition:
    """Nodes of one call: all of them, what was called, the values from outside, those used outside, the parameters."""
    nodes: list
    source: Any
    input_nodes: list = dataclasses.field(default_factory=list)
    output_nodes: list = dataclasses.field(default_factory=list)
    params: list = dataclasses.field(default_factory=list)


def _class_name(source):
    return torch_name("%s.%s" % (source.__module__, source.__qualname__))


def _source_of(node, wanted):
    """(what was called, which call it was) if it is wanted."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        call, source = stack[-1]
        return (source, call) if source in wanted else None
    function = node.meta.get("torch_fn")
    if function is not None and function[1].split(".")[-1] in wanted:
        return function[1].split(".")[-1], function[0]
    modules = node.meta.get("nn_module_stack")
    if function is not None and modules:
        key, (_, kind) = list(modules.items())[-1]
        for source in wanted:
            if isinstance(source, type) and (kind is source or kind == _class_name(source)) or source == kind:
                return source, key
    return None


def _partition(nodes, source):
    inside = set(nodes)
    inputs = [a for n in nodes for a in n.all_input_nodes if a not in inside and a.op != "get_attr"]
    return SourcePartition(nodes, source, list(dict.fromkeys(inputs)), [n for n in nodes if any(u not in inside for u in n.users)],
                           [n for n in nodes if n.op == "get_attr"])


def get_source_partitions(graph, wanted_sources, filter_fn=None):
    """{source: its partitions} of those functions, modules' classes and functions' names that the graph has calls of."""
    calls = {}
    for node in graph.nodes:
        found = _source_of(node, wanted_sources)
        if found is not None:
            calls.setdefault(found[0], {}).setdefault(found[1], []).append(node)
    result = {}
    for source, groups in calls.items():
        kept = [_partition(nodes, source) for nodes in groups.values() if filter_fn is None or all(map(filter_fn, nodes))]
        if kept:
            result[source] = kept
    return result


def check_subgraphs_connected(subgraph1, subgraph2):
    """Does the second use a value of the first?"""
    return any(a in subgraph1.nodes for node in reversed(subgraph2.nodes) for a in node.all_input_nodes)
