"""Parameters of modules in graphs."""


def lift_lowering_attrs_to_nodes(fx_module):
    raise NotImplementedError("lift_lowering_attrs_to_nodes is not supported")
