"""Layers in training to be quantized: their weights are rounded to the grid on the way."""
import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]


def _check(cls, mod):
    if type(mod) is not cls._FLOAT_MODULE:
        raise AssertionError("qat.%s.from_float only works for %s" % (cls.__name__, cls._FLOAT_MODULE.__name__))
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")


class Linear(nn.Linear):
    """A linear layer with a rounded weight."""

    _FLOAT_MODULE = nn.Linear

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input):
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in training of a float one, or of one with relu behind it."""
        from rushlight.ao.nn import intrinsic
        if type(mod) is intrinsic.LinearReLU:
            if not hasattr(mod[0], "qconfig"):
                mod[0].qconfig = mod.qconfig
            mod = mod[0]
        _check(Linear, mod)
        made = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=mod.qconfig)
        made.weight, made.bias = mod.weight, mod.bias
        return made

    def to_float(self):
        """The float layer with the same weight."""
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        made.train(self.training)
        return made


class _ConvNd:
    """Convolutions with a rounded weight."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", qconfig=None,
                 device=None, dtype=None):
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode)
        if not qconfig:
            raise AssertionError("qconfig must be provided for QAT module")
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input):
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in training of a float one, or of one with relu behind it."""
        if isinstance(mod, nn.Sequential):
            if not hasattr(mod[0], "qconfig"):
                mod[0].qconfig = mod.qconfig
            mod = mod[0]
        _check(cls, mod)
        made = cls(mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding, dilation=mod.dilation, groups=mod.groups,
                   bias=mod.bias is not None, padding_mode=mod.padding_mode, qconfig=mod.qconfig)
        made.weight, made.bias = mod.weight, mod.bias
        return made

    def to_float(self):
        """The float layer with the same weight."""
        made = self._FLOAT_MODULE(self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation, self.groups, self.bias is not None,
                                  self.padding_mode)
        made.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            made.bias = nn.Parameter(self.bias.detach())
        made.train(self.training)
        return made


Conv1d, Conv2d, Conv3d = (type("Conv%dd" % n, (_ConvNd, getattr(nn, "Conv%dd" % n)), {
    "__module__": __name__, "__doc__": "A convolution with a rounded weight.", "_FLOAT_MODULE": getattr(nn, "Conv%dd" % n)}) for n in (1, 2, 3))


class Embedding(nn.Embedding):
    """An embedding with a rounded weight."""

    _FLOAT_MODULE = nn.Embedding

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False, _weight=None,
                 device=None, dtype=None, qconfig=None):
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device=device, dtype=dtype)
        _check_rows(qconfig)
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input):
        return F.embedding(input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in training of a float one."""
        _check(cls, mod)
        return cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.sparse, mod.weight,
                   qconfig=mod.qconfig)

    def to_float(self):
        """The float layer with the same weight."""
        return nn.Embedding(self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse,
                            self.weight.detach())


class EmbeddingBag(nn.EmbeddingBag):
    """Sums of rows of a rounded weight."""

    _FLOAT_MODULE = nn.EmbeddingBag

    def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None,
                 include_last_offset=False, padding_idx=None, qconfig=None, device=None, dtype=None):
        super().__init__(num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight, include_last_offset, padding_idx,
                         device=device, dtype=dtype)
        _check_rows(qconfig)
        self.qconfig = qconfig
        self.weight_fake_quant = qconfig.weight(factory_kwargs={"device": device, "dtype": dtype})

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
                               per_sample_weights, self.include_last_offset, self.padding_idx)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The layer in training of a float one."""
        _check(cls, mod)
        return cls(mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight,
                   mod.include_last_offset, mod.padding_idx, qconfig=mod.qconfig)

    def to_float(self):
        """The float layer with the same weight."""
        return nn.EmbeddingBag(self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
                               self.weight.detach(), self.include_last_offset, self.padding_idx)


def _check_rows(qconfig):
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    if qconfig.weight().qscheme != torch.per_channel_affine_float_qparams:
        raise AssertionError("Embedding weights requires a qscheme of torch.per_channel_affine_float_qparams Got %s" % qconfig.weight().qscheme)
