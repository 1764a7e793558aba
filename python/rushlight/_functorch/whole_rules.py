"""Batch rules of operations that know batches themselves: in leading dimensions, or as the N of images; of losses, and of products by other names."""
import rushlight as torch
from ..utils._pytree import tree_map
from . import draw_modes, levels
from .batched import BatchedTensor, by_example, lined_up, name_of, rule, tensors_in, unwrap, whole, wrap

# ---- leading dimensions: the batch is one more of them ----

# How many dimensions of each tensor are not leading.
LEADING = dict.fromkeys("""cholesky linalg_cholesky linalg_cholesky_ex linalg_inv linalg_inv_ex inverse linalg_det det logdet slogdet linalg_slogdet linalg_eigh
linalg_eigvalsh linalg_eig linalg_eigvals linalg_svd linalg_svdvals svd linalg_qr qr linalg_matrix_exp matrix_exp linalg_matrix_power matrix_power linalg_pinv pinverse
linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_cond linalg_matrix_rank triu tril cholesky_inverse cdist cholesky_solve linalg_solve_triangular triangular_solve
scaled_dot_product_attention pixel_shuffle pixel_unshuffle lu_solve linalg_lu_solve linalg_lu""".split(), 2)
LEADING |= dict.fromkeys("linalg_vander diag_embed".split(), 1)


@rule(*LEADING)
def _leading(func, args, kwargs, level):
    given = tensors_in((args, kwargs))
    if len({t.ndim for t in given}) > 1 or given[0].ndim < LEADING[name_of(func)] or any(isinstance(v, torch.Tensor) for k, v in kwargs.items() if k != "attn_mask") or \
            name_of(func) == "diag_embed" and (len(args) > 2 or {"dim1", "dim2"} & kwargs.keys()) or \
            name_of(func) == "scaled_dot_product_attention" and draw_modes[level] != "different" and (args[4] if len(args) > 4 else kwargs.get("dropout_p", 0)):
        return by_example(func, args, kwargs, level)
    args, kwargs = tree_map(lambda t: _grown(t, level) if isinstance(t, torch.Tensor) else t, (args, kwargs))
    return wrap(func(*args, **kwargs), level)


def _grown(t, level):
    """With the batch in front, or a 1 that broadcasts over it."""
    value, batched = unwrap(t, level)
    return value if batched else value.unsqueeze(0)


@rule("linalg_solve")
def _solve(func, args, kwargs, level):
    """A right side of one dimension less is a vector per matrix."""
    given = dict(zip(("A", "B"), args), **kwargs)
    a, b = given.pop("A"), given.pop("B")
    if a.ndim != 2 or b.ndim > 2 or b.ndim == 0 or given.get("out") is not None:
        return by_example(func, args, kwargs, level)
    right = b.unsqueeze(-1) if b.ndim == 1 else b
    if not unwrap(a, level)[1] and not given:  # one matrix for all: all right sides are its columns
        out = func(a, right.value.movedim(0, -2).flatten(-2)).unflatten(-1, (-1, right.shape[-1])).movedim(-2, 0)
    else:
        out = func(_grown(a, level), _grown(right, level), **given)
    return BatchedTensor(out.squeeze(-1) if b.ndim == 1 else out, level)


@rule("linalg_cross", "cross")
def _cross(func, args, kwargs, level):
    given = dict(zip(("input", "other", "dim"), args), **kwargs)
    a, b, dim = given["input"], given["other"], given.get("dim", -1 if name_of(func) == "linalg_cross" else None)
    if a.ndim != b.ndim or dim is None or a.ndim == 0 or "out" in given:
        return by_example(func, args, kwargs, level)
    return BatchedTensor(torch.linalg.cross(whole(a, level), whole(b, level), dim=dim % a.ndim + 1), level)


