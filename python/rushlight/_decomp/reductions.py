"""Rules of sums, norms and normalizations, and their derivatives."""
import math

import rushlight as torch

from . import rule
from .elementwise import number, pick, real, wide
from .shapes import flat

aten = torch.ops.aten


def dims_of(x, dim):
    return list(range(x.dim())) if dim is None or dim == [] else [d % x.dim() if x.dim() else 0 for d in ([dim] if isinstance(dim, int) else dim)]


# ---- sums

rule("sum")(lambda self, *, dtype=None: aten.sum.dim_IntList(self, [], **({"dtype": dtype} if dtype else {})))


@rule("all")
def all_(self):
    return _boolean(aten.any.dims(self.logical_not()).logical_not(), self)


@rule("all.dim")
def all_dim(self, dim, keepdim=False):
    return _boolean(aten.any.dim(self.logical_not(), dim, *([True] if keepdim else [])).logical_not(), self)


@rule("all.dims")
def all_dims(self, dim=None, keepdim=False):
    return _boolean(aten.any.dims(self.logical_not(), dim, *([True] if keepdim else [])).logical_not(), self)


def _boolean(out, x):
    return out.to(torch.uint8) if x.dtype == torch.uint8 else out


@rule("aminmax")
def aminmax(self, *, dim=None, keepdim=False):
    dims = [] if dim is None else [dim]
    return aten.amin.default(self, *([dims, keepdim] if dims else [])), aten.amax.default(self, *([dims, keepdim] if dims else []))


rule("count_nonzero")(lambda self, dim=None: aten.sum.dim_IntList(self != 0, None if dim is None else [dim]))
rule("count_nonzero.dim_IntList")(lambda self, dim: aten.sum.dim_IntList(self != 0, list(dim) or None))


@rule("nansum")
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    x = pick(self.isnan(), 0, self)
    return aten.sum.dim_IntList(x, dim, *([True] if keepdim else []), **({"dtype": dtype} if dtype else {}))


@rule("logsumexp", "special_logsumexp")
@real
def logsumexp(self, dim, keepdim=False):
    if not self.numel():
        return NotImplemented
    top = self.amax(dim, True)
    top = pick(top.abs() == math.inf, 0.0, top)
    below = top if keepdim else aten.squeeze.dims(top, dims_of(self, dim))
    return aten.sum.dim_IntList((self - top).exp(), dim, *([True] if keepdim else [])).log() + below


@rule("std.correction")
@wide
def std(self, dim=None, *, correction=None, keepdim=False):
    return aten.var.correction(self, dim, correction=1.0 if correction is None else float(correction), keepdim=keepdim).sqrt()


@rule("std_mean.correction")
@wide
def std_mean(self, dim=None, *, correction=None, keepdim=False):
    var, mean = aten.var_mean.correction(self, dim, correction=1.0 if correction is None else float(correction), keepdim=keepdim)
    return var.sqrt(), mean


