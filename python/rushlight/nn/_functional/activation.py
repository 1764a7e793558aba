"""Activations: each picks the operator, or its in-place form."""
import warnings

import rushlight as torch
from rushlight.nn._override import handle, overridden


def threshold(input, threshold, value, inplace=False):
    """x where x > threshold, else value."""
    if overridden(input):
        return handle(_threshold, (input,), input, threshold, value, inplace=inplace)
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)


_threshold = threshold


def relu(input, inplace=False):
    """max(0, x)."""
    if overridden(input):
        return handle(relu, (input,), input, inplace=inplace)
    return torch.relu_(input) if inplace else torch.relu(input)


def glu(input, dim=-1):
    """The first half along dim, gated by the sigmoid of the second."""
    if overridden(input):
        return handle(glu, (input,), input, dim=dim)
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return torch._C._nn.glu(input, dim)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x clipped to [min_val, max_val]."""
    if overridden(input):
        return handle(hardtanh, (input,), input, min_val=min_val, max_val=max_val, inplace=inplace)
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    op = torch._C._nn.hardtanh_ if inplace else torch._C._nn.hardtanh
    return op(input, min_val, max_val)


def relu6(input, inplace=False):
    """min(max(0, x), 6)."""
    if overridden(input):
        return handle(relu6, (input,), input, inplace=inplace)
    return torch._C._nn.relu6_(input) if inplace else torch._C._nn.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """x above 0, alpha * (exp(x) - 1) below."""
    if overridden(input):
        return handle(elu, (input,), input, alpha=alpha, inplace=inplace)
    return torch._C._nn.elu_(input, alpha) if inplace else torch._C._nn.elu(input, alpha)


def selu(input, inplace=False):
    """The self-normalising elu."""
    if overridden(input):
        return handle(selu, (input,), input, inplace=inplace)
    return torch.selu_(input) if inplace else torch.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    if overridden(input):
        return handle(celu, (input,), input, alpha=alpha, inplace=inplace)
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x above 0, negative_slope * x below."""
    if overridden(input):
        return handle(leaky_relu, (input,), input, negative_slope=negative_slope, inplace=inplace)
    op = torch._C._nn.leaky_relu_ if inplace else torch._C._nn.leaky_relu
    return op(input, negative_slope)


def rrelu(input, lower=0.125, upper=1.0 / 3, training=False, inplace=False):
    """A leaky relu with a random slope while training."""
    if overridden(input):
        return handle(rrelu, (input,), input, lower=lower, upper=upper, training=training, inplace=inplace)
    return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)


def hardsigmoid(input, inplace=False):
    """relu6(x + 3) / 6."""
    if overridden(input):
        return handle(hardsigmoid, (input,), input, inplace=inplace)
    return torch._C._nn.hardsigmoid_(input) if inplace else torch._C._nn.hardsigmoid(input)


def hardswish(input, inplace=False):
    """x * relu6(x + 3) / 6."""
    if overridden(input):
        return handle(hardswish, (input,), input, inplace=inplace)
    return torch._C._nn.hardswish_(input) if inplace else torch._C._nn.hardswish(input)


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    if overridden(input):
        return handle(silu, (input,), input, inplace=inplace)
    return torch._C._nn.silu_(input) if inplace else torch._C._nn.silu(input)


def mish(input, inplace=False):
    """x * tanh(softplus(x))."""
    if overridden(input):
        return handle(mish, (input,), input, inplace=inplace)
    return torch._C._nn.mish_(input) if inplace else torch._C._nn.mish(input)


def tanhshrink(input):
    """x - tanh(x)."""
    if overridden(input):
        return handle(tanhshrink, (input,), input)
    return input - input.tanh()


def softsign(input):
    """x / (1 + |x|)."""
    if overridden(input):
        return handle(softsign, (input,), input)
    return input / (input.abs() + 1)


def tanh(input):
    """tanh(x); the same as torch.tanh."""
    return input.tanh()


def sigmoid(input):
    """1 / (1 + exp(-x)); the same as torch.sigmoid."""
    return input.sigmoid()


def _get_softmax_dim(name, ndim, stacklevel):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
                  "argument.", stacklevel=stacklevel)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along dim."""
    if overridden(input):
        return handle(softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -x."""
    if overridden(input):
        return handle(softmin, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)), computed in one stable step."""
    if overridden(input):
        return handle(log_softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the relaxed categorical distribution; with `hard`, one-hot with the soft gradient."""
    if overridden(logits):
        return handle(gumbel_softmax, (logits,), logits, tau=tau, hard=hard, eps=eps, dim=dim)
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = torch.empty_like(logits, memory_format=torch.legacy_contiguous_format).exponential_()
    soft = ((logits - noise.log()) / tau).softmax(dim)
    if not hard:
        return soft
    winner = soft.max(dim, keepdim=True)[1]
    one_hot = torch.zeros_like(logits, memory_format=torch.legacy_contiguous_format).scatter_(dim, winner, 1.0)
    return one_hot - soft.detach() + soft
