"""Nodes of a graph, put into modules of their own."""
import operator

from rushlight.fx.graph import Graph
from rushlight.fx.passes.tools_common import stable_order, stable_topological_sort
from rushlight.fx.passes.utils.common import lift_subgraph_as_module

__all__ = ["topo_sort", "validate_partition", "fuse_as_graphmodule", "insert_subgm", "erase_nodes", "fuse_by_partitions"]


def topo_sort(nodes):
    """The nodes in an order in which each comes after what it uses."""
    order = stable_order(list(nodes))
    if len(order) < len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return order


def validate_partition(partition):
    """Whether no value leaves these nodes and comes back to them."""
    inside = set(partition)
    pending = [u for n in partition for u in n.users if u not in inside]
    seen = set(pending)
    while pending:
        for user in pending.pop().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True


def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *, always_return_tuple=False):
    """Copies nodes into a module: (it, the nodes whose values it takes, those whose values it gives)."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError("%s doesn't belong to passed in graph module %s" % (node, gm._get_name()))
        if node._erased:
            raise AssertionError("%s has been removed from owning graph" % node)
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes) if partition_lookup_table is None else partition_lookup_table
    subgraph, values, inputs = Graph(), {}, []

    def inner(x):
        if x.op == "get_attr" and x not in inside:      # what a module reads it has itself
            if x not in values:
                values[x] = subgraph.node_copy(x)
            return values[x]
        if x in values:
            return values[x]
        if x in inside:
            raise AssertionError("%s is used before it is there" % x)
        inputs.append(x)
        values[x] = subgraph.placeholder(x.name, x.type)
        values[x].meta = dict(x.meta)
        return values[x]
    for node in nodes:
        values[node] = subgraph.node_copy(node, inner)
    outputs = [n for n in nodes if any(user not in inside for user in n.users)]
    results = tuple(values[n] for n in outputs)
    subgraph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    subgraph.lint()
    made, _ = lift_subgraph_as_module(gm, subgraph, comp_name="", class_name=module_name)
    return made, tuple(inputs), tuple(outputs)


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs, insertion_point=None):
    """Calls a module of copied nodes where they are; who used their values uses its."""
    name = sub_gm.__class__.__name__
    gm.add_submodule(name, sub_gm)
    last = insertion_point if insertion_point is not None else list(gm.graph.nodes)[-2]
    with gm.graph.inserting_after(last):
        call = gm.graph.call_module(name, args=orig_inputs)
    returned = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(returned, tuple):
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    at = call
    for i, old in enumerate(orig_outputs):
        with gm.graph.inserting_after(at):
            at = gm.graph.call_function(operator.getitem, (call, i))
        old.replace_all_uses_with(at, propagate_meta=True)
    call.meta["val"] = tuple(old.meta.get("val") for old in orig_outputs)
    return gm


def erase_nodes(gm, nodes):
    """Takes out nodes that nothing uses any more."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """Puts each of these sets of nodes into a module, and calls it instead of them."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        order = {n: k for k, n in enumerate(gm.graph.nodes)}
        last = max(nodes, key=order.__getitem__)
        sub_gm, inputs, outputs = fuse_as_graphmodule(gm, nodes, prefix + str(i), partition, always_return_tuple=always_return_tuple)
        insert_subgm(gm, sub_gm, inputs, outputs, last)
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    gm.recompile()
    return gm
