"""Normalisation, dropout, embeddings and distances."""
import warnings

import rushlight as torch
from rushlight.nn._override import handle, overridden


def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability p and scale the rest by 1 / (1 - p).

    training: False returns input.
    Shape: any; the result has the same.

    >>> F.dropout(torch.ones(4), 0.5)
    tensor([0., 0., 2., 0.])
    """
    if overridden(input):
        return handle(dropout, (input,), input, p=p, training=training, inplace=inplace)
    _check_probability(p)
    return torch.dropout_(input, p, training) if inplace else torch.dropout(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of a selu activation.

    p: the probability that an element takes selu's lowest value; training: False returns input.
    Shape: any; the result has the same.

    >>> F.alpha_dropout(torch.ones(4))
    tensor([1., 1., 1., 1.])
    """
    if overridden(input):
        return handle(alpha_dropout, (input,), input, p=p, training=training, inplace=inplace)
    _check_probability(p)
    return torch.alpha_dropout_(input, p, training) if inplace else torch.alpha_dropout(input, p, training)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """`alpha_dropout` of whole channels.

    p: the probability that a channel takes selu's lowest value; training: False returns input.
    Shape: (N, C, *); the result has the same.

    >>> F.feature_alpha_dropout(torch.ones(1, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    if overridden(input):
        return handle(feature_alpha_dropout, (input,), input, p=p, training=training, inplace=inplace)
    _check_probability(p)
    op = torch.feature_alpha_dropout_ if inplace else torch.feature_alpha_dropout
    return op(input, p, training)


def _drop_channels(input, p, training, inplace, batched_dim=None):
    """Zero whole channels of (N, C, ...); an input that has not `batched_dim` dimensions lacks the N."""
    op = torch.feature_dropout_ if inplace else torch.feature_dropout
    if batched_dim is None or input.dim() == batched_dim:
        return op(input, p, training)
    batched = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    out = op(batched, p, training)
    return out.squeeze_(0) if inplace else out.squeeze(0)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, L) or (C, L).

    p: the probability that a channel becomes 0; the others are scaled by 1 / (1 - p). training: False returns input.
    Shape: (N, C, L) or (C, L); the result has the same.

    >>> F.dropout1d(torch.ones(1, 2, 10), p=1.).sum()
    tensor(0.)
    """
    if overridden(input):
        return handle(dropout1d, (input,), input, p=p, training=training, inplace=inplace)
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
                           "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a "
                           "channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).")
    return _drop_channels(input, p, training, inplace, 3)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, H, W).

    p: the probability that a channel becomes 0; the others are scaled by 1 / (1 - p). training: False returns input.
    Shape: (N, C, H, W) or (C, H, W); the result has the same.

    >>> F.dropout2d(torch.ones(1, 2, 10, 12), p=1.).sum()
    tensor(0.)
    """
    if overridden(input):
        return handle(dropout2d, (input,), input, p=p, training=training, inplace=inplace)
    _check_probability(p)
    if input.dim() not in (3, 4):
        warnings.warn(f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and will result "
                      "in an error in a future release. To retain the behavior and silence this warning, please use "
                      "dropout instead. Note that dropout2d exists to provide channel-wise dropout on inputs with 2 "
                      "spatial dimensions, a channel dimension, and an optional batch dimension (i.e. 3D or 4D "
                      "inputs).", stacklevel=2)
    elif input.dim() == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior "
                      "is desired - input is interpreted as shape (N, C, L), where C is the channel dim. This "
                      "behavior will change in a future release to interpret the input as one without a batch "
                      "dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise dropout behavior, please "
                      "switch to using dropout1d instead.", stacklevel=2)
    return _drop_channels(input, p, training, inplace)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zero whole channels of (N, C, D, H, W) or (C, D, H, W).

    p: the probability that a channel becomes 0; the others are scaled by 1 / (1 - p). training: False returns input.
    Shape: (N, C, D, H, W) or (C, D, H, W); the result has the same.

    >>> F.dropout3d(torch.ones(1, 2, 6, 8, 8), p=1.).sum()
    tensor(0.)
    """
    if overridden(input):
        return handle(dropout3d, (input,), input, p=p, training=training, inplace=inplace)
    _check_probability(p)
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and will result "
                      "in an error in a future release. To retain the behavior and silence this warning, please use "
                      "dropout instead. Note that dropout3d exists to provide channel-wise dropout on inputs with 3 "
                      "spatial dimensions, a channel dimension, and an optional batch dimension (i.e. 4D or 5D "
                      "inputs).", stacklevel=2)
    return _drop_channels(input, p, training, inplace, 5)


