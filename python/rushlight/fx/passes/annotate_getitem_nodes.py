"""Types of items, by the types of what they are taken from."""
import operator

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph):
    """Gives x[i] the type that tuple[...], list[...] and named tuples say that it has."""
    for node in graph.nodes:
        if node.target != operator.getitem:
            continue
        sequence, index = node.args
        kind = sequence.type
        if not isinstance(index, int) or kind is None:
            continue
        arguments = getattr(kind, "__args__", ())
        if getattr(kind, "__origin__", None) is tuple and arguments:
            if len(arguments) == 2 and arguments[1] is ...:
                node.type = arguments[0]
            elif index < len(arguments):
                node.type = arguments[index]
        elif getattr(kind, "__origin__", None) is list and arguments:
            node.type = arguments[0]
        elif hasattr(kind, "__annotations__") and hasattr(kind, "_fields"):
            node.type = kind.__annotations__[kind._fields[index]]
