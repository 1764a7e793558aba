"""Which nodes a backend takes: rules that say so of a node, and combinations of them."""
import abc

import rushlight as torch
from rushlight.fx.passes.shape_prop import TensorMetadata

from .tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = ["OperatorSupportBase", "OperatorSupport", "create_op_support", "chain", "OpSupports", "any_chain"]


def _get_arg_dtype(arg):
    """The dtype of a node's value, which ShapeProp (or an export) found."""
    if not isinstance(arg, torch.fx.Node):
        raise AssertionError("expected a node, not %r" % (arg,))
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]


class OperatorSupportBase(abc.ABC):
    """A rule: is_node_supported(submodules, node)."""

    @abc.abstractmethod
    def is_node_supported(self, submodules, node):
        raise NotImplementedError


class OperatorSupport(OperatorSupportBase):
    """A rule from a table: {target's name: None, or (dtypes that each positional argument may have, those of arguments by name)}."""

    def __init__(self, support_dict=None):
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules, node):
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        if self._support_dict[target] is None:
            return True
        positional, by_name = self._support_dict[target]
        for allowed, arg in zip(positional, node.args):
            if isinstance(arg, torch.fx.Node) and _get_arg_dtype(arg) not in allowed:
                return False
        for name, allowed in by_name.items():
            arg = node.kwargs.get(name)
            if isinstance(arg, torch.fx.Node) and _get_arg_dtype(arg) not in allowed:
                return False
        return True


def create_op_support(is_node_supported):
    """The rule of a function."""
    class FunctionalOperatorSupport(OperatorSupportBase):
        def is_node_supported(self, submodules, node):
            return is_node_supported(submodules, node)
    return FunctionalOperatorSupport()


def chain(*op_support):
    """Supported where all rules say so."""
    return create_op_support(lambda submodules, node: all(rule.is_node_supported(submodules, node) for rule in op_support))


def any_chain(*op_support):
    """Supported where one rule says so."""
    return create_op_support(lambda submodules, node: any(rule.is_node_supported(submodules, node) for rule in op_support))


class OpSupports:
    """Rules that are often wanted."""

    @classmethod
    def decline_if_input_dtype(cls, dtype):
        """Not nodes with an input of this dtype."""
        return create_op_support(lambda submodules, node: all(_get_arg_dtype(arg) != dtype for arg in node.all_input_nodes))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set):
        """Not nodes of these names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)