def _verify_batch_size(size):
    values = 1
    for place, extent in enumerate(size):
        if place != 1:
            values *= extent
    if values == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {size}")


def _verify_spatial_size(size):
    values = 1
    for extent in size[2:]:
        values *= extent
    if values == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {size}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalise every channel over batch and space.

    running_mean, running_var: what is normalised by, or, when training, what is updated with the share momentum of the batch's statistics;
    weight, bias: applied afterwards, or None; eps: added to the variance.
    Shapes: input (N, C, *), the four others (C); the result is like input.

    >>> F.batch_norm(torch.tensor([[1.], [3.]]), torch.zeros(1), torch.ones(1), training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if overridden(input, running_mean, running_var, weight, bias):
        return handle(batch_norm, (input, running_mean, running_var, weight, bias), input, running_mean, running_var,
                      weight=weight, bias=bias, training=training, momentum=momentum, eps=eps)
    if training:
        _verify_batch_size(input.size())
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
                            torch.backends.cudnn.enabled)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """Normalise every channel of every sample over space.

    use_input_stats: normalise by each sample's own statistics, else by running_mean and running_var, which momentum updates; weight, bias:
    applied afterwards, or None; eps: added to the variance.
    Shapes: input (N, C, *), the four others (C); the result is like input.

    >>> F.instance_norm(torch.tensor([[[1., 3.]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    if overridden(input, running_mean, running_var, weight, bias):
        return handle(instance_norm, (input, running_mean, running_var, weight, bias), input,
                      running_mean=running_mean, running_var=running_var, weight=weight, bias=bias,
                      use_input_stats=use_input_stats, momentum=momentum, eps=eps)
    if use_input_stats:
        _verify_spatial_size(input.size())
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps,
                               torch.backends.cudnn.enabled)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalise over the last dimensions.

    normalized_shape: the sizes of the last dimensions; weight, bias: applied afterwards, or None; eps: added to the variance.
    Shapes: input (*, *normalized_shape), weight and bias of normalized_shape; the result is like input.

    >>> F.layer_norm(torch.tensor([[1., 1., 3., 3.]]), (4,))
    tensor([[-1.0000, -1.0000,  1.0000,  1.0000]])
    """
    if overridden(input, weight, bias):
        return handle(layer_norm, (input, weight, bias), input, normalized_shape, weight=weight, bias=bias, eps=eps)
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, torch.backends.cudnn.enabled)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divide by the root mean square over the last dimensions.

    normalized_shape: the sizes of the last dimensions; weight: applied afterwards, or None; eps: added to the mean square, the dtype's epsilon
    by default.
    Shapes: input (*, *normalized_shape), weight of normalized_shape; the result is like input.

    >>> F.rms_norm(torch.tensor([[1., 7.]]), (2,))
    tensor([[0.2000, 1.4000]])
    """
    if overridden(input, weight):
        return handle(rms_norm, (input, weight), input, normalized_shape, weight=weight, eps=eps)
    return torch.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalise groups of channels of every sample.

    num_groups: how many groups, a divisor of C; weight, bias: applied afterwards, or None; eps: added to the variance.
    Shapes: input (N, C, *), weight and bias (C); the result is like input.

    >>> F.group_norm(torch.tensor([[1., 3., 10., 30.]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if overridden(input, weight, bias):
        return handle(group_norm, (input, weight, bias), input, num_groups, weight=weight, bias=bias, eps=eps)
    if input.dim() < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.dim()}")
    _verify_batch_size([input.size(0) * input.size(1) // num_groups, num_groups, *input.size()[2:]])
    return torch.group_norm(input, num_groups, weight, bias, eps, torch.backends.cudnn.enabled)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide by a power of the mean square over neighbouring channels.

    size: over how many channels the squares are averaged; alpha, beta, k: the divisor is (k + alpha mean) ** beta.
    Shape: input (N, C, *); the result has the same.

    >>> F.local_response_norm(torch.ones(1, 4, 5), 2).shape
    torch.Size([1, 4, 5])
    """
    if overridden(input):
        return handle(local_response_norm, (input,), input, size, alpha=alpha, beta=beta, k=k)
    dim = input.dim()
    if dim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {dim} dimensions)")
    if input.numel() == 0:
        return input
    # Channels become a spatial dimension, so that an average pool can run along them.
    squares = input.mul(input)
    if dim == 3:
        rows = torch._C._nn.pad(squares.unsqueeze(1), (0, 0, size // 2, (size - 1) // 2))
        mean = torch._C._nn.avg_pool2d(rows, (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.size()
        rows = squares.reshape(sizes[0], 1, sizes[1], sizes[2], -1)
        rows = torch._C._nn.pad(rows, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        mean = torch._C._nn.avg_pool3d(rows, (size, 1, 1), stride=1).squeeze(1).view(sizes)
    return input / mean.mul(alpha).add(k).pow(beta)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Divide by the p-norm along dim, which is at least eps.

    p: which norm; dim: along which; eps: the least norm that is divided by.
    Shape: input may have any; the result has the same.

    >>> F.normalize(torch.tensor([[3., 4.]]))
    tensor([[0.6000, 0.8000]])
    """
    if overridden(input, out):
        return handle(normalize, (input, out), input, p=p, dim=dim, eps=eps, out=out)
    length = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / length if out is None else torch.div(input, length, out=out)


def _no_grad_embedding_renorm_(weight, input, max_norm, norm_type):
    with torch.no_grad():
        torch.embedding_renorm_(weight, input, max_norm, norm_type)


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of `weight` by number.

    padding_idx: this row gets no gradient; max_norm, norm_type: rows that are read are first scaled down to this norm, in place;
    scale_grad_by_freq: divide gradients by how often a row occurs in the batch; sparse: the gradient of weight is a sparse tensor.
    Shapes: input (*), int64 or int32; weight (V, D); result (*, D).

    >>> F.embedding(torch.tensor([1, 1, 0]), torch.tensor([[1., 2.], [3., 4.]]))
    tensor([[3., 4.],
            [3., 4.],
            [1., 2.]])
    """
    if overridden(input, weight):
        return handle(embedding, (input, weight), input, weight, padding_idx=padding_idx, max_norm=max_norm,
                      norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    rows = weight.size(0) if weight.dim() else 0
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        input = input.contiguous()
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean",
                  sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of bags of rows of `weight`.

    mode: "mean", "sum" or "max"; include_last_offset: offsets ends with the length of input; per_sample_weights: factors, for "sum";
    padding_idx: this row gets no gradient and counts in no bag; max_norm, norm_type: rows that are read are first scaled down to this norm, in
    place; scale_grad_by_freq: divide gradients by how often a row occurs in the batch; sparse: the gradient of weight is a sparse tensor.
    Shapes: input (B, n), or (total) with offsets (B), where bags begin; weight (V, D), per_sample_weights like input; result (B, D).

    >>> F.embedding_bag(torch.tensor([0, 1, 1]), torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([0, 2]), mode="sum")
    tensor([[4., 6.],
            [3., 4.]])
    """
    if overridden(input, weight, offsets, per_sample_weights):
        return handle(embedding_bag, (input, weight, offsets, per_sample_weights), input, weight, offsets=offsets,
                      max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, mode=mode,
                      sparse=sparse, per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
                      padding_idx=padding_idx)
    if weight.dtype == torch.long and input.is_floating_point():
        warnings.warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, "
                      "...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`.", stacklevel=2)
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then "
                         f"it must have the same shape as the input ({list(input.shape)})")
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
                             "fixed length sequences. However, found offsets of type "
                             f"{type(offsets)}")
        offsets = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        input = input.reshape(-1)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    number = _BAG_MODES.get(mode)
    if number is None:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                                  f"supported for mode='sum' (got mode='{mode}'). Please open a feature request on "
                                  "GitHub.")
    return torch.embedding_bag(weight, input, offsets, scale_grad_by_freq, number, sparse, per_sample_weights,
                               include_last_offset, padding_idx)[0]
