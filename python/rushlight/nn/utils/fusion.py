"""Folding a batch normalisation in evaluation mode into the layer before it."""
import copy

import rushlight as torch

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _check_eval(layer, bn):
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _fold(w, b, mean, var, eps, gamma, beta, out_dim):
    """Weight and bias after `y -> gamma * (y - mean) / sqrt(var + eps) + beta`; w's outputs lie along out_dim."""
    kind = w.dtype if b is None else b.dtype
    b = torch.zeros_like(mean) if b is None else b
    gamma = torch.ones_like(mean) if gamma is None else gamma
    beta = torch.zeros_like(mean) if beta is None else beta
    scale = torch.rsqrt(var + eps)
    shape = [1] * w.dim()
    shape[out_dim] = -1
    weight = (w * (gamma * scale).reshape(shape)).to(dtype=w.dtype)
    bias = ((b - mean) * scale * gamma + beta).to(dtype=kind)
    return torch.nn.Parameter(weight, w.requires_grad), torch.nn.Parameter(bias, b.requires_grad)


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose=False):
    """Weight and bias of a convolution with the normalisation folded in.

    conv_w, conv_b: of the convolution; bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean, running variance, eps, weight and bias of the
    normalisation; transpose: of a transposed convolution.

    >>> w, one, zero = torch.ones(2, 1, 1), torch.ones(2), torch.zeros(2)
    >>> torch.nn.utils.fuse_conv_bn_weights(w, None, one, 4 * one, 0., one, zero)[1].detach()
    tensor([-0.5000, -0.5000])
    """
    return _fold(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_conv_bn_eval(conv, bn, transpose=False):
    """A convolution that does what `conv` and then `bn` do.

    conv, bn: both in evaluation mode; transpose: conv is a transposed one.

    >>> conv, bn = nn.Conv1d(3, 4, 2).eval(), nn.BatchNorm1d(4).eval()
    >>> x = torch.ones(1, 3, 5)
    >>> torch.allclose(torch.nn.utils.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), atol=1e-6)
    True
    """
    _check_eval(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps,
                                                    bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b):
    """Weight and bias of a linear layer with the normalisation folded in.

    linear_w, linear_b: of the layer; bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean, running variance, eps, weight and bias of the
    normalisation.

    >>> w, one, zero = torch.ones(2, 3), torch.ones(2), torch.zeros(2)
    >>> torch.nn.utils.fuse_linear_bn_weights(w, zero, one, 4 * one, 0., one, zero)[1].detach()
    tensor([-0.5000, -0.5000])
    """
    return _fold(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_linear_bn_eval(linear, bn):
    """A linear layer that does what `linear` and then `bn` do.

    linear, bn: both in evaluation mode.

    >>> linear, bn = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()
    >>> x = torch.ones(2, 3)
    >>> torch.allclose(torch.nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)), atol=1e-6)
    True
    """
    _check_eval(linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var,
                                                      bn.eps, bn.weight, bn.bias)
    return fused
