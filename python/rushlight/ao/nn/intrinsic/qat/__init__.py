"""Fused layers in training to be quantized: a convolution or linear layer, with the normalization and activation behind it."""
import rushlight as torch
from rushlight import nn
from rushlight.ao.nn import intrinsic, qat
from rushlight.nn import functional as F

__all__ = ["LinearReLU", "LinearBn1d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d",
           "ConvBnReLU3d", "update_bn_stats", "freeze_bn_stats"]

_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def _scaled(layer, shape):
    """The weight as normalization will scale it, rounded; and by how much, along the channels of results of that shape."""
    factor = layer.bn.weight / torch.sqrt(layer.bn.running_var + layer.bn.eps)
    rounded = layer.weight_fake_quant(layer.weight * factor.reshape([-1] + [1] * (layer.weight.ndim - 1)))
    return rounded, factor.reshape(shape)


class _BnStatistics:
    """Switches of a layer with normalization."""

    def freeze_bn_stats(self):
        """Normalize by the running statistics from now on."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def update_bn_stats(self):
        """Normalize by each batch's statistics again."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def train(self, mode=True):
        """In training, frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def reset_bn_parameters(self):
        """Starts the normalization anew, with random weights."""
        self.bn.reset_running_stats()
        nn.init.uniform_(self.bn.weight)
        nn.init.zeros_(self.bn.bias)

    def reset_running_stats(self):
        """Starts the running statistics anew."""
        self.bn.reset_running_stats()


class _ConvBnNd(_BnStatistics):
    """A convolution with normalization, whose rounded weight has the normalization in it."""

    _relu = False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=None, padding_mode="zeros", eps=1e-05, momentum=0.1,
                 freeze_bn=False, qconfig=None):
        self._conv.__init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = _NORMS[self._dims](out_channels, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        if bias:
            self.bias = nn.Parameter(torch.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self._enable_slow_path_for_better_numerical_stability = False
        self.reset_bn_parameters()
        if self.bias is not None:
            bound = 1 / nn.init._calculate_fan_in_and_fan_out(self.weight)[0] ** 0.5
            nn.init.uniform_(self.bias, -bound, bound)
        if self.training:
            (self.freeze_bn_stats if freeze_bn else self.update_bn_stats)()
        else:
            self.freeze_bn_stats()

    def forward(self, input):
        weight, factor = _scaled(self, [1, -1] + [1] * self._dims)
        zero = torch.zeros(self.out_channels, device=weight.device, dtype=input.dtype) if self.bias is None else torch.zeros_like(self.bias, dtype=input.dtype)
        y = self._conv_forward(input, weight, zero) / factor
        if self.bias is not None:
            y = y + self.bias.reshape([1, -1] + [1] * self._dims)
        y = self.bn(y)
        return F.relu(y) if self._relu else y

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in training of a fused float one."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not mod.qconfig:
            raise AssertionError("Input float module must have a valid qconfig")
        conv, bn = mod[0], mod[1]
        made = cls(conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups, conv.bias is not None,
                   conv.padding_mode, bn.eps, bn.momentum, False, mod.qconfig)
        made.weight, made.bias = conv.weight, conv.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made

    def to_float(self):
        """The fused float layer."""
        conv = self._conv(self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation, self.groups, self.bias is not None,
                          self.padding_mode)
        conv.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            conv.bias = nn.Parameter(self.bias.detach())
        weight, bias = nn.utils.fusion.fuse_conv_bn_weights(conv.weight, conv.bias, self.bn.running_mean, self.bn.running_var, self.bn.eps, self.bn.weight, self.bn.bias)
        conv.weight, conv.bias = weight, bias
        made = getattr(intrinsic, "ConvReLU%dd" % self._dims)(conv, nn.ReLU()) if self._relu else conv
        made.train(self.training)
        return made


class _ConvReLU:
    """A convolution with a rounded weight, and relu."""

    def forward(self, input):
        return F.relu(self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self):
        """The fused float layer."""
        made = getattr(intrinsic, type(self).__name__)(super().to_float(), nn.ReLU())
        made.train(self.training)
        return made


def _make():
    made = {}
    for n in (1, 2, 3):
        conv = getattr(nn, "Conv%dd" % n)
        for name, relu in (("ConvBn%dd" % n, False), ("ConvBnReLU%dd" % n, True)):
            made[name] = type(name, (_ConvBnNd, conv, intrinsic._FusedModule), {"__module__": __name__, "__doc__": _ConvBnNd.__doc__, "_dims": n, "_conv": conv, "_relu": relu,
                                                                               "_FLOAT_MODULE": getattr(intrinsic, name)})
        name = "ConvReLU%dd" % n
        made[name] = type(name, (_ConvReLU, getattr(qat, "Conv%dd" % n), intrinsic._FusedModule), {"__module__": __name__, "__doc__": _ConvReLU.__doc__})
    return made


globals().update(_make())


class LinearReLU(qat.Linear, intrinsic._FusedModule):
    """A linear layer with a rounded weight, and relu."""

    def forward(self, input):
        return F.relu(F.linear(input, self.weight_fake_quant(self.weight), self.bias))

    def to_float(self):
        """The fused float layer."""
        made = intrinsic.LinearReLU(super().to_float(), nn.ReLU())
        made.train(self.training)
        return made


class LinearBn1d(_BnStatistics, nn.Linear, intrinsic._FusedModule):
    """A linear layer with normalization, whose rounded weight has the normalization in it."""

    def __init__(self, in_features, out_features, bias=True, eps=1e-05, momentum=0.1, freeze_bn=False, qconfig=None):
        nn.Linear.__init__(self, in_features, out_features, bias)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = nn.BatchNorm1d(out_features, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        self.reset_bn_parameters()
        (self.freeze_bn_stats if freeze_bn or not self.training else self.update_bn_stats)()

    def forward(self, input):
        weight, factor = _scaled(self, [1, -1])
        zero = torch.zeros(self.out_features, device=weight.device, dtype=input.dtype)
        y = F.linear(input, weight, zero) / factor
        return self.bn(y + self.bias if self.bias is not None else y)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in training of a fused float one."""
        linear, bn = mod[0], mod[1]
        made = cls(linear.in_features, linear.out_features, linear.bias is not None, bn.eps, bn.momentum, False, mod.qconfig)
        made.weight, made.bias = linear.weight, linear.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made.bn, name, getattr(bn, name))
        return made


def update_bn_stats(mod):
    """For model.apply(): normalize by each batch's statistics."""
    if isinstance(mod, _BnStatistics):
        mod.update_bn_stats()


def freeze_bn_stats(mod):
    """For model.apply(): normalize by the running statistics."""
    if isinstance(mod, _BnStatistics):
        mod.freeze_bn_stats()
