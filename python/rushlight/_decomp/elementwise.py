"""Rules of operations element by element: arithmetic, activations, losses, random numbers, and their derivatives."""
import functools
import math

import rushlight as torch
from rushlight.utils import _pytree as pytree

from . import rule

aten = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)


def wide(fn):
    """Half numbers are computed with as float32; the result is of the dtype that went in."""
    @functools.wraps(fn)
    def widened(*args, **kwargs):
        halves = {t.dtype for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.dtype in _HALF}
        if not halves:
            return fn(*args, **kwargs)
        up = lambda t: t.to(torch.float32) if t.dtype in _HALF else t
        args, kwargs = pytree.tree_map_only(torch.Tensor, up, (args, kwargs))
        back = halves.pop() if len(halves) == 1 else torch.float32
        return pytree.tree_map_only(torch.Tensor, lambda t: t.to(back) if t.dtype == torch.float32 else t, fn(*args, **kwargs))
    return widened


def real(fn):
    """Whole numbers become numbers of the default dtype first; half ones are widened."""
    fn = wide(fn)

    @functools.wraps(fn)
    def floating(*args, **kwargs):
        to = lambda t: t if t.is_floating_point() or t.is_complex() else t.to(torch.get_default_dtype())
        return fn(*pytree.tree_map_only(torch.Tensor, to, args), **pytree.tree_map_only(torch.Tensor, to, kwargs))
    return floating


def number(value, like, dtype=None):
    return aten.scalar_tensor.default(value, dtype=dtype or like.dtype, device=like.device)


def pick(condition, a, b):
    """Elements of a where the condition holds, of b elsewhere; one of them may be a number."""
    like = a if isinstance(a, torch.Tensor) else b
    a, b = (x if isinstance(x, torch.Tensor) else number(x, like) for x in (a, b))
    return aten.where.self(condition, a, b)


def together(*tensors):
    """Tensors of one size; those of a single number stay it."""
    size = list(torch.broadcast_shapes(*(t.shape for t in tensors)))
    return tensors if all(list(t.shape) == size for t in tensors if t.dim()) else [aten.expand.default(t, size) if t.dim() else t for t in tensors]


# ---- arithmetic

@rule("addcmul")
@wide
def addcmul(self, tensor1, tensor2, *, value=1):
    return self + tensor1 * value * tensor2


@rule("addcdiv")
@wide
def addcdiv(self, tensor1, tensor2, *, value=1):
    return self + tensor1 * value / tensor2


@rule("rsub.Tensor", "rsub.Scalar")
def rsub(self, other, alpha=1):
    return aten.sub.Tensor(other, self) if alpha == 1 else aten.sub.Tensor(other, self, alpha=alpha)


@rule("lerp.Scalar", "lerp.Tensor")
@wide
def lerp(self, end, weight):
    """From the nearer end, so that both ends are met."""
    if not isinstance(weight, torch.Tensor):
        weight = aten.full.default([], weight, dtype=self.dtype, device=self.device)
    far = weight.abs() >= 0.5
    return pick(far, weight - 1, weight) * (end - self) + pick(far, end, self)


@rule("floor_divide", "floor_divide.Scalar")
def floor_divide(self, other):
    return aten.div.Tensor_mode(self, other, rounding_mode="floor")


@rule("square")
def square(self):
    return aten.pow.Tensor_Scalar(self, 2)


@rule("frac")
@wide
def frac(self):
    return self - self.trunc()


rule("deg2rad")(real(lambda self: self * (math.pi / 180)))
rule("rad2deg")(real(lambda self: self * (180 / math.pi)))


@rule("sgn")
def sgn(self):
    if not self.is_complex():
        return self.sign()
    size = self.abs()
    return pick(size == 0, 0, self / size)


@rule("sinc", "special_sinc")
@real
def sinc(self):
    angle = self * math.pi
    return pick(angle == 0, 1, angle.sin() / angle)


@rule("logit", "special_logit")
@real
def logit(self, eps=None):
    low = -1.0 if eps is None else eps
    at_most = pick(self > 1 - low, 1 - low, self)
    inside = pick(self < low, low, at_most)
    return (inside / rsub(inside, 1)).log()


