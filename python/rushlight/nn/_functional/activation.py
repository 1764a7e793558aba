"""Activations: each picks the operator, or its in-place form."""
import warnings

import rushlight as torch
from rushlight.nn._override import handle, overridden


def threshold(input, threshold, value, inplace=False):
    """x where x > threshold, else value.

    threshold: what is not above it, value replaces.
    Shape: input may have any; the result has the same.

    >>> F.threshold(torch.tensor([0.5, 2.]), 1., 20.)
    tensor([20.,  2.])
    """
    if overridden(input):
        return handle(_threshold, (input,), input, threshold, value, inplace=inplace)
    return torch.threshold_(input, threshold, value) if inplace else torch.threshold(input, threshold, value)


_threshold = threshold


def relu(input, inplace=False):
    """max(0, x).

    Shape: input may have any; the result has the same.

    >>> F.relu(torch.tensor([-1., 0., 2.]))
    tensor([0., 0., 2.])
    """
    if overridden(input):
        return handle(relu, (input,), input, inplace=inplace)
    return torch.relu_(input) if inplace else torch.relu(input)


def glu(input, dim=-1):
    """The first half along dim, gated by the sigmoid of the second.

    dim: the dimension that is halved.
    Shapes: input (*, 2 n, *); result (*, n, *).

    >>> F.glu(torch.tensor([1., 2., 0., 0.]))
    tensor([0.5000, 1.0000])
    """
    if overridden(input):
        return handle(glu, (input,), input, dim=dim)
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return torch._C._nn.glu(input, dim)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x clipped to [min_val, max_val].

    min_val, max_val: the ends of the interval.
    Shape: input may have any; the result has the same.

    >>> F.hardtanh(torch.tensor([-3., 0.5, 2.]), -1., 1.)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if overridden(input):
        return handle(hardtanh, (input,), input, min_val=min_val, max_val=max_val, inplace=inplace)
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    op = torch._C._nn.hardtanh_ if inplace else torch._C._nn.hardtanh
    return op(input, min_val, max_val)


def relu6(input, inplace=False):
    """min(max(0, x), 6).

    Shape: input may have any; the result has the same.

    >>> F.relu6(torch.tensor([-1., 3., 8.]))
    tensor([0., 3., 6.])
    """
    if overridden(input):
        return handle(relu6, (input,), input, inplace=inplace)
    return torch._C._nn.relu6_(input) if inplace else torch._C._nn.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """x above 0, alpha * (exp(x) - 1) below.

    alpha: how deep it falls below 0.
    Shape: input may have any; the result has the same.

    >>> F.elu(torch.tensor([-1., 0., 2.]), alpha=0.5)
    tensor([-0.3161,  0.0000,  2.0000])
    """
    if overridden(input):
        return handle(elu, (input,), input, alpha=alpha, inplace=inplace)
    return torch._C._nn.elu_(input, alpha) if inplace else torch._C._nn.elu(input, alpha)


def selu(input, inplace=False):
    """The self-normalising elu.

    Shape: input may have any; the result has the same.

    >>> F.selu(torch.tensor([-1., 0., 2.]))
    tensor([-1.1113,  0.0000,  2.1014])
    """
    if overridden(input):
        return handle(selu, (input,), input, inplace=inplace)
    return torch.selu_(input) if inplace else torch.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    alpha: how deep it falls below 0.
    Shape: input may have any; the result has the same.

    >>> F.celu(torch.tensor([-1., 0., 2.]), alpha=0.5)
    tensor([-0.4323,  0.0000,  2.0000])
    """
    if overridden(input):
        return handle(celu, (input,), input, alpha=alpha, inplace=inplace)
    return torch.celu_(input, alpha) if inplace else torch.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x above 0, negative_slope * x below.

    negative_slope: the factor of negative elements.
    Shape: input may have any; the result has the same.

    >>> F.leaky_relu(torch.tensor([-10., 5.]), 0.1)
    tensor([-1.,  5.])
    """
    if overridden(input):
        return handle(leaky_relu, (input,), input, negative_slope=negative_slope, inplace=inplace)
    op = torch._C._nn.leaky_relu_ if inplace else torch._C._nn.leaky_relu
    return op(input, negative_slope)


def rrelu(input, lower=0.125, upper=1.0 / 3, training=False, inplace=False):
    """A leaky relu with a random slope while training.

    lower, upper: between them slopes are drawn; training: draw them, else their mean is used.
    Shape: input may have any; the result has the same.

    >>> F.rrelu(torch.tensor([-2., 1.]), 0.25, 0.75)
    tensor([-1.,  1.])
    """
    if overridden(input):
        return handle(rrelu, (input,), input, lower=lower, upper=upper, training=training, inplace=inplace)
    return torch.rrelu_(input, lower, upper, training) if inplace else torch.rrelu(input, lower, upper, training)


