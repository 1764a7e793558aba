"""PassBase: a transformation with checks before and after."""
from collections import namedtuple

__all__ = ["PassResult", "PassBase"]


class PassResult(namedtuple("PassResult", ["graph_module", "modified"])):
    """The module, and whether it was changed."""

    __slots__ = ()


class PassBase:
    def __call__(self, graph_module):
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    def call(self, graph_module):
        raise NotImplementedError

    def requires(self, graph_module):
        return None

    def ensures(self, graph_module):
        return None