@rule("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def norm(self, p=2, dim=None, keepdim=False, *, dtype=None):
    p = 2 if p is None else p
    more = {"dtype": dtype} if dtype else {}
    if not dim and not keepdim:
        return aten.linalg_vector_norm.default(self, *([p] if p != 2 else []), **more)
    return aten.linalg_vector_norm.default(self, p, list(dim or []) or None, *([True] if keepdim else []), **more)


@rule("renorm")
@wide
def renorm(self, p, dim, maxnorm):
    dims = [d for d in range(self.dim()) if d != dim % self.dim()]
    size = aten.linalg_vector_norm.default(self, p, dims, True)
    return self * pick(size > maxnorm, (size + 1e-7).reciprocal() * maxnorm, 1.0)


def _swapped(x, a, b):
    order = list(range(x.dim()))
    order[a], order[b] = order[b], order[a]
    return aten.permute.default(x, order)


def _quantile(self, q, dim, keepdim, interpolation, ignore_nan):
    """The value at place q (n - 1) of the n that are sorted, between two neighbours where that is no whole number."""
    q = q if isinstance(q, torch.Tensor) else number(q, self)
    if not self.numel() or q.dim() > 1 or q.dtype != self.dtype:
        return NotImplemented
    if dim is None or not self.dim():
        rest, values = [1] * self.dim() if keepdim else [], flat(self, [self.numel()])
    else:
        dim = dim % self.dim()
        rest = [1 if d == dim else n for d, n in enumerate(self.shape) if d != dim or keepdim]
        values = _swapped(aten.unsqueeze.default(self, -1), dim, self.dim())
    n = values.shape[-1]
    values = flat(aten.sort.default(values)[0], rest + [n])
    if ignore_nan:
        place = q * aten.sub.Scalar(values.isnan().logical_not().sum([-1], True), 1)
        place = pick(place < 0, 0.0, place)
    else:
        place, unknown = torch.broadcast_tensors(aten.mul.Scalar(q, n - 1), aten.any.dim(values.isnan(), -1, True))
        place = pick(unknown, n - 1.0, place)
    place = {"lower": torch.floor, "higher": torch.ceil, "nearest": torch.round}.get(interpolation, lambda x: x)(place)
    below = place.to(torch.int64)
    out = values.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        share = torch.full_like(place, 0.5) if interpolation == "midpoint" else place - below
        out = torch.lerp(out, values.gather(-1, place.ceil().to(torch.int64)), share)
    out = out if not q.dim() else _swapped(aten.unsqueeze.default(out, 0), 0, out.dim())
    return aten.squeeze.dims(out, [-1])


rule("quantile", "quantile.scalar")(lambda self, q, dim=None, keepdim=False, *, interpolation="linear": _quantile(self, q, dim, keepdim, interpolation, False))
rule("nanquantile", "nanquantile.scalar")(lambda self, q, dim=None, keepdim=False, *, interpolation="linear": _quantile(self, q, dim, keepdim, interpolation, True))


@rule("mean", table="asked")
@wide
def mean(self, *, dtype=None):
    return aten.sum.default(self if dtype is None else self.to(dtype)) / self.numel()


# ---- softmax

@rule("_softmax", table="asked")
def softmax(self, dim, half_to_float):
    x = self.to(torch.float32) if self.dtype in (torch.float16, torch.bfloat16) else self
    e = (x - x.amax([dim], True)).exp() if x.numel() else x.exp()
    out = e / e.sum([dim], True)
    return out if half_to_float or out.dtype == self.dtype else out.to(self.dtype)


@rule("_log_softmax", table="asked")
def log_softmax(self, dim, half_to_float):
    x = self.to(torch.float32) if self.dtype in (torch.float16, torch.bfloat16) else self
    x = x - x.amax([dim], True) if x.numel() else x
    out = x - x.exp().sum([dim], True).log()
    return out if half_to_float or out.dtype == self.dtype else out.to(self.dtype)


@rule("_softmax_backward_data")
@wide
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    part = grad_output * output
    return _as(part - output * part.sum([dim], True), input_dtype)


@rule("_log_softmax_backward_data")
@wide
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    return _as(grad_output - output.exp() * grad_output.sum([dim], True), input_dtype)


def _as(x, dtype):
    return x if x.dtype == dtype else x.to(dtype)


@rule("_safe_softmax")
def _safe_softmax(self, dim, dtype=None):
    """Zeros in place of a row that is all -inf."""
    x = self if dtype in (None, self.dtype) else self.to(dtype)
    out = aten._softmax.default(x, dim, False)
    nothing = aten.any.dim((x == -math.inf).logical_not(), dim, True).logical_not()
    return aten.where.self(nothing, torch.zeros_like(out), out)


# ---- normalizations

@rule("batch_norm", table="always")
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@rule("native_batch_norm", table="always")
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    if running_mean is None or running_var is None:
        return aten._native_batch_norm_legit.no_stats(input, weight, bias, training, momentum, eps)
    if not training:
        return aten._native_batch_norm_legit_no_training.default(input, weight, bias, running_mean, running_var, momentum, eps)
    return aten._native_batch_norm_legit.default(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _over(shape, d):
    """A vector of d's numbers in the place of that dimension."""
    return lambda v: v.view([shape[d] if k == d else 1 for k in range(len(shape))])


@rule("_native_batch_norm_legit_no_training", table="asked")
@wide
def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    at = _over(input.shape, 1)
    out = (input - at(running_mean)) * at((running_var + eps).rsqrt())
    out = out if weight is None else out * at(weight)
    return out if bias is None else out + at(bias), input.new_zeros([0]), input.new_zeros([0])


@rule("_native_batch_norm_legit.no_stats", table="asked")
@wide
def _native_batch_norm_legit_no_stats(input, weight, bias, training, momentum, eps):
    at, dims = _over(input.shape, 1), [d for d in range(input.dim()) if d != 1]
    var, mean = torch.var_mean(input, dims, correction=0, keepdim=True)
    scale = (var + eps).rsqrt()
    out = (input - mean) * scale
    out = out if weight is None else out * at(weight)
    return out if bias is None else out + at(bias), mean.squeeze(dims), scale.squeeze(dims)


@rule("_native_batch_norm_legit_functional", table="asked")
def _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training, momentum, eps):
    if not training:
        out, m, s = _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps)
        return out, m, s, running_mean.clone(), running_var.clone()
    out, mean, scale = _native_batch_norm_legit_no_stats(input, weight, bias, True, momentum, eps)
    n = input.numel() // input.shape[1]
    var = torch.var_mean(input, [d for d in range(input.dim()) if d != 1], correction=0)[0] * (n / max(n - 1, 1))
    return out, mean, scale, mean * momentum + running_mean * (1 - momentum), var * momentum + running_var * (1 - momentum)


