"""A joint graph of results and gradients, as two: what runs forward, and what runs when gradients come."""
import operator

import rushlight as torch


def _is_tangent(node):
    return node.op == "placeholder" and node.target.startswith("tangents")


def _is_primal(node):
    return node.op == "placeholder" and not _is_tangent(node)


def _changes(node):
    """Whether a node does more than to return something."""
    from rushlight._dynamo.capture import effects_of
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and effects_of(node.target) != 0


def _taken(joint, inputs, outputs, also=()):
    """The part of a graph between some of its nodes, with others that have to run."""
    graph, values = torch.fx.Graph(), {}
    for node in inputs:
        made = values[node] = graph.create_node("placeholder", node.name, name=node.name)
        made.meta = dict(node.meta)
    needed, stack = set(), [n for n in (*outputs, *also) if isinstance(n, torch.fx.Node)]
    while stack:
        node = stack.pop()
        if node not in needed and node not in values:
            needed.add(node)
            stack += node.all_input_nodes
    for node in joint.graph.nodes:
        if node in needed:
            values[node] = graph.node_copy(node, values.__getitem__)
    graph.output(tuple(values[n] if isinstance(n, torch.fx.Node) else n for n in outputs))
    graph.lint()
    return torch.fx.GraphModule(joint, graph)


def default_partition(joint_module, _joint_inputs, *, num_fwd_outputs, **more):
    """(forward, backward): what the results need runs forward, and what of it backward reads is saved.

    forward returns the results and then what is saved; backward takes that, and the gradients of the results.
    """
    nodes = list(joint_module.graph.nodes)
    outputs = list(nodes[-1].args[0])
    results, grads = outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]
    tangible = set()    # what follows from gradients
    for node in nodes[:-1]:
        if _is_tangent(node) or any(n in tangible for n in node.all_input_nodes):
            tangible.add(node)
    changes = [n for n in nodes if n not in tangible and _changes(n)]
    early, stack = set(), [n for n in (*results, *changes) if isinstance(n, torch.fx.Node)]     # what results need
    while stack:
        node = stack.pop()
        if node not in early:
            early.add(node)
            stack += node.all_input_nodes
    late = {n for n in nodes[:-1] if n in tangible or n not in early and n.op == "call_function"}
    saved = dict.fromkeys(n for node in nodes[:-1] if node in late for n in node.all_input_nodes if n not in late)
    saved.update(dict.fromkeys(n for n in grads if isinstance(n, torch.fx.Node) and n not in late))
    kept = _values_only(list(saved))
    primals, tangents = list(filter(_is_primal, nodes)), list(filter(_is_tangent, nodes))
    return _taken(joint_module, primals, results + kept, changes), _taken(joint_module, kept + tangents, grads)


def _values_only(saved):
    """Results of several parts are saved part by part."""
    out = []
    for node in saved:
        parts = [user for user in node.users if user.target is operator.getitem]
        out += [p for p in parts if p not in out] if parts and isinstance(node.meta.get("val"), (tuple, list)) else [node] if node not in out else []
    return out


min_cut_rematerialization_partition = default_partition
