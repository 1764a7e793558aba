"""Graph modules that keep some of a model's attributes, and say how they were prepared."""
import copy

from rushlight.fx import GraphModule

__all__ = ["FusedGraphModule", "ObservedGraphModule", "ObservedStandaloneGraphModule", "QuantizedGraphModule"]

_OBSERVED = "_observed_graph_module_attrs"


class _KeepingGraphModule(GraphModule):
    """A graph module with attributes of the module that it was made of."""

    def __init__(self, root, graph, preserved_attr_names):
        self.preserved_attr_names = set(preserved_attr_names)
        kept = {name: getattr(root, name) for name in self.preserved_attr_names if hasattr(root, name)}
        super().__init__(root, graph)
        for name, value in kept.items():
            setattr(self, name, value)

    def __deepcopy__(self, memo):
        holder = GraphModule.__new__(GraphModule)
        holder.__dict__ = copy.deepcopy({k: v for k, v in self.__dict__.items() if k != "_graph"}, memo)
        return type(self)(holder, copy.deepcopy(self.graph), copy.deepcopy(self.preserved_attr_names))


class FusedGraphModule(_KeepingGraphModule):
    """What fuse_fx makes."""


class ObservedGraphModule(_KeepingGraphModule):
    """What prepare_fx makes; observers' places in a state_dict come with it."""

    def __init__(self, root, graph, preserved_attr_names):
        super().__init__(root, graph, {*preserved_attr_names, "_activation_post_process_map", "_activation_post_process_indexes"})


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A submodule that was prepared on its own."""


class QuantizedGraphModule(_KeepingGraphModule):
    """What convert_fx makes."""


def _is_observed_module(module):
    return hasattr(module, "meta") and _OBSERVED in module.meta


def _get_observed_graph_module_attr(model, attr_name):
    """What _save_state noted in a prepared model."""
    return getattr(model.meta[_OBSERVED], attr_name) if _is_observed_module(model) else None


def _is_observed_standalone_module(module):
    return _is_observed_module(module) and module.meta[_OBSERVED].is_observed_standalone_module
