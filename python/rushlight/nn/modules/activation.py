"""Activation layers, and multi-head attention.

The plain activations differ in little but a name and a few arguments: each says which function it calls
and what it remembers.
"""
import warnings

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.nn.init import constant_, xavier_normal_, xavier_uniform_
from rushlight.nn.modules.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, maybe_parameter

__all__ = ["Threshold", "ReLU", "RReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish",
           "Hardswish", "ELU", "CELU", "SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus",
           "Softshrink", "MultiheadAttention", "PReLU", "Softsign", "Tanhshrink", "Softmin", "Softmax", "Softmax2d",
           "LogSoftmax"]


def _only_if(inplace):
    return "inplace=True" if inplace else ""


def _and_if(inplace):
    return ", inplace=True" if inplace else ""


class Threshold(Module):
    """x where x > threshold, else value.

    threshold: what is not above it, value replaces.
    Shape: any; the result has the same.

    >>> nn.Threshold(1., 20.)(torch.tensor([0.5, 2.]))
    tensor([20.,  2.])
    """
    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold, value, inplace=False):
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input):
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}{_and_if(self.inplace)}"


class ReLU(Module):
    """max(0, x).

    Shape: any; the result has the same.

    >>> nn.ReLU()(torch.tensor([-1., 0., 2.]))
    tensor([0., 0., 2.])
    """
    __constants__ = ["inplace"]

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.relu(input, inplace=self.inplace)

    def extra_repr(self):
        return _only_if(self.inplace)


class RReLU(Module):
    """A leaky relu with a random slope while training.

    lower, upper: between them slopes are drawn while training; later their mean is used.
    Shape: any; the result has the same.

    >>> nn.RReLU(0.25, 0.75).eval()(torch.tensor([-2., 1.]))
    tensor([-1.,  1.])
    """
    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input):
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self):
        return f"lower={self.lower}, upper={self.upper}{_and_if(self.inplace)}"


