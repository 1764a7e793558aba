"""Filling weights: every function draws in the order PyTorch does, so a seed gives the same weights.

generator: the source of random numbers, torch's own by default.
"""
import math
import warnings

import rushlight as torch


class _unrecorded:
    """no_grad that also holds in forward mode, where parameters may be made, too."""

    def __enter__(self):
        self.was = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)

    def __exit__(self, *what):
        torch._C._set_grad_enabled(self.was)


def _no_grad_uniform_(tensor, a, b, generator=None):
    with _unrecorded():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    with _unrecorded():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may "
                      "be incorrect.", stacklevel=2)

    def below(x):
        return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0

    share = below((b - mean) / std) - below((a - mean) / std)
    nearest = min(max(mean, a), b)

    def propose():
        """Fresh values for the whole tensor, and which of them may not stay."""
        values = torch.empty_like(tensor)
        if share > 0.3:
            values.normal_(mean, std, generator=generator)
            return values, (values < a) | (values > b)
        # Few normal values would fall inside: uniform ones, kept with the probability of the density.
        values.uniform_(a, b, generator=generator)
        height = torch.empty_like(tensor).uniform_(generator=generator)
        density = (((nearest - mean) / std) ** 2 - ((values - mean) / std) ** 2) / 2
        return values, height.log() > density

    with _unrecorded():
        values, wrong = propose()
        tensor.copy_(values)
        while wrong.any():
            values, again = propose()
            tensor.copy_(torch.where(wrong, values, tensor))
            wrong = wrong & again
    return tensor


def _no_grad_fill_(tensor, val):
    with _unrecorded():
        return tensor.fill_(val)


def _no_grad_zero_(tensor):
    with _unrecorded():
        return tensor.zero_()


def _asked(function, tensor, **kwargs):
    """Let a subclass of Tensor take over; None when it does not want to."""
    from rushlight.nn._override import handle, overridden
    return handle(function, (tensor,), tensor=tensor, **kwargs) if overridden(tensor) else None


_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity, param=None):
    """The factor by which a nonlinearity wants its weights larger.

    nonlinearity: "linear", "conv2d", ..., "sigmoid", "tanh", "relu", "leaky_relu" or "selu"; param: leaky_relu's slope, 0.01 by default.

    >>> nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                        "conv_transpose3d", "sigmoid"):
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope ** 2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform between a and b.

    tensor: is filled in place and returned.

    >>> nn.init.uniform_(torch.empty(3), -1, 1)
    tensor([-0.0075,  0.5364, -0.8230])
    """
    answer = _asked(uniform_, tensor, a=a, b=b, generator=generator)
    return answer if answer is not None else _no_grad_uniform_(tensor, a, b, generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal with this mean and standard deviation.

    tensor: is filled in place and returned; mean, std: of the distribution.

    >>> nn.init.normal_(torch.empty(3), std=0.02)
    tensor([ 0.0308, -0.0059, -0.0436])
    """
    answer = _asked(normal_, tensor, mean=mean, std=std, generator=generator)
    return answer if answer is not None else _no_grad_normal_(tensor, mean, std, generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, cut off at a and b.

    tensor: is filled in place and returned; mean, std: of the distribution before it is cut off.

    >>> nn.init.trunc_normal_(torch.empty(100), std=0.02).abs().max() <= 2
    tensor(True)
    """
    return _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=generator)


def constant_(tensor, val):
    """One value everywhere.

    tensor: is filled in place and returned; val: the value.

    >>> nn.init.constant_(torch.empty(2), 0.3)
    tensor([0.3000, 0.3000])
    """
    answer = _asked(constant_, tensor, val=val)
    return answer if answer is not None else _no_grad_fill_(tensor, val)


def ones_(tensor):
    """One everywhere.

    tensor: is filled in place and returned.

    >>> nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor):
    """Zero everywhere.

    tensor: is filled in place and returned.

    >>> nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    return _no_grad_zero_(tensor)