@rule("native_layer_norm", table="asked")
@wide
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    var, mean = torch.var_mean(input, dims, correction=0, keepdim=True)
    scale = (var + eps).rsqrt()
    out = (input - mean) * scale
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, mean, scale


@rule("native_group_norm", table="asked")
@wide
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    at = _over(input.shape, 1)
    grouped = flat(input, [N, group, C // group * HxW])
    var, mean = torch.var_mean(grouped, [2], correction=0, keepdim=True)
    scale = (var + eps).rsqrt()
    out = ((grouped - mean) * scale).view(list(input.shape))
    out = out if weight is None else out * at(weight)
    return out if bias is None else out + at(bias), mean.squeeze(2), scale.squeeze(2)


@rule("_fused_rms_norm")
@wide
def _fused_rms_norm(input, normalized_shape, weight, eps):
    dims = list(range(input.dim() - len(normalized_shape), input.dim()))
    scale = aten.add.Scalar((input ** 2).mean(dims, True), torch.finfo(input.dtype).eps if eps is None else eps).rsqrt()
    out = input * scale
    return out if weight is None else out * weight, scale


@rule("rms_norm")
def rms_norm(input, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(input.dtype if input.dtype == torch.float64 else torch.float32).eps if eps is None else eps
    return _fused_rms_norm(input, normalized_shape, weight, eps)[0]


def _sum_of_batch(x, dims):
    return x.sum(dims) if dims else x


@rule("native_layer_norm_backward")
@wide
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """With z the normalized input and g the gradient of z: (n g - sum g - z sum(g z)) rstd / n."""
    outer = list(range(input.dim() - len(normalized_shape)))
    inner = list(range(len(outer), input.dim()))
    n = math.prod(normalized_shape)
    z = (input - mean) * rstd
    g = grad_out if weight is None else grad_out * weight
    grads = [None, None, None]
    if output_mask[0]:
        grads[0] = (g * n - g.sum(inner, True) - z * (g * z).sum(inner, True)) * (rstd / n)
    if output_mask[1] and weight is not None:
        grads[1] = _sum_of_batch(grad_out * z, outer)
    if output_mask[2] and bias is not None:
        grads[2] = _sum_of_batch(grad_out, outer)
    return tuple(grads)


@rule("native_group_norm_backward")
@wide
def native_group_norm_backward(grad_output, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    split = lambda x: flat(x, [N, group, C // group, HxW])
    m, r = mean.view([N, group, 1, 1]), rstd.view([N, group, 1, 1])
    grad, z = split(grad_output), (split(input) - m) * r
    g = grad if weight is None else grad * weight.view([1, group, C // group, 1])
    n, grads = C // group * HxW, [None, None, None]
    if output_mask[0]:
        grads[0] = ((g * n - g.sum([2, 3], True) - z * (g * z).sum([2, 3], True)) * (r / n)).view(list(input.shape))
    if output_mask[1]:
        grads[1] = (grad * z).sum([0, 3]).view([C])
    if output_mask[2]:
        grads[2] = grad.sum([0, 3]).view([C])
    return tuple(grads)


@rule("native_batch_norm_backward")
@wide
def native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask):
    at, dims = _over(input.shape, 1), [d for d in range(input.dim()) if d != 1]
    mean, scale = (save_mean, save_invstd) if train else (running_mean, (running_var + eps).rsqrt())
    n, z = input.numel() // input.shape[1], (input - at(mean)) * at(scale)
    total, with_z = grad_out.sum(dims), (grad_out * z).sum(dims)
    factor = at(scale if weight is None else scale * weight)
    grads = [None, None, None]
    if output_mask[0]:
        grads[0] = (grad_out - at(total / n) - z * at(with_z / n)) * factor if train else grad_out * factor
    if output_mask[1]:
        grads[1] = with_z
    if output_mask[2]:
        grads[2] = total
    return tuple(grads)


# ---- losses of classes

@rule("nll_loss_forward", "nll_loss2d_forward")
@wide
def nll_loss_forward(self, target, weight, reduction, ignore_index):
    """Minus the number at the target's class; targets that are ignored count nothing."""
    d = 1 if self.dim() > 1 else 0
    if weight is not None:
        per_class = weight.view([weight.shape[0] if k == d else 1 for k in range(self.dim())]) if self.dim() > 1 else weight
        self = self * per_class
    kept = target != ignore_index
    safe = pick(kept, target, 0)
    loss = pick(kept, aten.squeeze.dims(self.gather(d, safe.unsqueeze(d)), [d]).neg(), 0)
    if reduction == 0:
        return loss, aten.full.default([], 0.0, dtype=self.dtype, device=self.device)
    if weight is None:
        total = kept.sum().to(self.dtype)
    else:
        shares = aten.expand.default(per_class, list(self.shape)) if self.dim() > 1 else per_class
        total = pick(kept, aten.squeeze.dims(shares.gather(d, safe.unsqueeze(d)), [d]), 0).sum()
    return loss.sum() if reduction == 2 else loss.sum() / total, total


@rule("nll_loss_backward", "nll_loss2d_backward")
@wide
def nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    d = 1 if self.dim() > 1 else 0
    grad_output = grad_output / total_weight if reduction == 1 else grad_output
    target = target.unsqueeze(d)
    kept = target != ignore_index
    places = torch.zeros_like(self).scatter(d, pick(kept, target, 0), -1.0)
    grad_output = grad_output.unsqueeze(d) if grad_output.dim() and self.dim() > 1 else grad_output
    if weight is not None:
        grad_output = grad_output * weight.view([weight.shape[0] if k == d else 1 for k in range(self.dim())])
    return places * pick(kept, grad_output, 0)


@rule("multi_margin_loss")
@wide
def multi_margin_loss(self, target, p=1, margin=1, weight=None, reduction=1):
    x, target = (self, target) if self.dim() == 2 else (self.view([1, -1]), target.view([-1]))
    at = target.unsqueeze(1)
    z = (margin - x.gather(1, at) + x).clamp_min(0)
    z = z if p == 1 else z * z
    z = z if weight is None else z * weight[at]
    z = pick(torch.arange(x.shape[1], device=x.device) != at, z, 0)
    if reduction == 1:
        return z.mean()
    z = z.sum() / z.shape[1] if reduction == 2 else z.mean([1])
    return z if reduction == 2 or self.dim() == 2 else z.squeeze(0)


@rule("multilabel_margin_loss")
@wide
def multilabel_margin_loss(self, target, reduction=1):
    """The sum of 1 - x[t] + x[i] over targets t in front of the first -1 and all i that are none, by the number of classes."""
    x, target = (self, target) if self.dim() == 2 else (self.reshape([1, -1]), target.reshape([1, -1]))
    n = x.shape[1]
    place = torch.arange(n, device=x.device)
    first = pick(target == -1, place, n).amin([-1], True)
    named = place < first
    chosen = x.gather(1, pick(named, target, 0)).transpose(0, 1).unsqueeze(-1)          # (targets, batch, 1)
    listed = pick(named, target, -1)
    hinge = (1.0 - chosen + x).clamp_min(0) / n
    hinge = pick(named.transpose(0, 1).unsqueeze(-1), hinge, 0)
    loss = pick((place == listed.unsqueeze(-1)).any(1), 0, hinge).sum([0, -1])
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss if self.dim() == 2 else loss.squeeze(0)


@rule("_fused_rms_norm_backward")
@wide
def _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask):
    outer = list(range(input.dim() - len(normalized_shape)))
    inner = list(range(len(outer), input.dim()))
    z = input * rstd
    g = grad_out if weight is None else grad_out * weight
    return ((g - z * (g * z).mean(inner, True)) * rstd if output_mask[0] else None,
            _sum_of_batch(grad_out * z, outer) if output_mask[1] and weight is not None else None)
