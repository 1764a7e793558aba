"""Fused quantized layers."""
import importlib

from rushlight import nn
import rushlight as torch
from rushlight.ao.nn import quantized as nnq
from rushlight.nn import functional as F

__all__ = ["BNReLU2d", "BNReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearReLU", "LinearLeakyReLU", "LinearTanh", "ConvAdd2d", "ConvAddReLU2d"]

for _n in (1, 2, 3):
    _name = "ConvReLU%dd" % _n
    globals()[_name] = type(_name, (getattr(nnq, "Conv%dd" % _n),), {"__module__": __name__, "__doc__": "A convolution and relu.", "_operator": "conv%dd_relu" % _n})
for _n in (2, 3):
    _name = "BNReLU%dd" % _n
    globals()[_name] = type(_name, (getattr(nnq, "BatchNorm%dd" % _n),), {
        "__module__": __name__, "__doc__": "Batch normalization and relu.", "_operator": "batch_norm%dd_relu" % _n})


class LinearReLU(nnq.Linear):
    """A linear layer and relu."""

    _operator = "linear_relu"

    def _get_name(self):
        return "QuantizedLinearReLU"


class LinearLeakyReLU(nnq.Linear):
    """A linear layer and leaky_relu."""

    def __init__(self, in_features, out_features, negative_slope, bias=True, dtype=torch.qint8):
        super().__init__(in_features, out_features, bias, dtype)
        self.negative_slope = negative_slope

    def forward(self, x):
        return torch.ops.quantized.linear_leaky_relu(x, self._packed_params._packed_params, self.scale, self.zero_point, self.negative_slope)

    def _get_name(self):
        return "QuantizedLinearLeakyReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of an observed one."""
        slope = mod[1].negative_slope
        kind = type(cls.__name__, (cls,), {"_sizes": classmethod(lambda c, layer: (layer.in_features, layer.out_features, slope))})
        made = super(LinearLeakyReLU, kind).from_float(mod, use_precomputed_fake_quant)
        made.__class__ = cls
        return made


class LinearTanh(nnq.Linear):
    """A linear layer and tanh."""

    _operator = "linear_tanh"

    def _get_name(self):
        return "QuantizedLinearTanh"


class ConvAdd2d(nnq.Conv2d):
    """A convolution whose result is added to another tensor."""

    _with = "conv2d_add"

    def forward(self, input, extra_input):
        if self.padding_mode != "zeros":
            input = F.pad(input, [n for p in reversed(self.padding) for n in (p, p)], mode=self.padding_mode)
        return getattr(torch.ops.quantized, self._with)(input, extra_input, self._packed_params, self.scale, self.zero_point)


class ConvAddReLU2d(ConvAdd2d):
    """The same with relu behind it."""

    _with = "conv2d_add_relu"


def __getattr__(name):
    if name in ("dynamic", "modules"):
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError("module 'torch.ao.nn.intrinsic.quantized' has no attribute '%s'" % name)


del nn, _n, _name
