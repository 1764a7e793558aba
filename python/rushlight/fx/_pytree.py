"""Flattening by a given spec, for graphs whose inputs were containers."""
from collections import OrderedDict, namedtuple

from rushlight.utils._pytree import TreeSpec, tree_flatten  # noqa: F401

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec, exact_structural_match=False):
    """The parts of a tree that stand where spec has leaves."""
    if spec.is_leaf():
        return [pytree]
    if spec.type not in SUPPORTED_NODES:  # then it must be just that
        leaves, found = tree_flatten(pytree)
        if found != spec:
            raise RuntimeError(f"the spec {found} of {pytree} is another than the one that is expected, {spec}; if programs are to run with other containers of "
                               "this type, give it a function by torch.fx._pytree.register_pytree_flatten_spec")
        return leaves
    children = SUPPORTED_NODES[spec.type](pytree, spec)
    if exact_structural_match and not SUPPORTED_NODES_EXACT_MATCH[spec.type](pytree, spec):
        raise RuntimeError("Cannot flatten pytree %s, given spec: %s" % (pytree, spec))
    return [leaf for child, part in zip(children, spec.children_specs)
            for leaf in tree_flatten_spec(child, part, exact_structural_match)]


def _same_length(d, spec):
    return len(d) == len(spec.children_specs)


def _dict_flatten_spec(d, spec):
    return [d[k] for k in spec.context]


def _list_flatten_spec(d, spec):
    return [d[i] for i in range(len(spec.children_specs))]


_tuple_flatten_spec = _namedtuple_flatten_spec = _list_flatten_spec
for _kind in (dict, OrderedDict):
    register_pytree_flatten_spec(_kind, _dict_flatten_spec, _same_length)
for _kind in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_kind, _list_flatten_spec, _same_length)
