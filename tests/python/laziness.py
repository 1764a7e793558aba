"""Random programs over large tensors, run as they are and with elementwise work put off; results are equal bit for bit.

A program is a list of steps drawn from a seed: elementwise calls of several dtypes, broadcasting, in-place changes, views, reductions,
products, random numbers, reads of values, side effects, branches on data, memory shared with NumPy, exceptions. It runs over a pool
of tensors; all of them, the generator's state and what was seen on the way are compared.
"""
import random

import rushlight as torch

UNARY = "exp sin tanh sigmoid relu neg abs square sqrt log1p erf floor sign reciprocal silu gelu softplus isnan logical_not rsqrt".split()
BINARY = "add sub mul div maximum minimum atan2 lt ge eq logical_and pow hypot remainder".split()
INPLACE = "add_ mul_ sub_ div_ clamp_min_ tanh_ relu_ sigmoid_ neg_ exp_ zero_ copy_ masked_fill_ fill_ abs_".split()
DTYPES = [torch.float32] * 5 + [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool, torch.uint8, torch.complex64]
SHAPES = [(80, 64), (5120,), (2, 16, 10, 16), (64,), (80, 1), (1, 64), (), (80, 64), (70, 80)]


def fresh(rng, leaf=False):
    shape, dtype = rng.choice(SHAPES), torch.float32 if leaf else rng.choice(DTYPES)
    t = torch.randn(shape) if dtype.is_floating_point or dtype.is_complex else torch.randint(-3, 4, shape)
    t = t.to(dtype)
    if len(shape) == 4 and rng.random() < .5:
        t = t.to(memory_format=torch.channels_last)
    return t


def unary(rng, pool, seen):
    f = getattr(torch, rng.choice(UNARY), None) or getattr(torch.nn.functional, "silu")
    return f(rng.choice(pool))


def binary(rng, pool, seen):
    a = rng.choice(pool)
    b = rng.choice([rng.choice(pool), rng.uniform(-2, 2), 2, rng.choice(pool)])
    return getattr(torch, rng.choice(BINARY))(a, b)


def ternary(rng, pool, seen):
    a, b, c = rng.choice(pool), rng.choice(pool), rng.choice(pool)
    which = rng.randrange(5)
    if which == 0:
        return torch.where(a > 0, b, c)
    if which == 1:
        return torch.addcmul(a, b, c, value=.5)
    if which == 2:
        return torch.lerp(a, b, .25)
    if which == 3:
        return a.clamp(-1, 1)
    return torch.add(a, b, alpha=2)


def inplace(rng, pool, seen):
    t = rng.choice(pool)
    if rng.random() < .3 and t.dim():
        t = t[rng.randrange(t.shape[0]):]
    name = rng.choice(INPLACE)
    if name in ("clamp_min_",):
        t.clamp_min_(rng.uniform(-1, 1))
    elif name == "masked_fill_":
        t.masked_fill_(rng.choice(pool) > 0, 1.5)
    elif name == "fill_":
        t.fill_(rng.randrange(3))
    elif name in ("add_", "mul_", "sub_", "div_", "copy_"):
        getattr(t, name)(rng.choice([rng.choice(pool), rng.choice(pool), .5]) if name != "copy_" else rng.choice(pool))
    else:
        getattr(t, name)()
    return None


def out(rng, pool, seen):
    a = rng.choice(pool)
    torch.mul(a, a, out=rng.choice([t for t in pool if t.shape == a.shape and t.dtype == a.dtype]))


def view(rng, pool, seen):
    t = rng.choice(pool)
    which = rng.randrange(7)
    if which == 0:
        return t.t() if t.dim() == 2 else t.reshape(-1)
    if which == 1:
        return t.view(-1) if t.is_contiguous() else t.flatten()
    if which == 2 and t.dim():
        return t[::2]
    if which == 3 and t.dim():
        return t[..., 1:]
    if which == 4 and t.dim() and t.dtype == torch.float32:
        return t.view(torch.int32)
    if which == 5:
        return t.unsqueeze(0)
    return t.expand(2, *t.shape) if t.numel() < 10000 else t.detach()


