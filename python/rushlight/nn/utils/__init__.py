"""Helpers around modules: gradients clipped, weights reparametrised, sequences packed, layers fused.

foreach: for PyTorch's sake; all gradients are treated in one pass anyway.
"""
import importlib

from rushlight._functions_first import functions_first as _functions_first
from rushlight.nn.utils import rnn
from rushlight.nn.utils.clip_grad import (
    _clip_grads_with_norm_ as clip_grads_with_norm_, _get_total_norm as get_total_norm, clip_grad_norm,
    clip_grad_norm_, clip_grad_value_)
from rushlight.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

# What is loaded on first use, and where it lies.
_HOMES = {
    "fusion": ("fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"),
    "init": ("skip_init",),
    "memory_format": ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
    "spectral_norm": ("spectral_norm", "remove_spectral_norm"),
    "weight_norm": ("weight_norm", "remove_weight_norm"),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("clip_grad", "convert_parameters", "fusion", "init", "memory_format", "parametrizations", "parametrize",
            "prune", "stateless", "_named_member_accessor", "_per_sample_grad")


def __getattr__(name):
    if name in _WHERE:
        value = getattr(importlib.import_module("rushlight.nn.utils." + _WHERE[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module("rushlight.nn.utils." + name)
    raise AttributeError(f"module 'torch.nn.utils' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_WHERE, *_MODULES})


_functions_first(__name__, "weight_norm", "spectral_norm")
