"""Layers with quantized weights, inputs and results: what convert() makes of observed layers."""
import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.nn.modules.utils import _pair, _single, _triple
from rushlight.nn.quantized import FloatFunctional, FXFloatFunctional

__all__ = ["BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "DeQuantize", "Dropout", "ELU",
           "Embedding", "EmbeddingBag", "FloatFunctional", "FXFloatFunctional", "GroupNorm", "Hardswish", "InstanceNorm1d", "InstanceNorm2d",
           "InstanceNorm3d", "LayerNorm", "LeakyReLU", "Linear", "LinearPackedParams", "MaxPool2d", "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid", "Softmax",
           "WeightedQuantizedModule"]


def _observer_of_weight(mod):
    """The observer of a layer's weight, which has seen it: the layer's own in training, else a fresh one."""
    if hasattr(mod, "weight_fake_quant"):
        return mod.weight_fake_quant
    seen = mod.qconfig.weight()
    seen(mod.weight)
    return seen


def quantized_weight(weight, observer):
    """A float weight on the grid that its observer chose."""
    scale, zero_point = observer.calculate_qparams()
    if observer.qscheme in (torch.per_tensor_symmetric, torch.per_tensor_affine):
        return torch.quantize_per_tensor(weight.detach().float(), float(scale), int(zero_point), observer.dtype)
    axis = getattr(observer, "ch_axis", 0)
    if observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
        return torch.quantize_per_channel(weight.detach().float(), scale.to(torch.double), zero_point.to(torch.int64), axis, observer.dtype)
    if observer.qscheme == torch.per_channel_affine_float_qparams:
        return torch.quantize_per_channel(weight.detach().float(), scale.to(torch.float), zero_point.to(torch.float), axis, observer.dtype)
    raise ValueError("Unexpected qscheme " + str(observer.qscheme))


def _zero_weight(shape, channels):
    if channels is None:
        return torch._empty_affine_quantized(list(shape), scale=1, zero_point=0, dtype=torch.qint8).zero_()
    return torch._empty_per_channel_affine_quantized(list(shape), scales=torch.ones(channels), zero_points=torch.zeros(channels, dtype=torch.int64), axis=0,
                                                     dtype=torch.qint8)


class WeightedQuantizedModule(nn.Module):
    """A layer with a weight, which it keeps packed."""

    @classmethod
    def from_reference(cls, ref_module, output_scale, output_zero_point):
        raise NotImplementedError

    def __repr__(self):
        return "%s(%s)" % (self._get_name(), self.extra_repr())