@rule("cosine_similarity")
def _cosine_similarity(func, args, kwargs, level):
    given = dict(zip(("x1", "x2", "dim", "eps"), args), **kwargs)
    a, b = given["x1"], given["x2"]
    if a.ndim != b.ndim or a.ndim == 0:
        return by_example(func, args, kwargs, level)
    return BatchedTensor(func(whole(a, level), whole(b, level), given.get("dim", 1) % a.ndim + 1, given.get("eps", 1e-8)), level)


@rule("layer_norm", "rms_norm")
def _layer_norm(func, args, kwargs, level):
    names = ("input", "normalized_shape", "weight", "bias", "eps") if name_of(func) == "layer_norm" else ("input", "normalized_shape", "weight", "eps")
    given = dict(zip(names, args), **kwargs)
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    if not unwrap(x, level)[1]:
        return by_example(func, args, kwargs, level)
    own = [t is not None and unwrap(t, level)[1] for t in (weight, bias)]
    outside = {k: None for k, batched in zip(("weight", "bias"), own) if batched}
    if own[0] and bias is not None:
        outside["bias"] = None
    out = BatchedTensor(func(**given | {"input": x.value} | outside), level)
    for k, combine in (("weight", torch.mul), ("bias", torch.add)):
        out = combine(out, given[k]) if k in outside and given[k] is not None else out
    return out


# ---- images: the batch is part of N ----

# How many dimensions an input without N has; None: it always has N.
IMAGES = {"conv1d": 2, "conv2d": 3, "conv3d": 4, "conv_transpose1d": 2, "conv_transpose2d": 3, "conv_transpose3d": 4, "group_norm": None, "instance_norm": None,
          "interpolate": None, "upsample": None, "local_response_norm": None, "fold": 2, "prelu": None, "channel_shuffle": None}
IMAGES |= {f"{kind}_pool{d}d{tail}": d + 1 for kind in ("max", "avg", "adaptive_max", "adaptive_avg", "lp") for d in (1, 2, 3) for tail in ("", "_with_indices")}
WEIGHTED = {"conv1d": 1, "conv2d": 2, "conv3d": 3}


@rule(*IMAGES)
def _images(func, args, kwargs, level):
    """Of an example without N the batch is N; else both together are."""
    x, name = args[0] if args else kwargs.get("input"), name_of(func)
    plain = IMAGES[name]
    others = tensors_in((args[1:], {k: v for k, v in kwargs.items() if k != "input"}))
    if not args or any(unwrap(t, level)[1] for t in others):
        return _grouped(func, args, kwargs, level) if name in WEIGHTED else by_example(func, args, kwargs, level)
    if name == "instance_norm" and others or x.ndim < 2 and plain is None:
        return by_example(func, args, kwargs, level)
    if x.ndim == plain:
        return wrap(func(x.value, *args[1:], **kwargs), level)
    n = x.shape[0]
    return wrap(tree_map(lambda t: t.unflatten(0, (levels[level], n)), func(x.value.flatten(0, 1), *args[1:], **kwargs)), level) if n and levels[level] \
        else by_example(func, args, kwargs, level)


def _grouped(func, args, kwargs, level):
    """A convolution with weights of each example's own: one with a group, or groups, for each example."""
    given = dict(zip(("input", "weight", "bias", "stride", "padding", "dilation", "groups"), args), **kwargs)
    x, weight, bias, groups, d = given["input"], given["weight"], given.get("bias"), given.get("groups", 1), WEIGHTED[name_of(func)]
    n, out = levels[level], weight.shape[0]
    if not n or x.numel() == 0 or x.ndim == d + 2 and x.shape[0] > n:  # few examples of many images each have enough to do by themselves
        return by_example(func, args, kwargs, level)
    images = whole(x, level) if x.ndim == d + 2 else whole(x, level).unsqueeze(1)
    images = images.movedim(0, 1).flatten(1, 2)  # (N, n C, ...)
    filters = whole(weight, level).flatten(0, 1)
    result = func(**given | {"input": images, "weight": filters, "groups": n * groups, "bias": None if bias is None else whole(bias, level).flatten()})
    result = result.unflatten(1, (n, out)).movedim(1, 0)
    return BatchedTensor(result if x.ndim == d + 2 else result.squeeze(1), level)


