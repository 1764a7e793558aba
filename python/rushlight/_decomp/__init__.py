"""torch._decomp: decompositions of operations, for compilers. There are none."""

decomposition_table = {}
pre_autograd_decomposition_table = {}
meta_table = {}


def get_decompositions(aten_ops, type="post_autograd"):
    return {}


def core_aten_decompositions():
    return {}


def register_decomposition(aten_op, registry=None, *, type="post_autograd", unsafe=False):
    return lambda fn: fn


def remove_decompositions(decompositions, aten_ops):
    return None