class LinearPackedParams(nn.Module):
    """The weight and the bias of a linear layer; state_dicts have both as a pair."""

    _version = 3

    def __init__(self, dtype=torch.qint8):
        super().__init__()
        self.dtype = dtype
        if dtype is torch.qint8:
            self.set_weight_bias(_zero_weight((1, 1), None), None)
        else:
            self.set_weight_bias(torch.zeros([1, 1], dtype=torch.float), None)

    def set_weight_bias(self, weight, bias):
        """Packs them."""
        ops = torch.ops.quantized
        if self.dtype is torch.qint8:
            self._packed_params = ops.linear_prepack(weight, bias)
        elif self.dtype is torch.float16:
            self._packed_params = ops.linear_prepack_fp16(weight, bias)
        else:
            raise RuntimeError("Unsupported dtype on dynamic quantized linear!")

    def _weight_bias(self):
        ops = torch.ops.quantized
        return (ops.linear_unpack if self.dtype is torch.qint8 else ops.linear_unpack_fp16)(self._packed_params)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = tuple(self._weight_bias())

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        version = local_metadata.get("version")
        if version is None or version < 2:
            self.dtype = torch.qint8
        else:
            self.dtype = state_dict.pop(prefix + "dtype")
        if version is None or version < 3:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        else:
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __repr__(self):
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """A linear layer of quantized inputs, on the grid of scale and zero_point."""

    _version = 3
    _FLOAT_MODULE = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear)
    _operator = "linear"

    def __init__(self, in_features, out_features, bias_=True, dtype=torch.qint8):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        bias = torch.zeros(out_features, dtype=torch.float) if bias_ else None
        if dtype is torch.qint8:
            weight = _zero_weight((out_features, in_features), None)
        elif dtype is torch.float16:
            weight = torch.zeros([out_features, in_features], dtype=torch.float)
        else:
            raise RuntimeError("Unsupported dtype specified for quantized Linear!")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, bias)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self):
        return "in_features=%s, out_features=%s, scale=%s, zero_point=%s, qscheme=%s" % (self.in_features, self.out_features, self.scale, self.zero_point,
                                                                                        self.weight().qscheme())

    def forward(self, x):
        return getattr(torch.ops.quantized, self._operator)(x, self._packed_params._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"], destination[prefix + "zero_point"] = torch.tensor(self.scale), torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.scale, self.zero_point = float(state_dict.pop(prefix + "scale")), int(state_dict.pop(prefix + "zero_point"))
        version = local_metadata.get("version")
        if version is None or version == 1:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, in floats."""
        return self._weight_bias()[1]

    def set_weight_bias(self, w, b):
        """Packs a quantized weight and a bias."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def _float_part(cls, mod):
        """The layer to be quantized, and the observer of its results."""
        from rushlight.ao.nn import intrinsic
        post = getattr(mod, "activation_post_process", None)
        if hasattr(mod, "weight_fake_quant"):
            if type(mod) is intrinsic.qat.LinearBn1d:
                mod.weight, mod.bias = nn.utils.fusion.fuse_linear_bn_weights(mod.weight, mod.bias, mod.bn.running_mean, mod.bn.running_var, mod.bn.eps,
                                                                              mod.bn.weight, mod.bn.bias)
            return mod, post
        if isinstance(mod, intrinsic._FusedModule):
            post = getattr(mod[-1] if post is None else mod, "activation_post_process", post)
            mod = mod[0]
        return mod, post

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of an observed one."""
        layer, post = cls._float_part(mod)
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        if not hasattr(layer, "qconfig"):
            layer.qconfig = mod.qconfig
        observer = layer.weight_fake_quant if hasattr(layer, "weight_fake_quant") else layer.qconfig.weight()
        if not use_precomputed_fake_quant:
            observer(layer.weight)
        if observer.dtype != torch.qint8:
            raise AssertionError("Weight observer must have dtype torch.qint8")
        scale, zero_point = post.calculate_qparams()
        made = cls(*cls._sizes(layer), dtype=observer.dtype)
        made.set_weight_bias(quantized_weight(layer.weight, observer), layer.bias)
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made

    @classmethod
    def _sizes(cls, layer):
        return layer.in_features, layer.out_features

    @classmethod
    def from_reference(cls, ref_qlinear, output_scale, output_zero_point):
        """The quantized layer of a reference one."""
        made = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        made.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


# ---- convolutions

class _ConvNd(WeightedQuantizedModule):
    """A convolution of quantized inputs, on the grid of scale and zero_point."""

    _dims, _transposed, _operator = 2, False, ""
    _version = 1

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        super().__init__()
        spread = (None, _single, _pair, _triple)[self._dims]
        self._init(in_channels, out_channels, spread(kernel_size), spread(stride), spread(padding), spread(dilation), spread(0), groups, bias, padding_mode)

    def _init(self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode):
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels and out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding = in_channels, out_channels, kernel_size, stride, padding
        self.dilation, self.transposed, self.output_padding, self.groups = dilation, self._transposed, output_padding, groups
        if padding_mode not in ("zeros", "reflect") or (self._transposed and padding_mode != "zeros"):
            raise ValueError("'padding_mode' %s is not supported by quantized convolution" % padding_mode)
        self.padding_mode = padding_mode
        shape = (in_channels, out_channels // groups) if self._transposed else (out_channels, in_channels // groups)
        self.set_weight_bias(_zero_weight((*shape, *kernel_size), None), torch.zeros(out_channels) if bias else None)
        self.scale, self.zero_point = 1.0, 0

    def _get_name(self):
        return "Quantized" + type(self).__name__

    def set_weight_bias(self, w, b):
        """Packs a quantized weight and a bias."""
        padding = self.padding if self.padding_mode == "zeros" else (0,) * self._dims
        base = "conv%s%dd" % ("_transpose" if self._transposed else "", self._dims)
        more = (self.output_padding,) if self._transposed else ()
        self._packed_params = getattr(torch.ops.quantized, base + "_prepack")(w, b, self.stride, padding, *more, self.dilation, self.groups)

    def _weight_bias(self):
        return self._packed_params.unpack()

    def weight(self):
        """The quantized weight."""
        return self._weight_bias()[0]

    def bias(self):
        """The bias, in floats."""
        return self._weight_bias()[1]

    def extra_repr(self):
        s = "{in_channels}, {out_channels}, kernel_size={kernel_size}, stride={stride}, scale={scale}, zero_point={zero_point}"
        if self.padding != (0,) * len(self.padding):
            s += ", padding={padding}"
        if self.dilation != (1,) * len(self.dilation):
            s += ", dilation={dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            s += ", output_padding={output_padding}"
        if self.groups != 1:
            s += ", groups={groups}"
        if self.bias() is None:
            s += ", bias=False"
        return s.format(**self.__dict__)

    def forward(self, input):
        if input.ndim != self._dims + 2:
            raise ValueError("Input shape must be `%s`!" % {1: "(N, C, L)", 2: "(N, C, H, W)", 3: "(N, C, D, H, W)"}[self._dims])
        if self.padding_mode != "zeros":
            input = F.pad(input, [n for p in reversed(self.padding) for n in (p, p)], mode=self.padding_mode)
        name = self._operator or "conv%s%dd" % ("_transpose" if self._transposed else "", self._dims)
        return getattr(torch.ops.quantized, name)(input, self._packed_params, self.scale, self.zero_point)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        destination[prefix + "scale"], destination[prefix + "zero_point"] = torch.tensor(self.scale), torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self.scale, self.zero_point = float(state_dict.pop(prefix + "scale")), int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    @classmethod
    def _sizes(cls, m):
        more = (m.output_padding,) if cls._transposed else ()
        tail = (m.groups, m.bias is not None, *(() if not cls._transposed else (m.dilation,))) if cls._transposed else (m.dilation, m.groups, m.bias is not None)
        return (m.in_channels, m.out_channels, m.kernel_size, m.stride, m.padding, *more, *tail, m.padding_mode)

    @classmethod
    def _folded(cls, mod):
        """The layer to be quantized, with the normalization behind it in its weights, and the observer of its results."""
        from rushlight.ao.nn import intrinsic
        post = getattr(mod, "activation_post_process", None)
        if hasattr(mod, "weight_fake_quant"):
            if getattr(mod, "bn", None) is not None:
                mod.weight, mod.bias = nn.utils.fusion.fuse_conv_bn_weights(mod.weight, mod.bias, mod.bn.running_mean, mod.bn.running_var, mod.bn.eps,
                                                                            mod.bn.weight, mod.bn.bias, cls._transposed)
            return mod, mod.weight_fake_quant, post
        layer = mod
        if isinstance(mod, intrinsic._FusedModule):
            layer = mod[0]
            if not hasattr(layer, "qconfig"):
                layer.qconfig = mod.qconfig
        observer = getattr(layer, "qconfig", None) or mod.qconfig
        return layer, observer.weight(), post

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of an observed one."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined.")
        layer, observer, post = cls._folded(mod)
        if not use_precomputed_fake_quant or not hasattr(mod, "weight_fake_quant"):
            observer(layer.weight)
        if observer.dtype != torch.qint8:
            raise AssertionError("Weight observer must have a dtype of qint8")
        made = cls(*cls._sizes(layer))
        made.set_weight_bias(quantized_weight(layer.weight, observer), layer.bias)
        if post is not None and post.dtype != torch.float:
            scale, zero_point = post.calculate_qparams()
            made.scale, made.zero_point = float(scale), int(zero_point)
        return made

    @classmethod
    def from_reference(cls, ref_qconv, output_scale, output_zero_point):
        """The quantized layer of a reference one."""
        made = cls(*cls._sizes(ref_qconv))
        made.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        made.scale, made.zero_point = float(output_scale), int(output_zero_point)
        return made


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros",
                 device=None, dtype=None):
        WeightedQuantizedModule.__init__(self)
        spread = (None, _single, _pair, _triple)[self._dims]
        self._init(in_channels, out_channels, spread(kernel_size), spread(stride), spread(padding), spread(dilation), spread(output_padding), groups, bias, padding_mode)


def _layer(name, base, **members):
    members.setdefault("__doc__", base.__doc__)
    return type(name, (base,), {"__module__": __name__, **members})


Conv1d, Conv2d, Conv3d = (_layer("Conv%dd" % n, _ConvNd, _dims=n, _FLOAT_MODULE=getattr(nn, "Conv%dd" % n)) for n in (1, 2, 3))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = (_layer("ConvTranspose%dd" % n, _ConvTransposeNd, _dims=n, _FLOAT_MODULE=getattr(nn, "ConvTranspose%dd" % n))
                                                     for n in (1, 2, 3))


# ---- where a model is quantized and dequantized

class Quantize(nn.Module):
    """A float tensor put on a grid."""

    def __init__(self, scale, zero_point, dtype, factory_kwargs=None):
        super().__init__()
        self.register_buffer("scale", torch.tensor([scale]))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.long))
        self.dtype = dtype

    def forward(self, X):
        return torch.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """Of an observed QuantStub."""
        if not hasattr(mod, "activation_post_process"):
            raise AssertionError("Input module must have activation_post_process attribute")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(scale.float().item(), zero_point.long().item(), mod.activation_post_process.dtype)

    def extra_repr(self):
        return "scale=%s, zero_point=%s, dtype=%s" % (self.scale, self.zero_point, self.dtype)


class DeQuantize(nn.Module):
    """The numbers of a quantized tensor."""

    def forward(self, Xq):
        return Xq.dequantize()

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        """Of a DeQuantStub."""
        return DeQuantize()


# ---- functions with a grid for their results

def _grid_of(mod):
    scale, zero_point = mod.activation_post_process.calculate_qparams()
    return float(scale), int(zero_point)


class _OnGrid:
    """Layers that are a function: scale and zero_point are buffers beside what the float layer has."""

    def _put(self, scale, zero_point):
        self.register_buffer("scale", torch.tensor(float(scale), dtype=torch.float))
        self.register_buffer("zero_point", torch.tensor(int(zero_point), dtype=torch.long))

    def _grid(self):
        return float(self.scale), int(self.zero_point)

    def _get_name(self):
        return "Quantized" + type(self).__name__


class ReLU6(nn.ReLU):
    """Within 0 and 6."""

    def __init__(self, inplace=False):
        super().__init__(inplace)
        self.inplace = inplace

    def forward(self, input):
        return torch.ops.quantized.relu6(input, self.inplace)

    def _get_name(self):
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return ReLU6(mod.inplace)


class Hardswish(_OnGrid, nn.Hardswish):
    """hardswish of quantized inputs."""

    def __init__(self, scale, zero_point, device=None, dtype=None):
        super().__init__()
        self._put(scale, zero_point)

    def forward(self, input):
        return torch.ops.quantized.hardswish(input, *self._grid())

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*_grid_of(mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point))


class ELU(nn.ELU):
    """elu of quantized inputs."""

    def __init__(self, scale, zero_point, alpha=1.0):
        super().__init__(alpha)
        self.scale, self.zero_point = scale, zero_point

    def forward(self, input):
        return torch.ops.quantized.elu(input, self.scale, self.zero_point, self.alpha)

    def _get_name(self):
        return "QuantizedELU"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return ELU(*_grid_of(mod), mod.alpha)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point), mod.alpha)


class LeakyReLU(_OnGrid, nn.LeakyReLU):
    """leaky_relu of quantized inputs."""

    def __init__(self, scale, zero_point, negative_slope=1e-2, inplace=False, device=None, dtype=None):
        super().__init__(negative_slope, inplace)
        self._put(scale, zero_point)

    def forward(self, input):
        return torch.ops.quantized.leaky_relu(input, self.negative_slope, self.inplace, *self._grid())

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*_grid_of(mod), mod.negative_slope, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(float(scale), int(zero_point), mod.negative_slope, mod.inplace)


class Sigmoid(nn.Sigmoid):
    """sigmoid of quantized inputs."""

    def __init__(self, output_scale, output_zero_point):
        super().__init__()
        self.output_scale, self.output_zero_point = output_scale, output_zero_point

    def forward(self, input):
        return torch.ops.quantized.sigmoid(input, self.output_scale, self.output_zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(*_grid_of(mod))


class Softmax(nn.Softmax):
    """softmax of quantized inputs."""

    def __init__(self, dim=None, scale=1.0, zero_point=0):
        super().__init__()
        self.dim, self.scale, self.zero_point = dim, scale, zero_point

    def forward(self, input):
        dim = self.dim if self.dim is not None else F._get_softmax_dim("softmax", input.dim(), 5)
        return torch.ops.quantized.softmax(input, dim, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedSoftmax"

    @staticmethod
    def from_float(mod, use_precomputed_fake_quant=False):
        return Softmax(mod.dim, *_grid_of(mod))

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.dim, float(scale), int(zero_point))


class PReLU(nn.Module):
    """prelu of quantized inputs, with a quantized weight."""

    def __init__(self, output_scale, output_zero_point, num_parameters=1):
        super().__init__()
        self.num_parameters, self.scale, self.zero_point = num_parameters, output_scale, output_zero_point
        self.weight = torch.quantize_per_tensor(torch.randn(num_parameters, dtype=torch.float), scale=1.0, zero_point=0, dtype=torch.quint8)

    def set_weight(self, w):
        """Another quantized weight."""
        self.weight = w

    def forward(self, input):
        return torch.ops.quantized.prelu(input, self.weight, self.scale, self.zero_point)

    def _get_name(self):
        return "QuantizedPReLU"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        made = cls(*_grid_of(mod), mod.num_parameters)
        scale, zero_point = _observer_of_weight(mod).calculate_qparams()
        made.set_weight(torch.quantize_per_tensor(mod.weight.detach().float(), float(scale), int(zero_point), torch.quint8))
        return made


class Dropout(nn.Dropout):
    """Passes its input through."""

    def forward(self, input):
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.p, mod.inplace)


class MaxPool2d(nn.MaxPool2d):
    """Pooling, which keeps the grid."""


# ---- normalization

class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    _operator = "batch_norm2d"

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, True, True)
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("zero_point", torch.tensor(0))

    def _check_input_dim(self, input):
        wanted = {"2": 4, "3": 5}[type(self).__name__[-2]]
        if input.dim() != wanted:
            raise ValueError("Input shape must be `(N, C, %sH, W)`!" % ("D, " if wanted == 5 else ""))

    def forward(self, input):
        return getattr(torch.ops.quantized, self._operator)(input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, float(self.scale), int(self.zero_point))

    def _get_name(self):
        return "Quantized" + type(self).__name__

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of an observed layer, or of one with relu behind it."""
        post = mod.activation_post_process
        mod = mod[0] if isinstance(mod, nn.Sequential) else mod
        made = cls(mod.num_features, mod.eps)
        made.weight, made.bias, made.running_mean, made.running_var = mod.weight, mod.bias, mod.running_mean, mod.running_var
        made.scale, made.zero_point = post.calculate_qparams()
        return made

    @classmethod
    def from_reference(cls, bn, output_scale, output_zero_point):
        made = cls(bn.num_features, bn.eps)
        made.weight, made.bias, made.running_mean, made.running_var = bn.weight, bn.bias, bn.running_mean, bn.running_var
        made.scale, made.zero_point = torch.as_tensor(output_scale), torch.as_tensor(output_zero_point)
        return made


BatchNorm2d = _layer("BatchNorm2d", _BatchNorm, __doc__="Batch normalization of images.")
BatchNorm3d = _layer("BatchNorm3d", _BatchNorm, _operator="batch_norm3d", __doc__="Batch normalization of volumes.")


class LayerNorm(_OnGrid, nn.LayerNorm):
    """Layer normalization of quantized inputs."""

    def __init__(self, normalized_shape, weight, bias, scale, zero_point, eps=1e-5, elementwise_affine=True, device=None, dtype=None):
        super().__init__(normalized_shape, eps=eps, elementwise_affine=elementwise_affine)
        self.weight, self.bias = weight, bias
        self._put(scale, zero_point)

    def forward(self, input):
        return torch.ops.quantized.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps, *self._grid())

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.normalized_shape, mod.weight, mod.bias, *_grid_of(mod), mod.eps, mod.elementwise_affine)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.normalized_shape, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.elementwise_affine)


