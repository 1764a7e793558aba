"""constant_fold: what a graph computes of constants alone, computed once."""
import rushlight as torch
from rushlight.export._capture import is_pure
from rushlight.fx.graph_module import _get_attr

__all__ = ["constant_fold"]


def constant_fold(gm, constraint_fn=None):
    """Calls of constants become constants `_frozen_param0` and so on; `constraint_fn` says of a node whether it may."""
    known, made = {}, {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = _get_attr(gm, node.target)
            if isinstance(value, torch.Tensor):
                known[node] = value.detach()
        elif node.op == "call_function" and node.all_input_nodes and all(n in known for n in node.all_input_nodes) and is_pure(node) and \
                (constraint_fn is None or constraint_fn(node)):
            value = node.target(*torch.fx.map_arg(node.args, known.get), **torch.fx.map_arg(dict(node.kwargs), known.get))
            if isinstance(value, torch.Tensor):
                known[node], made[node] = value, value
    count = 0
    for node, value in made.items():
        if all(user in made for user in node.users):
            continue
        while hasattr(gm, "_frozen_param%d" % count):
            count += 1
        name = "_frozen_param%d" % count
        gm.register_buffer(name, value)
        with gm.graph.inserting_before(node):
            constant = gm.graph.get_attr(name)
        constant.meta.update(node.meta)
        node.replace_all_uses_with(constant)
    for node in reversed(list(gm.graph.nodes)):
        if node in made or (node in known and node.op == "get_attr"):
            if not node.users:
                gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