@rule("heaviside")
def heaviside(self, values):
    self, values = together(self, values)
    nothing = aten.logical_or.default(self < 0, self.isnan())
    return pick(self == 0, values, pick(nothing, number(0, self), number(1, self)))


@rule("nan_to_num")
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    if not self.is_floating_point() and not self.is_complex():
        return self.clone()
    if self.is_complex():
        return aten.complex.default(*(nan_to_num(part, nan, posinf, neginf) for part in (aten.real(self), aten.imag(self))))
    ends = torch.finfo(self.dtype)
    out = pick(self.isnan(), 0.0 if nan is None else nan, self)
    out = pick(self == -math.inf, ends.min if neginf is None else neginf, out)
    return pick(self == math.inf, ends.max if posinf is None else posinf, out)


def finite(x):
    return aten.mul.Tensor(x == x, x.abs() != math.inf)


@rule("isfinite")
def isfinite(self):
    if not self.is_floating_point() and not self.is_complex():
        return aten.full_like.default(self, True, dtype=torch.bool, memory_format=torch.preserve_format)
    return finite(self)


@rule("isneginf")
def isneginf(self):
    return self == -math.inf if self.is_floating_point() else aten.full_like.default(self, False, dtype=torch.bool)


@rule("isposinf")
def isposinf(self):
    return self == math.inf if self.is_floating_point() else aten.full_like.default(self, False, dtype=torch.bool)


@rule("isreal")
def isreal(self):
    return aten.imag(self) == 0 if self.is_complex() else aten.full_like.default(self, True, dtype=torch.bool, memory_format=torch.preserve_format)