@rule("pad", "constant_pad_nd")
def _pad(func, args, kwargs, level):
    """Constants go anywhere; other modes know by its dimensions what is an image."""
    given = dict(zip(("input", "pad", "mode", "value"), args), **kwargs)
    x = given["input"] if "input" in given else given.get("self")
    if name_of(func) == "constant_pad_nd" or given.get("mode", "constant") == "constant":
        return wrap(func(x.value, *args[1:], **kwargs), level) if args and unwrap(x, level)[1] and len(args[1] if len(args) > 1 else kwargs["pad"]) <= 2 * x.ndim \
            else by_example(func, args, kwargs, level)
    pads = len(given["pad"]) // 2
    if not args or x.ndim not in (pads + 1, pads + 2):
        return by_example(func, args, kwargs, level)
    if x.ndim == pads + 1:
        return BatchedTensor(func(x.value, *args[1:], **kwargs), level)
    return BatchedTensor(func(x.value.flatten(0, 1), *args[1:], **kwargs).unflatten(0, (levels[level], x.shape[0])), level)


# ---- losses: element by element, then reduced example by example ----

LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div poisson_nll_loss soft_margin_loss hinge_embedding_loss".split()


@rule(*LOSSES)
def _loss(func, args, kwargs, level):
    given = dict(zip(("input", "target"), args), **kwargs)
    x, target, how = given.pop("input", None), given.pop("target", None), given.get("reduction", "mean")
    if len(args) > 2 or given.get("size_average") is not None or given.get("reduce") is not None or not isinstance(how, str) or \
            not isinstance(x, torch.Tensor) or not isinstance(target, torch.Tensor) or x.shape != target.shape or x.ndim == 0:
        return by_example(func, args, kwargs, level)
    pair, given, _ = lined_up((x, target), dict(given, reduction="none"), level)
    return _reduced(BatchedTensor(func(*torch.broadcast_tensors(*pair), **given), level), how, x.shape)


def _reduced(out, how, shape):
    if how == "batchmean":
        return out.sum() / shape[0]
    return out if how == "none" else out.sum() if how == "sum" else out.mean()


@rule("cross_entropy", "nll_loss")
def _cross_entropy(func, args, kwargs, level):
    given = dict(zip(("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"), args), **kwargs)
    x, target, weight, how = given["input"], given["target"], given.get("weight"), given.get("reduction", "mean")
    classes = x.ndim and target.shape == x.shape  # probabilities of them
    if isinstance(func, torch._ops.OpOverload) or weight is not None and (unwrap(weight, level)[1] or given.get("label_smoothing")) or x.ndim == 0 or x.numel() == 0 or \
            given.get("size_average") is not None or given.get("reduce") is not None or not levels[level]:
        return by_example(func, args, kwargs, level)
    rows, wanted = whole(x, level), whole(target, level)
    if x.ndim > 1:
        rows, wanted = rows.flatten(0, 1), wanted.flatten(0, 1)
    out = func(**given | {"input": rows, "target": wanted, "reduction": "none"})
    out = BatchedTensor(out.unflatten(0, (levels[level], -1)) if x.ndim > 1 else out, level)
    if how != "mean" or classes:
        return _reduced(out, "sum", x.shape) / max(out.numel(), 1) if how == "mean" else _reduced(out, how, x.shape)
    there = target != given.get("ignore_index", -100)
    shares = there.to(x.dtype) if weight is None else torch.where(there, weight[torch.where(there, target, 0)], 0)
    return out.sum() / shares.sum()


# ---- products by other names ----


