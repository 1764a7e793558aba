"""The graph of a backward pass as a picture: text for Graphviz's dot."""
from rushlight import _C

__all__ = ["backward_dot"]


def backward_dot(result, path=None):
    """The operations behind a tensor, down to the leaves, as dot's text; also written to path where one is given."""
    text = _C._graph_dot(result)
    if path is not None:
        with open(path, "w", encoding="utf8") as out:
            out.write(text)
    return text
