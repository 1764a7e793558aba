"""Experimental parts of fx: names that programs look up."""


def __getattr__(name):
    if name in ("const_fold", "optimization", "proxy_tensor", "symbolic_shapes"):
        import importlib
        return importlib.import_module("rushlight.fx.experimental." + name)
    raise AttributeError("module 'torch.fx.experimental' has no attribute '%s'" % name)