@rule("einsum")
def _einsum(func, args, kwargs, level):
    equation, operands = args[0], args[1:]
    operands = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    if not isinstance(equation, str):
        return by_example(func, args, kwargs, level)
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow:
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1))
    letter = next((c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBAzyxwvutsrqponmlkjihgfedcba" if c not in equation), None)
    terms = left.split(",")
    if letter is None or len(terms) != len(operands):
        return by_example(func, args, kwargs, level)
    values, flags = zip(*(unwrap(t, level) for t in operands))
    terms = [letter + term if batched else term for term, batched in zip(terms, flags)]
    return BatchedTensor(torch.einsum(",".join(terms) + "->" + letter + right, *values), level)


def _plus(x, product, beta, alpha):
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else x + product if beta == 1 else x * beta + product


PRODUCTS = {"addmm": torch.mm, "addmv": torch.mv, "baddbmm": torch.bmm, "addr": torch.outer, "addbmm": lambda a, b: torch.bmm(a, b).sum(0)}


@rule(*PRODUCTS)
def _added(func, args, kwargs, level):
    if len(args) != 3 or "out" in kwargs or isinstance(kwargs.get("beta"), torch.Tensor):
        return by_example(func, args, kwargs, level)
    return _plus(args[0], PRODUCTS[name_of(func)](*args[1:]), kwargs.get("beta", 1), kwargs.get("alpha", 1))


@rule("outer", "ger")
def _outer(func, args, kwargs, level):
    a, b = (*args, *kwargs.values())[:2]
    return by_example(func, args, kwargs, level) if a.ndim != 1 or b.ndim != 1 or "out" in kwargs else a.unsqueeze(1) * b


@rule("inner", "vdot", "linalg_vecdot")
def _inner(func, args, kwargs, level):
    a, b = args[:2]
    if a.ndim != 1 or b.ndim != 1 or kwargs or len(args) > 2:
        return by_example(func, args, kwargs, level)
    return ((a.conj() if name_of(func) != "inner" and a.is_complex() else a) * b).sum()


@rule("diag")
def _diag(func, args, kwargs, level):
    given = dict(zip(("input", "diagonal"), args), **kwargs)
    x = given["input"]
    return torch.diag_embed(x, given.get("diagonal", 0)) if x.ndim == 1 and not given.get("diagonal") else torch.diagonal(x, given.get("diagonal", 0)) if x.ndim == 2 \
        else by_example(func, args, kwargs, level)


@rule("trace")
def _trace(func, args, kwargs, level):
    return args[0].diagonal().sum() if args and args[0].ndim == 2 else by_example(func, args, kwargs, level)


@rule("meshgrid")
def _meshgrid(func, args, kwargs, level):
    axes = tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    if any(t.ndim != 1 for t in axes) or kwargs.get("indexing") != "ij":
        return by_example(func, args, kwargs, level)
    size = tuple(t.shape[0] for t in axes)
    return tuple(t.reshape(*[1] * k, -1, *[1] * (len(axes) - k - 1)).expand(size) for k, t in enumerate(axes))


@rule("atleast_1d", "atleast_2d", "atleast_3d")
def _at_least(func, args, kwargs, level):
    n = int(name_of(func)[-2])
    return args[0] if len(args) == 1 and isinstance(args[0], torch.Tensor) and args[0].ndim >= n else by_example(func, args, kwargs, level)


@rule("full_like", "empty_like")
def _like(func, args, kwargs, level):
    return BatchedTensor(func(args[0].value, *args[1:], **kwargs), level) if args and unwrap(args[0], level)[1] and len(tensors_in((args, kwargs))) == 1 \
        else by_example(func, args, kwargs, level)


@rule("new_zeros", "new_ones", "new_full", "new_empty")
def _new(func, args, kwargs, level):
    """Of the sizes that are named, for each example: what is made may be written to."""
    sizes = args[1:2] if len(args) > 1 and isinstance(args[1], (tuple, list)) else ()
    if not sizes or not unwrap(args[0], level)[1] or len(tensors_in((args, kwargs))) > 1 or not all(isinstance(n, int) for n in sizes[0]):
        return by_example(func, args, kwargs, level)
    return BatchedTensor(func(args[0].value, (levels[level], *sizes[0]), *args[2:], **kwargs), level)