@rule("isclose")
def isclose(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    close = self == other
    if equal_nan and self.is_floating_point():
        close = aten.bitwise_or.Tensor(close, aten.bitwise_and.Tensor(self.isnan(), other.isnan()))
    if rtol == 0 and atol == 0:
        return close
    if not self.is_floating_point() and not self.is_complex():
        self, other = self.to(torch.get_default_dtype()), other.to(torch.get_default_dtype())
    allowed = aten.add.Scalar(aten.mul.Scalar(other, rtol).abs(), atol)
    apart = (self - other).abs()
    return aten.bitwise_or.Tensor(close, aten.bitwise_and.Tensor(finite(apart), apart <= allowed))


@rule("logaddexp")
@wide
def logaddexp(self, other):
    """The larger one, and what the smaller one adds to it; equal infinities are themselves."""
    self, other = together(self, other)
    larger = self >= other
    high, low = pick(larger, self, other), pick(larger, other, self)
    same = aten.logical_and.default(finite(self).logical_not(), self == other)
    return pick(same, self, high + (low - high).exp().log1p())


@rule("logaddexp2")
@wide
def logaddexp2(self, other):
    self, other = together(self, other)
    larger = self >= other
    high, low = pick(larger, self, other), pick(larger, other, self)
    same = aten.logical_and.default(self.isinf(), self == other)
    return pick(same, self, high + (low - high).exp2().log1p() * (1 / math.log(2)))


def _product_with_log(fn):
    @real
    def product(self, other):
        out = pick(self == 0, 0, self * fn(other))
        return pick(other.isnan(), math.nan, out)

    def with_numbers(self, other):
        if not isinstance(self, torch.Tensor):
            self = number(self, other, torch.get_default_dtype() if not other.is_floating_point() else other.dtype)
        if not isinstance(other, torch.Tensor):
            other = number(other, self, torch.get_default_dtype() if not self.is_floating_point() else self.dtype)
        return product(self, other)
    return with_numbers


rule("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other")(_product_with_log(torch.log))
rule("special_xlogy", "special_xlogy.self_scalar", "special_xlogy.other_scalar")(_product_with_log(torch.log))
rule("special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar")(_product_with_log(torch.log1p))


@rule("special_entr")
@real
def entr(self):
    outside = pick(self == 0, number(0, self), number(-math.inf, self))
    return pick(self.isnan(), self, pick(self > 0, self.neg() * self.log(), outside))


@rule("special_log_ndtr")
@real
def log_ndtr(self):
    """By erfcx below, where erfc is too small for its logarithm."""
    t = self * math.sqrt(0.5)
    return pick(self < 1.0, (torch.special.erfcx(t.neg()) / 2).log() - t * t, (t.erfc().neg() / 2).log1p())


@rule("special_ndtr")
@wide
def ndtr(self):
    return aten.mul.Scalar(aten.add.Scalar(aten.mul.Scalar(self, math.sqrt(0.5)).erf(), 1), 0.5)


@rule("mvlgamma", "special_multigammaln")
@real
def mvlgamma(self, p):
    """log of pi**(p (p - 1) / 4) times the gammas of self - j / 2, j < p."""
    halves = torch.arange(1 - p, 1, dtype=self.dtype, device=self.device) * 0.5
    return (self.unsqueeze(-1) + halves).lgamma().sum([-1]) + p * (p - 1) / 4 * math.log(math.pi)


@rule("conj_physical")
def conj_physical(self):
    return NotImplemented if self.is_complex() else self


# ---- numbers in the place of elements

rule("fill.Scalar")(lambda self, value: aten.full_like.default(self, value))
rule("fill.Tensor")(lambda self, value: aten.copy.default(self, value))
rule("zero")(lambda self: aten.full_like.default(self, 0, memory_format=torch.preserve_format))
rule("clamp_min", "clamp_min.Tensor")(lambda self, min: self.clamp(min))
rule("clamp_max", "clamp_max.Tensor")(lambda self, max: self.clamp(None, max))
rule("masked_fill.Scalar", "masked_fill.Tensor")(lambda self, mask, value: _masked_fill(self, mask, value))


def _masked_fill(self, mask, value):
    value = value if isinstance(value, torch.Tensor) else number(value, self)
    value = value if value.dtype == self.dtype else value.to(self.dtype)
    return aten.where.self(mask, value, self)


# ---- activations

@rule("silu")
@wide
def silu(self):
    return self * self.sigmoid()


@rule("softplus")
@wide
def softplus(self, beta=1, threshold=20):
    scaled = self if beta == 1 else self * beta
    out = scaled.exp().log1p()
    return pick(scaled > threshold, self, out if beta == 1 else out / beta)


@rule("mish")
@wide
def mish(self):
    return self * pick(self > 20, self, self.exp().log1p()).tanh()


@rule("log_sigmoid_forward")
@wide
def log_sigmoid_forward(self):
    z = self.abs().neg().exp()
    out = torch.minimum(self.new_zeros([]), self) - z.log1p()
    return out, self.new_zeros([0])


@rule("log_sigmoid")
def log_sigmoid(self):
    return log_sigmoid_forward(self)[0]


def _ramp(x):
    """0 below -3, 6 above 3."""
    return aten.clamp.default(aten.clamp.default(x + 3, 0), None, 6)


@rule("hardswish")
@wide
def hardswish(self):
    return self * _ramp(self) / 6


@rule("hardsigmoid")
@wide
def hardsigmoid(self):
    return _ramp(self) / 6


@rule("selu")
def selu(self):
    return aten.elu.default(self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@rule("celu")
@wide
def celu(self, alpha=1.0):
    return pick(self > 0, self, self.expm1() if alpha == 1 else (self / alpha).expm1() * alpha)


rule("hardshrink")(lambda self, lambd=0.5: pick(self.abs() <= lambd, 0, self))
rule("threshold")(lambda self, threshold, value: pick(self <= threshold, value, self))
rule("softshrink")(lambda self, lambd=0.5: pick(self.abs() > lambd, self - self.sign() * lambd, self * 0))
rule("relu6")(lambda self: aten.hardtanh.default(self, 0, 6))
rule("_prelu_kernel")(lambda self, weight: pick(self > 0, self, weight * self))


@rule("glu")
@wide
def glu(self, dim=-1):
    dim = dim % self.dim()
    half = self.shape[dim] // 2
    return aten.slice.Tensor(self, dim, 0, half) * aten.slice.Tensor(self, dim, half, 2 * half).sigmoid()


@rule("prelu")
def prelu(self, weight):
    if weight.dtype != self.dtype:
        return NotImplemented
    if weight.numel() != 1 or self.dim():
        weight = weight.reshape([-1 if d == (1 if self.dim() > 1 else 0) else 1 for d in range(self.dim())] if weight.numel() != 1 else [1] * self.dim())
    return pick(self > 0, self, weight * self)


# ---- derivatives of activations

rule("sigmoid_backward")(wide(lambda grad_output, output: grad_output * (output * (1 - output)).conj_physical()))
rule("tanh_backward")(wide(lambda grad_output, output: grad_output * (1 - output * output).conj_physical()))
rule("threshold_backward")(lambda grad_output, self, threshold: pick(self <= threshold, 0, grad_output))
rule("hardtanh_backward")(lambda grad_output, self, min_val, max_val: pick((self <= min_val) | (self >= max_val), 0.0, grad_output))
rule("leaky_relu_backward")(lambda grad_output, self, negative_slope, self_is_result: pick(self > 0, grad_output, grad_output * negative_slope))


@rule("silu_backward")
@wide
def silu_backward(grad_output, self):
    s = self.sigmoid()
    return grad_output * s * (1 + self * (1 - s))


@rule("elu_backward")
@wide
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    low = alpha * scale
    if is_result:
        return pick(self_or_result <= 0, grad_output * input_scale * (self_or_result + low), grad_output * scale)
    return pick(self_or_result <= 0, grad_output * (input_scale * low) * (self_or_result * input_scale).exp(), grad_output * scale)


@rule("hardsigmoid_backward")
@wide
def hardsigmoid_backward(grad_output, self):
    return pick(aten.bitwise_and.Tensor(self > -3.0, self < 3.0), grad_output * (1 / 6), 0.0)


@rule("hardswish_backward")
@wide
def hardswish_backward(grad_output, self):
    return pick(self <= -3, 0.0, pick(self < 3, grad_output * (self / 3 + 0.5), grad_output))


@rule("softplus_backward")
@wide
def softplus_backward(grad_output, self, beta, threshold):
    z = (self * beta).exp()
    return pick(self * beta > threshold, grad_output, grad_output * z / (z + 1.0))


@rule("log_sigmoid_backward")
@wide
def log_sigmoid_backward(grad_output, self, buffer):
    """1 / (1 + exp(x)), by exp(-|x|)."""
    low = self < 0
    most, sign = pick(low, number(1, self), number(0, self)), pick(low, number(1, self), number(-1, self))
    z = self.abs().neg().exp()
    return grad_output * (most - sign * (z / (1 + z)))


rule("_log_sigmoid_slope")(lambda grad_output, self: log_sigmoid_backward(grad_output, self, None))


@rule("logit_backward")
@wide
def logit_backward(grad_output, self, eps=None):
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    inside = aten.bitwise_and.Tensor(self >= low, self <= high)
    return pick(inside, grad_output / (self * (1.0 - self)), math.nan if eps is None else 0.0)


@rule("mish_backward")
@wide
def mish_backward(grad_output, self):
    t, s = softplus(self).tanh(), self.sigmoid()
    return grad_output * (t + self * s * (1 - t * t))


@rule("gelu_backward")
@wide
def gelu_backward(grad_output, self, *, approximate="none"):
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (self + 0.044715 * (self * self * self))
        t = inner.tanh()
        slope = 0.5 * self * (1 - t * t) * (math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * self * self))
        return grad_output * (0.5 * (1 + t) + slope)
    cdf = 0.5 * (1 + (self * math.sqrt(0.5)).erf())
    density = (self * self * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
    return grad_output * (cdf + self * density)


@rule("glu_backward")
@wide
def glu_backward(grad_output, self, dim):
    dim = dim % self.dim()
    half = self.shape[dim] // 2
    a, s = self.narrow(dim, 0, half), self.narrow(dim, half, half).sigmoid()
    return torch.cat([s * grad_output, (1 - s) * s * a * grad_output], dim)


# ---- losses

def _reduced(loss, reduction):
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def _shared(grad_output, elements, reduction):
    """The gradient of each element of a loss that may be a mean."""
    return grad_output / elements.numel() if reduction == 1 else grad_output


rule("mse_loss")(wide(lambda self, target, reduction=1: _reduced((self - target) ** 2, reduction)))
rule("l1_loss")(wide(lambda self, target, reduction=1: _reduced((self - target).abs(), reduction)))


@rule("smooth_l1_loss")
@wide
def smooth_l1_loss(self, target, reduction=1, beta=1.0):
    apart = (self - target).abs()
    return _reduced(apart if beta == 0 else pick(apart < beta, 0.5 * apart ** 2 / beta, apart - 0.5 * beta), reduction)


@rule("huber_loss")
@wide
def huber_loss(self, target, reduction=1, delta=1.0):
    apart = (self - target).abs()
    return _reduced(pick(apart < delta, 0.5 * apart * apart, delta * (apart - 0.5 * delta)), reduction)


@rule("soft_margin_loss")
@wide
def soft_margin_loss(self, target, reduction=1):
    return _reduced((self.neg() * target).exp().log1p(), reduction)


@rule("hinge_embedding_loss")
def hinge_embedding_loss(self, target, margin=1.0, reduction=1):
    """self where the target is 1, what it lacks of the margin where it is -1."""
    nothing = torch.zeros_like(self, memory_format=torch.contiguous_format)
    lacking = (aten.fill.Scalar(torch.empty_like(self), margin) - self).clamp_min(0)
    return _reduced(pick(target != 1, lacking, nothing) + pick(target != -1, self, nothing), reduction)


@rule("cosine_embedding_loss")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=1):
    """1 - cos of what belongs together, what cos has above the margin of the rest."""
    if target.dim() > 1 or input1.dim() - target.dim() != 1:
        return NotImplemented
    d, eps = [target.dim()], 9.999999960041972e-13
    sizes = [aten.add.Scalar((x * x).sum(d), eps) for x in (input1, input2)]
    cos = (input1 * input2).sum(d) / (sizes[0] * sizes[1]).sqrt()
    nothing = torch.zeros_like(cos, memory_format=torch.contiguous_format)
    apart, near = aten.fill.Scalar(torch.empty_like(cos), 1) - cos, aten.sub.Scalar(cos, margin).clamp_min(0)
    return _reduced(pick(target == 1, apart, nothing) + pick(target == -1, near, nothing), reduction)


@rule("binary_cross_entropy")
@wide
def binary_cross_entropy(self, target, weight=None, reduction=1):
    """-(y log p + (1 - y) log(1 - p)); logarithms are not below -100."""
    least = aten.full.default([], -100, dtype=self.dtype, device=self.device)
    loss = (target - 1) * torch.maximum(self.neg().log1p(), least) - target * torch.maximum(self.log(), least)
    return _reduced(loss if weight is None else loss * weight, reduction)


@rule("binary_cross_entropy_backward")
@wide
def binary_cross_entropy_backward(grad_output, self, target, weight=None, reduction=1):
    grad = grad_output * (self - target) / ((1 - self) * self).clamp(1e-12)
    return _shared(grad if weight is None else grad * weight, self, reduction)


@rule("binary_cross_entropy_with_logits")
@wide
def binary_cross_entropy_with_logits(self, target, weight=None, pos_weight=None, reduction=1):
    log_sigmoid = log_sigmoid_forward(self)[0]
    if pos_weight is None:
        loss = (1 - target) * self - log_sigmoid
    else:
        loss = (1 - target) * self - ((pos_weight - 1) * target + 1) * log_sigmoid
    return _reduced(loss if weight is None else loss * weight, reduction)


@rule("mse_loss_backward")
@wide
def mse_loss_backward(grad_output, self, target, reduction):
    return (2.0 / self.numel() if reduction == 1 else 2.0) * (self - target) * grad_output


@rule("smooth_l1_loss_backward")
@wide
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    x = self - target
    grad = _shared(grad_output, self, reduction)
    return pick(x.abs() < beta, x * grad / beta, grad * x.sign())


@rule("huber_loss_backward")
@wide
def huber_loss_backward(grad_output, self, target, reduction, delta):
    x, grad = self - target, _shared(grad_output, self, reduction)
    return pick(x < -delta, grad * -delta, pick(x > delta, grad * delta, x * grad))


# ---- random numbers

@rule("bernoulli")
def bernoulli(self, *, generator=None):
    if generator is not None:
        return NotImplemented
    return (aten.rand.default(list(self.shape), dtype=torch.float32, device=self.device) < self).to(self.dtype)


@rule("native_dropout_backward")
def native_dropout_backward(grad_output, mask, scale):
    return grad_output * (mask.to(grad_output.dtype) * scale)


@rule("dropout", table="always")
def dropout(input, p, train):
    if not train or p == 0:
        return input.clone()
    return aten.native_dropout.default(input, p, True)[0]
