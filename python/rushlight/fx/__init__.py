"""torch.fx: programs as graphs of calls that Python code can read and change."""
from rushlight.fx import _pytree, immutable_collections, traceback  # noqa: F401
from rushlight.fx.node import Node, has_side_effect, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx.graph import CodeGen, Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from rushlight.fx.interpreter import Interpreter, Transformer
from rushlight.fx.subgraph_rewriter import replace_pattern

__all__ = ["symbolic_trace", "Tracer", "wrap", "Graph", "GraphModule", "Interpreter", "Transformer", "Node", "Proxy",
           "replace_pattern", "has_side_effect", "map_arg"]


def __getattr__(name):
    if name in ("passes", "experimental", "operator_schemas", "annotate", "config", "tensor_type", "graph", "node", "proxy",
                "graph_module", "interpreter", "subgraph_rewriter", "_symbolic_trace", "_compatibility", "_lazy_graph_module"):
        import importlib
        return importlib.import_module("rushlight.fx." + name)
    raise AttributeError("module 'torch.fx' has no attribute '%s'" % name)
