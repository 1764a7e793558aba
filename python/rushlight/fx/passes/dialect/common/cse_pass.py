"""CSEPass: what is computed twice is computed once."""
import rushlight as torch
from rushlight.export._capture import _RANDOM
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.utils import _pytree as pytree

__all__ = ["CSEPass", "get_CSE_banned_ops"]

aten = torch.ops.aten
# Random, or a change of an argument: two calls are not one.
rand_ops = {aten.dropout, aten._standard_gamma, aten.bernoulli, aten.multinomial, aten.native_dropout, aten.normal, aten.poisson, aten.binomial,
            aten.rrelu, aten.rand_like, aten.rand, aten.randint, aten.randn, aten.randperm, aten.randn_like, aten.randint_like}
inplace_ops = {aten.add_, aten.sub_, aten.mul_, aten.div_, aten.pow_, aten.lerp_, aten.relu_, aten.sigmoid_, aten.tanh_, aten.copy_, aten.zero_, aten.fill_}


def get_CSE_banned_ops():
    """The operators whose calls stay as they are."""
    return rand_ops | inplace_ops


def _stays(target, banned):
    if target in banned or getattr(target, "overloadpacket", None) in banned:
        return True
    schema = getattr(target, "_schema", None)
    return schema is not None and (schema.is_mutable or any(word in schema.name for word in _RANDOM))


def _key(node, values):
    leaves, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
    return node.target, tuple((type(x), values[x] if isinstance(x, Node) else x) for x in leaves), str(spec)


class CSEPass(PassBase):
    """Makes a new module of the graph, in which equal calls of equal arguments are one; but not of banned operators."""

    def __init__(self, banned_ops=None):
        self.banned_ops = get_CSE_banned_ops() if banned_ops is None else banned_ops

    def call(self, graph_module):
        graph, values, known, modified = Graph(), {}, {}, False
        for node in graph_module.graph.nodes:
            if node.op != "call_function" or _stays(node.target, self.banned_ops):
                values[node] = graph.node_copy(node, lambda n: values[n])
                continue
            try:
                key = _key(node, values)
                found = known.get(key)
            except TypeError:       # an argument that cannot be a key
                key = found = None
            if found is not None:
                values[node], modified = found, True
                continue
            values[node] = graph.node_copy(node, lambda n: values[n])
            if key is not None:
                known[key] = values[node]
        return PassResult(GraphModule(graph_module, graph), modified)