class Hardtanh(Module):
    """x clipped to [min_val, max_val].

    min_val, max_val: the ends of the interval (min_value and max_value are their old names).
    Shape: any; the result has the same.

    >>> nn.Hardtanh(-1., 1.)(torch.tensor([-3., 0.5, 2.]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        super().__init__()
        if min_value is not None:
            warnings.warn("keyword argument `min_value` is deprecated and renamed to `min_val`", FutureWarning,
                          stacklevel=2)
            min_val = min_value
        if max_value is not None:
            warnings.warn("keyword argument `max_value` is deprecated and renamed to `max_val`", FutureWarning,
                          stacklevel=2)
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input):
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}{_and_if(self.inplace)}"


class ReLU6(Hardtanh):
    """min(max(0, x), 6).

    Shape: any; the result has the same.

    >>> nn.ReLU6()(torch.tensor([-1., 3., 8.]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return _only_if(self.inplace)


class _InplaceActivation(Module):
    """An activation whose only choice is to work in place."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return self._function(input, self.inplace)

    def extra_repr(self):
        return _only_if(self.inplace)


class _PlainActivation(Module):
    """An activation without any choice."""

    def forward(self, input):
        return self._function(input)


class Sigmoid(_PlainActivation):
    """1 / (1 + exp(-x)).

    Shape: any; the result has the same.

    >>> nn.Sigmoid()(torch.tensor([-2., 0., 2.]))
    tensor([0.1192, 0.5000, 0.8808])
    """
    _function = staticmethod(lambda input: torch.sigmoid(input))


class Tanh(_PlainActivation):
    """tanh(x).

    Shape: any; the result has the same.

    >>> nn.Tanh()(torch.tensor([-1., 0., 1.]))
    tensor([-0.7616,  0.0000,  0.7616])
    """
    _function = staticmethod(lambda input: torch.tanh(input))


class LogSigmoid(_PlainActivation):
    """log(sigmoid(x)).

    Shape: any; the result has the same.

    >>> nn.LogSigmoid()(torch.tensor([-2., 0., 2.]))
    tensor([-2.1269, -0.6931, -0.1269])
    """
    _function = staticmethod(lambda input: F.logsigmoid(input))


class Softsign(_PlainActivation):
    """x / (1 + |x|).

    Shape: any; the result has the same.

    >>> nn.Softsign()(torch.tensor([-1., 0., 3.]))
    tensor([-0.5000,  0.0000,  0.7500])
    """
    _function = staticmethod(F.softsign)


class Tanhshrink(_PlainActivation):
    """x - tanh(x).

    Shape: any; the result has the same.

    >>> nn.Tanhshrink()(torch.tensor([-1., 0., 1.]))
    tensor([-0.2384,  0.0000,  0.2384])
    """
    _function = staticmethod(F.tanhshrink)


class Hardsigmoid(_InplaceActivation):
    """relu6(x + 3) / 6.

    Shape: any; the result has the same.

    >>> nn.Hardsigmoid()(torch.tensor([-4., 0., 1.]))
    tensor([0.0000, 0.5000, 0.6667])
    """
    __constants__ = ["inplace"]
    _function = staticmethod(F.hardsigmoid)
    extra_repr = Module.extra_repr


class SiLU(_InplaceActivation):
    """x * sigmoid(x).

    Shape: any; the result has the same.

    >>> nn.SiLU()(torch.tensor([-1., 0., 2.]))
    tensor([-0.2689,  0.0000,  1.7616])
    """
    __constants__ = ["inplace"]
    _function = staticmethod(F.silu)


class Mish(_InplaceActivation):
    """x * tanh(softplus(x)).

    Shape: any; the result has the same.

    >>> nn.Mish()(torch.tensor([-1., 0., 2.]))
    tensor([-0.3034,  0.0000,  1.9440])
    """
    __constants__ = ["inplace"]
    _function = staticmethod(F.mish)


class Hardswish(_InplaceActivation):
    """x * relu6(x + 3) / 6.

    Shape: any; the result has the same.

    >>> nn.Hardswish()(torch.tensor([-4., 0., 2.]))
    tensor([-0.0000, 0.0000, 1.6667])
    """
    __constants__ = ["inplace"]
    _function = staticmethod(F.hardswish)
    extra_repr = Module.extra_repr


class SELU(_InplaceActivation):
    """The self-normalising elu.

    Shape: any; the result has the same.

    >>> nn.SELU()(torch.tensor([-1., 0., 2.]))
    tensor([-1.1113,  0.0000,  2.1014])
    """
    __constants__ = ["inplace"]
    _function = staticmethod(F.selu)


class _AlphaActivation(Module):
    """An activation with a scale for its negative side."""
    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input):
        return self._function(input, self.alpha, self.inplace)

    def extra_repr(self):
        return f"alpha={self.alpha}{_and_if(self.inplace)}"


class ELU(_AlphaActivation):
    """x above 0, alpha * (exp(x) - 1) below.

    alpha: how deep it falls below 0.
    Shape: any; the result has the same.

    >>> nn.ELU(alpha=0.5)(torch.tensor([-1., 0., 2.]))
    tensor([-0.3161,  0.0000,  2.0000])
    """
    _function = staticmethod(F.elu)


class CELU(_AlphaActivation):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    alpha: how deep it falls below 0.
    Shape: any; the result has the same.

    >>> nn.CELU(alpha=0.5)(torch.tensor([-1., 0., 2.]))
    tensor([-0.4323,  0.0000,  2.0000])
    """
    _function = staticmethod(F.celu)


class GLU(Module):
    """The first half along dim, gated by the sigmoid of the second.

    dim: the dimension that is halved.
    Shapes: input (*, 2 n, *); result (*, n, *).

    >>> nn.GLU()(torch.tensor([1., 2., 0., 0.]))
    tensor([0.5000, 1.0000])
    """
    __constants__ = ["dim"]

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.glu(input, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class GELU(Module):
    """x times the normal distribution's probability below x.

    approximate: "none", or "tanh" for a cheaper formula.
    Shape: any; the result has the same.

    >>> nn.GELU(approximate="tanh")(torch.tensor([-1., 0., 2.]))
    tensor([-0.1588,  0.0000,  1.9546])
    """
    __constants__ = ["approximate"]

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    __constants__ = ["lambd"]

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def extra_repr(self):
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """x outside [-lambd, lambd], 0 inside.

    lambd: half the interval's length.
    Shape: any; the result has the same.

    >>> nn.Hardshrink(lambd=0.5)(torch.tensor([-1., 0.3, 0.7]))
    tensor([-1.0000,  0.0000,  0.7000])
    """

    def forward(self, input):
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd.

    lambd: how far.
    Shape: any; the result has the same.

    >>> nn.Softshrink(lambd=0.5)(torch.tensor([-1., 0.25, 2.]))
    tensor([-0.5000,  0.0000,  1.5000])
    """

    def forward(self, input):
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """x above 0, negative_slope * x below.

    negative_slope: the factor of negative elements.
    Shape: any; the result has the same.

    >>> nn.LeakyReLU(0.1)(torch.tensor([-10., 5.]))
    tensor([-1.,  5.])
    """
    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope=1e-2, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self):
        return f"negative_slope={self.negative_slope}{_and_if(self.inplace)}"


class Softplus(Module):
    """log(1 + exp(beta x)) / beta.

    beta: how sharp the bend is; threshold: where beta x is above it, x itself is taken.
    Shape: any; the result has the same.

    >>> nn.Softplus(beta=2.)(torch.tensor([-1., 0., 30.]))
    tensor([ 0.0635,  0.3466, 30.0000])
    """
    __constants__ = ["beta", "threshold"]

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self):
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """A leaky relu with learned slopes.

    num_parameters: one slope for all, or one per channel; init: what slopes begin with. weight: the slopes (num_parameters).
    Shape: (N, num_parameters, *), or any with one slope; the result has the same.

    >>> nn.PReLU()(torch.tensor([-4., 1.]))
    tensor([-1.,  1.], grad_fn=<PreluKernelBackward0>)
    """
    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        self.num_parameters = num_parameters
        super().__init__()
        self.init = init
        self.weight = Parameter(torch.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """Set all slopes to `init`."""
        constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    """softmax and its relatives."""
    __constants__ = ["dim"]

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        if not hasattr(self, "dim"):
            self.dim = None

    def forward(self, input):
        return self._function(input, self.dim, _stacklevel=5)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmin(_AlongDim):
    """softmax of -x.

    dim: along which the exponentials are summed; it should be given.
    Shape: any; the result has the same.

    >>> nn.Softmin(dim=1)(torch.tensor([[0., 0.], [1., 3.]]))
    tensor([[0.5000, 0.5000],
            [0.8808, 0.1192]])
    """
    _function = staticmethod(F.softmin)


class Softmax(_AlongDim):
    """exp(x) over its sum along dim.

    dim: along which the exponentials are summed; it should be given.
    Shape: any; the result has the same.

    >>> nn.Softmax(dim=1)(torch.tensor([[0., 0.], [1., 3.]]))
    tensor([[0.5000, 0.5000],
            [0.1192, 0.8808]])
    """
    _function = staticmethod(F.softmax)


class LogSoftmax(_AlongDim):
    """log(softmax(x)).

    dim: along which the exponentials are summed; it should be given.
    Shape: any; the result has the same.

    >>> nn.LogSoftmax(dim=1)(torch.tensor([[0., 0.], [1., 3.]]))
    tensor([[-0.6931, -0.6931],
            [-2.1269, -0.1269]])
    """
    _function = staticmethod(F.log_softmax)


class Softmax2d(Module):
    """softmax over the channels of images.

    Shape: (N, C, H, W) or (C, H, W); the result has the same.

    >>> nn.Softmax2d()(torch.zeros(1, 4, 1, 2)).sum(1)
    tensor([[[1., 1.]]])
    """

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


class MultiheadAttention(Module):
    """Attention of `num_heads` heads over a sequence, with projections in and out.

    embed_dim: the size of query and result; num_heads: how many heads, a divisor of it; dropout: of the weights, while training; bias: of the
    projections; add_bias_kv, add_zero_attn: a learnt, or a zero, element is added to keys and values; kdim, vdim: sizes of key and value where
    they differ from embed_dim; batch_first: (N, L, E) instead of (L, N, E).
    Shapes: called with query (L, N, E), key (S, N, kdim) and value (S, N, vdim), or without N; key_padding_mask (N, S) and attn_mask (L, S) or
    (N num_heads, L, S), bool, say with True what is not looked at. Result (L, N, E) and the weights, a mean over heads, (N, L, S), or None with
    need_weights=False.

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.zeros(3, 5, 8)
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 5, 5]))
    """

    __constants__ = ["batch_first"]

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False,
                 kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError("embed_dim and num_heads must be greater than 0, got "
                             f"embed_dim={embed_dim} and num_heads={num_heads} instead")
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        packed = {"in_proj_weight": (3 * embed_dim, embed_dim)}
        separate = {name: (embed_dim, width) for name, width in (("q_proj_weight", embed_dim), ("k_proj_weight", self.kdim), ("v_proj_weight", self.vdim))}
        have, lack = (packed, separate) if self._qkv_same_embed_dim else (separate, packed)
        for name, shape in {**have, **lack}.items():
            maybe_parameter(self, name, name in have, shape, **made)
        maybe_parameter(self, "in_proj_bias", bias, 3 * embed_dim, **made)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **made)
        if add_bias_kv:
            self.bias_k = Parameter(torch.empty((1, 1, embed_dim), **made))
            self.bias_v = Parameter(torch.empty((1, 1, embed_dim), **made))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self):
        packed, separate = [self.in_proj_weight], [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        for weight in packed if self._qkv_same_embed_dim else separate:
            xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias) if self.in_proj_bias is not None else ():
            constant_(bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                xavier_normal_(bias)

    def __setstate__(self, state):
        # Written before version 1.1, when all projections were packed.
        if "_qkv_same_embed_dim" not in state:
            state["_qkv_same_embed_dim"] = True
        super().__setstate__(state)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False):
        if query.is_nested or key.is_nested or value.is_nested:
            return self._of_parts(query, key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights)
        batched = query.dim() == 3
        masks = [mask for mask in (key_padding_mask, attn_mask) if mask is not None]
        fused = (not need_weights and batched and masks and all(mask.dtype == torch.bool for mask in masks)
                 and not self._why_not_fused(query, key, value))
        key_padding_mask = F._canonical_mask(key_padding_mask, "key_padding_mask", F._none_or_dtype(attn_mask),
                                             "attn_mask", query.dtype)
        attn_mask = F._canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if self.batch_first and batched:
            # Equal inputs stay one tensor, so that their projection stays one product.
            if key is value:
                if query is key:
                    query = key = value = query.transpose(1, 0)
                else:
                    query, key = query.transpose(1, 0), key.transpose(1, 0)
                    value = key
            else:
                query, key, value = query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
        separate = {}
        if not self._qkv_same_embed_dim:
            separate = {"use_separate_proj_weight": True, "q_proj_weight": self.q_proj_weight,
                        "k_proj_weight": self.k_proj_weight, "v_proj_weight": self.v_proj_weight}
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights,
            attn_mask=attn_mask, average_attn_weights=average_attn_weights, is_causal=is_causal, **separate)
        if self.batch_first and batched:
            out = out.transpose(1, 0)
        return self._unseeing(out, key_padding_mask, attn_mask) if fused else out, weights

    def _why_not_fused(self, query, key, value):
        """Why PyTorch's one kernel for inference, which takes self-attention only, does not take this call; "" where it does."""
        return (f"input not batched; expected query.dim() of 3 but got {query.dim()}" if query.dim() != 3
                else "non-self attention was used (query, key, and value are not the same Tensor)" if not (query is key and key is value)
                else "batch_first was not True" if not self.batch_first
                else "training is enabled" if self.training
                else "in_proj_bias was None" if self.in_proj_bias is None
                else "self.bias_k was not None" if self.bias_k is not None
                else "add_zero_attn was enabled" if self.add_zero_attn
                else "_qkv_same_embed_dim was not True" if not self._qkv_same_embed_dim
                else "self.num_heads is not even" if self.num_heads % 2
                else "torch.backends.mha.set_fastpath_enabled(False) was called" if not torch.backends.mha.get_fastpath_enabled()
                else "autocast is enabled" if torch.is_autocast_enabled(query.device.type)
                else "some Tensor argument has_torch_function" if query.layout is not torch.strided
                else "grad is enabled and at least one of query or the input/output projection weights or biases requires_grad"
                if torch.is_grad_enabled() and (query.requires_grad or any(p.requires_grad for p in self.parameters())) else "")

    def _unseeing(self, out, key_padding_mask, attn_mask):
        """What sees nothing for its masks is NaN in that kernel, where attention that gradients flow through gives zeros."""
        hidden = attn_mask
        if hidden is not None and hidden.dim() == 3:
            hidden = hidden.view(-1, self.num_heads, *hidden.shape[1:])
        if key_padding_mask is not None:
            padding = key_padding_mask[:, None, None]
            hidden = padding if hidden is None else hidden + padding
        hidden = (hidden == -float("inf")).all(-1)
        return out.masked_fill((hidden.any(1) if hidden.dim() > 1 else hidden).unsqueeze(-1), float("nan"))

    def _of_parts(self, query, key, value, key_padding_mask, attn_mask, need_weights, average_attn_weights):
        """Self-attention of a nested tensor, for inference only: of the padded tensor, and what is padding is left out again."""
        reason = ("supplying a mask is not supported with NestedTensor input" if key_padding_mask is not None or attn_mask is not None
                  else self._why_not_fused(query, key, value))
        assert not reason, "MultiheadAttention does not support NestedTensor outside of its fast path. The fast path was not hit because " + reason
        lengths = query._nested_tensor_size()[:, 0]
        padded = query.to_padded_tensor(0.0)
        padding = torch.arange(padded.size(1), device=padded.device) >= lengths.to(padded.device).unsqueeze(1)
        out, weights = self(padded, padded, padded, padding, need_weights, None, average_attn_weights)
        if weights is not None:
            weights = weights.masked_fill(padding.unsqueeze(-1) if average_attn_weights else padding[:, None, :, None], 0)
        return torch._nested_from_padded(out, query._nested_tensor_size()), weights

    def merge_masks(self, attn_mask, key_padding_mask, query):
        """Both masks as one, and its kind: 0 attention, 1 padding, 2 both, None neither."""
        mask_type, merged = None, None
        if key_padding_mask is not None:
            mask_type, merged = 1, key_padding_mask
        if attn_mask is not None:
            batch, length, _ = query.shape
            mask_type = 2
            if attn_mask.dim() == 3:
                merged = attn_mask.view(batch, -1, length, length)
            else:
                merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
            if key_padding_mask is not None:
                merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, mask_type