def eye_(tensor):
    """The identity matrix.

    tensor: of two dimensions, is filled in place and returned.

    >>> nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with _unrecorded():
        torch.eye(*tensor.shape, out=tensor, requires_grad=tensor.requires_grad)
    return tensor


def dirac_(tensor, groups=1):
    """The convolution that changes nothing, for as many channels as possible.

    tensor: of three to five dimensions, (out, in, *), is filled in place and returned; groups: do so for each group of output channels.

    >>> nn.init.dirac_(torch.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    rank = tensor.ndimension()
    if rank not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    middle = tuple(extent // 2 for extent in sizes[2:])
    with _unrecorded():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, sizes[1])):
                tensor[(group * per_group + channel, channel) + middle] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = 1
    for extent in tensor.shape[2:]:
        field *= extent
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    valid = ["fan_in", "fan_out"]
    if mode not in valid:
        raise ValueError(f"Mode {mode} not supported, please use one of {valid}")
    return _calculate_fan_in_and_fan_out(tensor)[valid.index(mode)]


def _xavier_std(tensor, gain):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Uniform with a variance between what forward and backward want.

    tensor: (out, in, *), is filled in place and returned; gain: a factor, see calculate_gain.

    >>> nn.init.xavier_uniform_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normal with a variance between what forward and backward want.

    tensor: (out, in, *), is filled in place and returned; gain: a factor, see calculate_gain.

    >>> nn.init.xavier_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return _no_grad_normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _nothing_to_fill(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Uniform with the variance that keeps a relu network's signal.

    tensor: (out, in, *), is filled in place and returned; a: the slope, when nonlinearity is "leaky_relu"; mode: "fan_in" keeps the signal's
    variance, "fan_out" the gradient's.

    >>> nn.init.kaiming_uniform_(torch.empty(3, 5), nonlinearity="relu").shape
    torch.Size([3, 5])
    """
    answer = _asked(kaiming_uniform_, tensor, a=a, mode=mode, nonlinearity=nonlinearity, generator=generator)
    if answer is not None:
        return answer
    if _nothing_to_fill(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    with _unrecorded():
        return tensor.uniform_(-bound, bound, generator=generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normal with the variance that keeps a relu network's signal.

    tensor: (out, in, *), is filled in place and returned; a: the slope, when nonlinearity is "leaky_relu"; mode: "fan_in" keeps the signal's
    variance, "fan_out" the gradient's.

    >>> nn.init.kaiming_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    if _nothing_to_fill(tensor):
        return tensor
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    with _unrecorded():
        return tensor.normal_(0, std, generator=generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A matrix with orthonormal rows or columns, times gain.

    tensor: of two dimensions or more, seen as (size 0, the rest), is filled in place and returned; gain: a factor.

    >>> nn.init.orthogonal_(torch.empty(1, 1), gain=2).abs()
    tensor([[2.]])
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    if rows < cols:
        flat.t_()
    q, r = torch.linalg.qr(flat)
    # The signs of R's diagonal make the distribution uniform.
    q *= torch.diag(r, 0).sign()
    if rows < cols:
        q.t_()
    with _unrecorded():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal, with a share of every column set to zero.

    tensor: of two dimensions, is filled in place and returned; sparsity: the share of zeros; std: of the others.

    >>> nn.init.sparse_(torch.empty(10, 2), sparsity=0.3).count_nonzero(0)
    tensor([7, 7])
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = int(math.ceil(sparsity * rows))
    with _unrecorded():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[torch.randperm(rows)[:zeros], col] = 0
    return tensor


def _make_deprecate(meth):
    new_name = meth.__name__
    old_name = new_name[:-1]

    def deprecated_init(*args, **kwargs):
        warnings.warn(f"`nn.init.{old_name}` is now deprecated in favor of `nn.init.{new_name}`.", FutureWarning,
                      stacklevel=2)
        return meth(*args, **kwargs)

    deprecated_init.__name__ = old_name
    deprecated_init.__doc__ = f"The old name of `{new_name}`."
    return deprecated_init


uniform, normal, constant, eye, dirac, xavier_uniform, xavier_normal, kaiming_uniform, kaiming_normal, orthogonal, sparse = map(_make_deprecate, (
    uniform_, normal_, constant_, eye_, dirac_, xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_, orthogonal_, sparse_))