def hardsigmoid(input, inplace=False):
    """relu6(x + 3) / 6.

    Shape: input may have any; the result has the same.

    >>> F.hardsigmoid(torch.tensor([-4., 0., 1.]))
    tensor([0.0000, 0.5000, 0.6667])
    """
    if overridden(input):
        return handle(hardsigmoid, (input,), input, inplace=inplace)
    return torch._C._nn.hardsigmoid_(input) if inplace else torch._C._nn.hardsigmoid(input)


def hardswish(input, inplace=False):
    """x * relu6(x + 3) / 6.

    Shape: input may have any; the result has the same.

    >>> F.hardswish(torch.tensor([-4., 0., 2.]))
    tensor([-0.0000, 0.0000, 1.6667])
    """
    if overridden(input):
        return handle(hardswish, (input,), input, inplace=inplace)
    return torch._C._nn.hardswish_(input) if inplace else torch._C._nn.hardswish(input)


def silu(input, inplace=False):
    """x * sigmoid(x).

    Shape: input may have any; the result has the same.

    >>> F.silu(torch.tensor([-1., 0., 2.]))
    tensor([-0.2689,  0.0000,  1.7616])
    """
    if overridden(input):
        return handle(silu, (input,), input, inplace=inplace)
    return torch._C._nn.silu_(input) if inplace else torch._C._nn.silu(input)


def mish(input, inplace=False):
    """x * tanh(softplus(x)).

    Shape: input may have any; the result has the same.

    >>> F.mish(torch.tensor([-1., 0., 2.]))
    tensor([-0.3034,  0.0000,  1.9440])
    """
    if overridden(input):
        return handle(mish, (input,), input, inplace=inplace)
    return torch._C._nn.mish_(input) if inplace else torch._C._nn.mish(input)


def tanhshrink(input):
    """x - tanh(x).

    Shape: input may have any; the result has the same.

    >>> F.tanhshrink(torch.tensor([-1., 0., 1.]))
    tensor([-0.2384,  0.0000,  0.2384])
    """
    if overridden(input):
        return handle(tanhshrink, (input,), input)
    return input - input.tanh()


def softsign(input):
    """x / (1 + |x|).

    Shape: input may have any; the result has the same.

    >>> F.softsign(torch.tensor([-1., 0., 3.]))
    tensor([-0.5000,  0.0000,  0.7500])
    """
    if overridden(input):
        return handle(softsign, (input,), input)
    return input / (input.abs() + 1)


def tanh(input):
    """tanh(x); the same as torch.tanh.

    Shape: input may have any; the result has the same.

    >>> F.tanh(torch.tensor([-1., 0., 1.]))
    tensor([-0.7616,  0.0000,  0.7616])
    """
    return input.tanh()


def sigmoid(input):
    """1 / (1 + exp(-x)); the same as torch.sigmoid.

    Shape: input may have any; the result has the same.

    >>> F.sigmoid(torch.tensor([-2., 0., 2.]))
    tensor([0.1192, 0.5000, 0.8808])
    """
    return input.sigmoid()


def _get_softmax_dim(name, ndim, stacklevel):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
                  "argument.", stacklevel=stacklevel)
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) over its sum along dim.

    dim: along which the exponentials are summed; dtype: convert input to it first.
    Shape: input may have any; the result has the same.

    >>> F.softmax(torch.tensor([[0., 0.], [1., 3.]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.1192, 0.8808]])
    """
    if overridden(input):
        return handle(softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -x.

    dim: along which the exponentials are summed; dtype: convert input to it first.
    Shape: input may have any; the result has the same.

    >>> F.softmin(torch.tensor([[0., 0.], [1., 3.]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.8808, 0.1192]])
    """
    if overridden(input):
        return handle(softmin, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)), computed in one stable step.

    dim: along which the exponentials are summed; dtype: convert input to it first.
    Shape: input may have any; the result has the same.

    >>> F.log_softmax(torch.tensor([[0., 0.], [1., 3.]]), dim=1)
    tensor([[-0.6931, -0.6931],
            [-2.1269, -0.1269]])
    """
    if overridden(input):
        return handle(log_softmax, (input,), input, dim=dim, _stacklevel=_stacklevel, dtype=dtype)
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the relaxed categorical distribution; with `hard`, one-hot with the soft gradient.

    logits: log probabilities, not necessarily normalised; tau: the temperature; hard: give one-hot vectors, with the gradient of the soft ones;
    eps has no effect; dim: along which a sample sums to 1.
    Shape: any; the result has the same.

    >>> F.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(1)
    tensor([1., 1.])
    """
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
