"""Transformations of graphs."""
_MODULES = ("graph_drawer", "graph_manipulation", "infra", "operator_support", "param_fetch", "pass_manager", "shape_prop", "split_module", "split_utils",
            "tools_common", "utils")


def __getattr__(name):
    if name in _MODULES:
        import importlib
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError("module 'torch.fx.passes' has no attribute '%s'" % name)
