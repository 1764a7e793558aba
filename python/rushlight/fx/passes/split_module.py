"""split_module: cut a graph into modules."""


def split_module(m, root_m, split_callback, *args, **kwargs):
    raise NotImplementedError("split_module is not supported")
