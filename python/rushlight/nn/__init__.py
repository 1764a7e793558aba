"""Layers, losses and what belongs to them.

Arguments that many have: device and dtype are of the parameters; inplace: the result takes the input's memory; size_average and reduce
are the old form of reduction, and None is right.

Layers come at once; what few programs touch (attention kernels, parallel wrappers) is loaded when it is
asked for.
"""
from rushlight.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from rushlight.nn import functional, init, utils
from rushlight.nn.modules import *  # noqa: F403
from rushlight.nn import modules

_LAZY = ("attention", "common_types", "grad", "intrinsic", "parallel", "qat", "quantized")


def factory_kwargs(kwargs):
    """The keywords `device`, `dtype` and `memory_format` among `kwargs`, checked.

    kwargs: a dictionary, or None; an unknown keyword is an error.

    >>> nn.factory_kwargs({"dtype": torch.float64})
    {'dtype': torch.float64}
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    extra = kwargs.keys() - (simple | {"factory_kwargs"})
    if extra:
        raise TypeError(f"unexpected kwargs {extra}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


def __getattr__(name):
    import importlib
    if name in _LAZY:
        return importlib.import_module("rushlight.nn." + name)
    if name == "DataParallel":
        return importlib.import_module("rushlight.nn.parallel").DataParallel
    raise AttributeError(f"module 'torch.nn' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LAZY, "DataParallel"})