class GroupNorm(_OnGrid, nn.GroupNorm):
    """Group normalization of quantized inputs."""

    def __init__(self, num_groups, num_channels, weight, bias, scale, zero_point, eps=1e-5, affine=True, device=None, dtype=None):
        super().__init__(num_groups, num_channels, eps, affine)
        self.weight, self.bias = weight, bias
        self._put(scale, zero_point)

    def forward(self, input):
        return torch.ops.quantized.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, *self._grid())

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.num_groups, mod.num_channels, mod.weight, mod.bias, *_grid_of(mod), mod.eps, mod.affine)


class _InstanceNorm(_OnGrid, nn.modules.instancenorm._InstanceNorm):
    def __init__(self, num_features, weight, bias, scale, zero_point, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.weight, self.bias = weight, bias
        self._put(scale, zero_point)

    def forward(self, input):
        return torch.ops.quantized.instance_norm(input, self.weight, self.bias, self.eps, *self._grid())

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        return cls(mod.num_features, mod.weight, mod.bias, *_grid_of(mod), mod.eps, mod.affine)

    @classmethod
    def from_reference(cls, mod, scale, zero_point):
        return cls(mod.num_features, mod.weight, mod.bias, float(scale), int(zero_point), mod.eps, mod.affine)


InstanceNorm1d, InstanceNorm2d, InstanceNorm3d = (_layer("InstanceNorm%dd" % n, _InstanceNorm, __doc__="Instance normalization of quantized inputs.") for n in (1, 2, 3))


# ---- embeddings

class EmbeddingPackedParams(nn.Module):
    """The weight of an embedding."""

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, dtype=torch.quint8):
        super().__init__()
        if dtype is not torch.quint8:
            raise NotImplementedError("Unsupported dtype on quantized embedding! Supports quint8.")
        self.dtype = dtype
        weight = torch._empty_per_channel_affine_quantized([num_embeddings, embedding_dim], scales=torch.ones(num_embeddings, dtype=torch.float),
                                                           zero_points=torch.zeros(num_embeddings, dtype=torch.float), axis=0, dtype=dtype)
        self.set_weight(weight)

    def set_weight(self, weight):
        """Packs it."""
        self._packed_weight = torch.ops.quantized.embedding_bag_prepack(weight)

    def _weight(self):
        return torch.ops.quantized.embedding_bag_unpack(self._packed_weight)

    def forward(self, x):
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"], destination[prefix + "_packed_weight"] = self.dtype, self._weight()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def __repr__(self):
        return repr(self._weight())


