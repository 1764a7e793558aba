"""GraphModules that compile their code on first use: here all compile at once."""
import contextlib


@contextlib.contextmanager
def _use_lazy_graph_module(should_use):
    yield


def _get_graph_module_cls():
    from rushlight.fx.graph_module import GraphModule
    return GraphModule


def _make_graph_module(*args, graph_module_cls=None, **kwargs):
    return (graph_module_cls or _get_graph_module_cls())(*args, **kwargs)
