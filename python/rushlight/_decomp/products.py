"""Rules of products of vectors and matrices, and of attention."""
import math

import rushlight as torch

from . import rule
from .elementwise import wide
from .reductions import _safe_softmax
from .shapes import contiguous_clone, flat

aten = torch.ops.aten


# ---- products

@rule("mv")
@wide
def mv(self, vec):
    return (self * vec).sum([1])


@rule("dot")
@wide
def dot(self, tensor):
    return (self * tensor).sum()


@rule("vdot")
@wide
def vdot(self, other):
    return (self.conj_physical() * other if self.is_complex() else self * other).sum()


@rule("addr")
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    product = aten.view.default(vec1, [vec1.shape[0], 1]) * vec2
    if beta == 0:
        return product * alpha
    return aten.expand.default(self, [vec1.shape[0], vec2.shape[0]]) * beta + product * alpha


@rule("baddbmm")
@wide
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    product = aten.bmm.default(batch1, batch2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (self if beta == 1 else self * beta) + product


@rule("addmm", table="asked")
@wide
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    product = aten.mm.default(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (self if beta == 1 else self * beta) + product


@rule("addmv", table="asked")
@wide
def addmv(self, mat, vec, *, beta=1, alpha=1):
    product = aten.mv.default(mat, vec)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (self if beta == 1 else self * beta) + product


def matmul_batches(a, b):
    """Products of matrices, with dimensions in front that are broadcast, as one bmm."""
    batch = list(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    a3, b3 = (flat(aten.expand.default(x, batch + list(x.shape[-2:])), [math.prod(batch), *x.shape[-2:]]) for x in (a, b))
    return aten.view.default(aten.bmm.default(a3, b3), batch + [a.shape[-2], b.shape[-1]])


def _foldable(x):
    """Is a view of x a matrix of its rows?"""
    return all(x.stride(d) == x.stride(d + 1) * x.shape[d + 1] for d in range(x.dim() - 2)) or not x.numel()


@rule("matmul", "linalg_matmul")
def matmul(self, other):
    n, m = self.dim(), other.dim()
    if not n or not m:
        return NotImplemented
    if n == 1 and m == 1:
        return aten.dot.default(self, other)
    if n == 2 and m == 1:
        return aten.mv.default(self, other)
    if n == 1 and m == 2:
        return aten.squeeze.dims(aten.mm.default(aten.unsqueeze.default(self, 0), other), [0])
    if n == 2 and m == 2:
        return aten.mm.default(self, other)
    if n >= 3 and m <= 2 and _foldable(self):
        rows = aten.view.default(self, [math.prod(self.shape[:-1]), self.shape[-1]])
        if m == 1:
            return aten.view.default(aten.mv.default(rows, other), list(self.shape[:-1]))
        return aten.view.default(aten.mm.default(rows, other), [*self.shape[:-1], other.shape[-1]])
    if n == 2 and _foldable(other.transpose(-1, -2)):
        return matmul(other.transpose(-1, -2), self.t()).transpose(-1, -2)
    a = aten.unsqueeze.default(self, 0) if n == 1 else self
    b = aten.unsqueeze.default(other, 1) if m == 1 else other
    out = matmul_batches(a, b)
    return out if n > 1 and m > 1 else aten.squeeze.dims(out, [-2 if n == 1 else -1])


@rule("linear")
def linear(input, weight, bias=None):
    if weight.dim() != 2 or input.dim() < 2:
        return NotImplemented
    if bias is None or bias.dim() != 1:
        out = matmul(input, weight.t())
        return out if bias is None else out + bias
    if input.dim() == 2:
        return aten.addmm.default(bias, input, weight.t())
    if input.is_contiguous():
        rows = aten.view.default(input, [math.prod(input.shape[:-1]), input.shape[-1]])
        return aten.view.default(aten.addmm.default(bias, rows, weight.t()), [*input.shape[:-1], weight.shape[0]])
    return matmul(input, weight.t()) + bias


@rule("outer", "ger")
def outer(self, vec2):
    return aten.view.default(self, [self.shape[0], 1]) * vec2


@rule("cross")
def cross(self, other, dim=None):
    a, b = torch.broadcast_tensors(self, other)
    dim = next(d for d, n in enumerate(a.shape) if n == 3) if dim is None else dim % a.dim()
    places = aten.arange.start_step(0, 3, device=a.device)
    turned = lambda x, k: aten.index_select.default(x, dim, aten.remainder.Scalar(places + k, 3))
    return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)


rule("linalg_cross")(lambda self, other, *, dim=-1: cross(self, other, dim))


@rule("cdist")
def cdist(x1, x2, p=2.0, compute_mode=None):
    if x1.dim() != 3 or x1.shape[0] != x2.shape[0]:
        return NotImplemented
    return aten._cdist_forward.default(x1, x2, float(p), compute_mode)


@rule("cosine_similarity")
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    if not (x1.is_floating_point() and x1.dtype == x2.dtype):
        return NotImplemented
    x1, x2 = torch.broadcast_tensors(x1, x2)
    a, b = (aten.linalg_vector_norm.default(x, 2, [dim], True).clone() for x in (x1, x2))
    least = aten.scalar_tensor.default(eps, dtype=a.dtype, device=a.device)
    a, b = aten.clamp.Tensor(a, least), aten.clamp.Tensor(b, least)
    return ((x1 / a) * (x2 / b)).sum([dim])


rule("matrix_exp")(lambda self: aten.linalg_matrix_exp.default(self))


@rule("bilinear")
def bilinear(input1, input2, weight, bias=None):
    rows = list(input1.shape[:-1])
    out = aten._trilinear.default(flat(input1, [-1, input1.shape[-1]]), weight, flat(input2, [-1, input2.shape[-1]]), [1, 3], [0], [1, 2], [2, 3])
    out = flat(out, [*rows, weight.shape[0]])
    return out if bias is None else out + bias


@rule("_weight_norm")
def _weight_norm(v, g, dim=0):
    return _weight_norm_interface(v, g, dim)[0]


@rule("_weight_norm_interface")
@wide
def _weight_norm_interface(v, g, dim=0):
    size = aten.linalg_vector_norm.default(v, 2, [d for d in range(v.dim()) if d != dim % v.dim()], True)
    return v * (g / size), size


# ---- attention

def _attention(query, key, value, attn_mask, dropout_p, is_causal, scale):
    """(softmax(q k' scale + mask) v, the weights, what the softmax was taken of); both factors of the product are scaled by the root of the scale."""
    root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    query = aten.mul.Scalar(query, root)
    if is_causal:
        attn_mask = torch.ones([query.shape[-2], key.shape[-2]], dtype=torch.bool, device=query.device).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, 0.0, float("-inf")).to(query.dtype)
    scores = matmul(query, aten.mul.Scalar(key.transpose(-2, -1), root))
    scores = scores if attn_mask is None else scores + attn_mask
    weights = _safe_softmax(scores, -1)
    if dropout_p:
        weights = aten.native_dropout.default(weights, dropout_p, True)[0]
    return matmul(weights, value), weights, scores


def _in_order_of_heads(out):
    """The same numbers, in memory (batch, row, head): the heads' results can be joined by a view."""
    return aten.permute.default(contiguous_clone(aten.permute.default(out, [2, 0, 1, 3])), [1, 2, 0, 3])


def _repeated(x, query):
    return x if x.shape[-3] == query.shape[-3] else x.repeat_interleave(query.shape[-3] // x.shape[-3], -3)


@rule("_scaled_dot_product_attention_math")
def _scaled_dot_product_attention_math(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, *, scale=None, enable_gqa=False):
    if dropout_mask is not None or (scale is not None and scale < 0):
        return NotImplemented
    if enable_gqa:
        key, value = _repeated(key, query), _repeated(value, query)
    return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)[:2]


@rule("_scaled_dot_product_flash_attention_for_cpu")
def _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    if scale is not None and scale < 0:
        return NotImplemented
    out, _, scores = _attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return _in_order_of_heads(out), scores.to(torch.float32).logsumexp(-1)


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    whole = _scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if whole is NotImplemented or query.dim() != 4 or dropout_p or enable_gqa:
        return whole if whole is NotImplemented else whole[0]
    return _in_order_of_heads(whole[0])