class Embedding(WeightedQuantizedModule):
    """Rows of a quantized matrix, as numbers."""

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False, _weight=None,
                 dtype=torch.quint8):
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self._packed_params.set_weight(_weight)

    def forward(self, indices):
        return torch.ops.quantized.embedding_byte(self._packed_params._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def extra_repr(self):
        return "num_embeddings=%s, embedding_dim=%s, dtype=%s, qscheme=%s" % (self.num_embeddings, self.embedding_dim, self._packed_params.dtype, self.weight().qscheme())

    def set_weight(self, w):
        """Packs another weight."""
        self._packed_params.set_weight(w)

    def weight(self):
        """The quantized weight."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The quantized layer of a float one, or of one that was trained to be quantized."""
        from rushlight.ao.quantization.qconfig import float_qparams_weight_only_qconfig
        if hasattr(mod, "weight_fake_quant"):
            observer = mod.weight_fake_quant
        else:
            config = getattr(mod, "qconfig", None)
            observer = (config.weight if config is not None and config.weight is not None else float_qparams_weight_only_qconfig.weight)()
        if observer.qscheme != torch.per_channel_affine_float_qparams:
            raise AssertionError("Embedding quantization is only supported with float_qparams_weight_only_qconfig.")
        observer(mod.weight)
        made = cls(mod.num_embeddings, mod.embedding_dim)
        made.set_weight(quantized_weight(mod.weight, observer))
        return cls._more(made, mod)

    @classmethod
    def _more(cls, made, mod):
        return made

    @classmethod
    def from_reference(cls, ref_embedding):
        return cls(ref_embedding.num_embeddings, ref_embedding.embedding_dim, _weight=ref_embedding.get_quantized_weight())


class EmbeddingBag(Embedding):
    """Sums of rows of a quantized matrix."""

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="sum", sparse=False, _weight=None,
                 include_last_offset=False, dtype=torch.quint8):
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.pruned_weights, self.include_last_offset = mode, False, include_last_offset

    def forward(self, indices, offsets=None, per_sample_weights=None, compressed_indices_mapping=None):
        return torch.ops.quantized.embedding_bag_byte(self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights, per_sample_weights,
                                                      compressed_indices_mapping, self.include_last_offset)

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def _more(cls, made, mod):
        made.mode, made.include_last_offset = mod.mode, mod.include_last_offset
        return made