def whole(rng, pool, seen):
    t = rng.choice(pool)
    which = rng.randrange(8)
    if which == 0:
        return t.sum()
    if which == 1:
        return t.float().softmax(-1) if t.dim() else t + 1
    if which == 2 and t.dim() == 2:
        return t.float() @ torch.ones(t.shape[1], 64)
    if which == 3:
        return t.to(rng.choice(DTYPES))
    if which == 4:
        return t.clone() if rng.random() < .5 else t.contiguous()
    if which == 5:
        return torch.cat([t.reshape(-1)[:2560], t.reshape(-1)[:2560]])
    if which == 6 and t.dim():
        return t.cumsum(0)
    return torch.nn.functional.dropout(t.float(), .3)


def look(rng, pool, seen):
    t = rng.choice(pool)
    which = rng.randrange(6)
    if which == 0:
        seen.append(repr(t))
    elif which == 1:
        seen.append(repr(t.reshape(-1)[:3].tolist()))
    elif which == 2 and t.dtype != torch.bfloat16:
        a = t.detach().numpy() if not t.is_conj() else None
        if a is not None and a.size and a.flags.writeable and t.is_contiguous():
            a.reshape(-1)[0] = 1
    elif which == 3:
        seen.append(t._version)
    elif which == 4:
        seen.append(bool((t.reshape(-1)[:1] == 1).any()))
    elif t.is_contiguous() and t.dtype == torch.float32:
        t.untyped_storage()[0] = 3
    return None


def branch(rng, pool, seen):
    t = rng.choice(pool)
    return t + 1 if t.float().mean() > 0 else t.abs()


def chance(rng, pool, seen):
    return torch.rand_like(rng.choice(pool).float()) if rng.random() < .5 else fresh(rng)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin() * 2

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos() * 3


def recorded(rng, pool, seen):
    """What has to do with gradients on the way: hooks, functions of one's own, a backward pass within, parts without."""
    t, which = rng.choice(pool), rng.randrange(5)
    if which == 0:
        made = t * 1
        if made.requires_grad:
            made.register_hook(lambda g: g * 2)
        return made
    if which == 1:
        return Doubled.apply(t.float()) if not t.is_complex() else None
    if which == 2:
        with torch.no_grad():
            return t * 2
    if which == 3:
        seen.append(str(type(t.grad_fn).__name__))
    elif t.requires_grad and not t.is_complex() and t.grad_fn is not None:
        leaf = next((p for p in reversed(pool) if p.is_leaf and p.requires_grad), None)
        return None if leaf is None else torch.autograd.grad(t.float().sum(), leaf, retain_graph=True, allow_unused=True)[0]
    return None


def wrong(rng, pool, seen):
    return rng.choice(pool) + torch.zeros(3, 7)


KINDS = [unary] * 8 + [binary] * 10 + [ternary] * 5 + [inplace] * 5 + [view] * 4 + [whole] * 3 + [look] * 2 + [branch, chance, wrong, out] + [recorded] * 2


def said(e):
    """An error without the hint of who changed a tensor, which is taken note of only once somebody asked."""
    return f"{type(e).__name__}: {str(e).partition(' It was changed')[0].partition(' Hint:')[0]}"


def run(seed, steps=40):
    """All that can be seen of one program: the pool, the marks, the generator."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    pool, seen = [fresh(rng) for _ in range(6)], []
    leaves = [fresh(rng, True).requires_grad_() for _ in range(2)] if seed % 2 else []
    pool += leaves
    for _ in range(steps):
        kind = rng.choice(KINDS)
        try:
            made = kind(rng, pool, seen)
        except (RuntimeError, TypeError, ValueError, IndexError) as e:
            seen.append(said(e))
            continue
        if made is not None and made.numel() < 200000:
            pool.append(made)
        if len(pool) > 14:
            pool.pop(rng.randrange(len(pool) - 2))
    ends = [t.float().sum() for t in pool if t.requires_grad and not t.is_complex()]
    if ends:
        try:
            pool += [g for g in torch.autograd.grad(sum(ends), leaves, allow_unused=True) if g is not None]
        except RuntimeError as e:
            seen.append(said(e))
    return pool, seen, torch.get_rng_state()


def same(a, b):
    """Equal bits, NaN equal to NaN, the same strides."""
    if a.dtype != b.dtype or a.shape != b.shape or a.stride() != b.stride() or a.requires_grad != b.requires_grad:
        return False
    a, b = a.detach(), b.detach()
    if a.is_complex():
        a, b = torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj())
    if a.is_floating_point():
        return bool(torch.equal(torch.isnan(a), torch.isnan(b)) and torch.equal(torch.nan_to_num(a.double()), torch.nan_to_num(b.double())))
    return torch.equal(a, b)
