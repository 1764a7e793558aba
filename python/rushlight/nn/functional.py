"""Functional forms of all layers.

Arguments that many have: inplace: the result takes the input's memory; out: the tensor that takes the result; size_average and reduce are
the old form of reduction, and None is right.

Three sources: functions written in `_functional/` (they take the old arguments, check, and choose an
operator), operators that are used as they are, and a few aliases.  All of them say that they live here,
so that a pickled reference to one is found again.
"""
import enum

import rushlight as torch
from rushlight import Tensor
from rushlight._alias import torch_name as _torch_name
from rushlight.nn import _reduction, grad
from rushlight.nn._functional import activation, attention, loss, norm, pooling, vision
from rushlight.nn._override import handle as handle_torch_function, overridden as _overridden
from rushlight.nn._tuples import _list_with_default, _pair, _single, _triple

for _family in (activation, attention, loss, norm, pooling, vision):
    _names = _family.__name__, _torch_name(_family.__name__)
    for _name, _value in list(vars(_family).items()):
        if getattr(_value, "__module__", None) in _names and callable(_value):
            _value.__module__ = __name__
            globals()[_name] = _value
        elif _name.isupper():
            globals()[_name] = _value

# Operators that need nothing in front of them; one that the extension lacks is asked for again when used.
for _name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc",
              "avg_pool1d", "adaptive_avg_pool1d", "bilinear", "celu_", "channel_shuffle", "cosine_similarity",
              "hardshrink", "native_channel_shuffle", "pairwise_distance", "pdist", "pixel_shuffle",
              "pixel_unshuffle", "prelu", "relu_", "rrelu_", "selu_", "threshold_"):
    if hasattr(torch, _name):
        globals()[_name] = getattr(torch, _name)
for _name in ("avg_pool2d", "avg_pool3d", "elu_", "gelu", "hardtanh_", "leaky_relu_", "linear", "one_hot",
              "scaled_dot_product_attention", "softplus", "softshrink"):
    if hasattr(torch._C._nn, _name):
        globals()[_name] = getattr(torch._C._nn, _name)
if hasattr(torch._C._nn, "log_sigmoid"):
    logsigmoid = torch._C._nn.log_sigmoid
_threshold = threshold  # noqa: F821 (of a family) - PyTorch's pickles say it so


def __getattr__(name):
    for home in (torch, torch._C._nn):
        if not name.startswith("_") and hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module 'torch.nn.functional' has no attribute '{name}'")


class ScalingType(enum.Enum):
    """How many elements of a low-precision matrix share a scale.

    value: the number of a member; names, module, qualname, type, start, boundary: only to make other enumerations.

    >>> F.ScalingType.RowWise.value
    1
    """
    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """How the scales of a low-precision matrix lie in memory.

    value: the number of a member; names, module, qualname, type, start, boundary: only to make other enumerations.

    >>> F.SwizzleType.NO_SWIZZLE.value
    0
    """
    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def assert_int_or_pair(arg, arg_name, message):
    """Complain unless `arg` is a number or a pair.

    arg: what was given; arg_name: its name; message: of the AssertionError, with {} for the name.

    >>> F.assert_int_or_pair((1, 2), "stride", "{} is wrong")
    >>> F.assert_int_or_pair((1, 2), "stride", "{} is wrong") is None
    True
    """
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def has_torch_function(relevant_args):
    """Whether one of the arguments overrides torch functions.

    relevant_args: a tuple of any objects.

    >>> F.has_torch_function((torch.ones(1), 2))
    False
    """
    return _overridden(*relevant_args)


has_torch_function_unary = has_torch_function_variadic = _overridden
del _family, _name, _value