# ---- arithmetic as a module

class QFunctional(nn.Module):
    """Arithmetic of quantized tensors by name, on the grid of scale and zero_point."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = nn.Identity()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"], destination[prefix + "zero_point"] = torch.tensor(self.scale), torch.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.scale, self.zero_point = float(state_dict.pop(prefix + "scale")), int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return "scale=%s, zero_point=%s" % (self.scale, self.zero_point)

    def forward(self, x):
        raise RuntimeError("Functional is not intended to use the forward. Please use the underlying operation")

    def add(self, x, y):
        """x + y."""
        return self.activation_post_process(torch.ops.quantized.add(x, y, self.scale, self.zero_point))

    def add_scalar(self, x, y):
        """x + a number."""
        return torch.ops.quantized.add_scalar(x, y)

    def mul(self, x, y):
        """x * y."""
        return self.activation_post_process(torch.ops.quantized.mul(x, y, self.scale, self.zero_point))

    def mul_scalar(self, x, y):
        """x * a number."""
        return torch.ops.quantized.mul_scalar(x, y)

    def cat(self, x, dim=0):
        """Tensors joined along dim."""
        return self.activation_post_process(torch.ops.quantized.cat(x, scale=self.scale, zero_point=self.zero_point, dim=dim))

    def add_relu(self, x, y):
        """relu(x + y)."""
        return self.activation_post_process(torch.ops.quantized.add_relu(x, y, self.scale, self.zero_point))

    def matmul(self, x, y):
        """The matrix product."""
        return self.activation_post_process(torch.ops.quantized.matmul(x, y, self.scale, self.zero_point))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of an observed FloatFunctional."""
        if type(mod) is not FloatFunctional:
            raise AssertionError("QFunctional.from_float expects an instance of FloatFunctional")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made
