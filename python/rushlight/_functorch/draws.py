"""Random numbers under vmap: refused, different for each example, or the same for all."""
import math
from types import FunctionType

import rushlight as torch
from ..overrides import TorchFunctionMode
from ..utils._pytree import tree_flatten, tree_map, tree_unflatten
from . import draw_modes, levels
from .batched import BatchedTensor, by_example, pointwise, refuse_draws, rule, top_level, unwrap

MADE = {"rand": 0, "randn": 0, "randint": 1, "randperm": None, "normal": 2}  # how many arguments come before the size, at least
LIKE = {"rand_like", "randn_like", "randint_like"}
FILLED = {"uniform_", "normal_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_", "random_"}
DRAWN = {"bernoulli", "normal", "poisson", "multinomial", "binomial", "dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
         "dropout1d", "dropout2d", "dropout3d", "rrelu", "native_dropout", "_standard_gamma", "_sample_dirichlet"}
FROM = {"bernoulli", "normal", "poisson", "multinomial", "binomial", "_standard_gamma", "_sample_dirichlet"}  # what is drawn depends on the values
SOMETIMES = {"scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"}  # and what nn.functional composes in Python


def _tensor(data, *args, **kwargs):
    """torch.tensor, which reads its data: a batched tensor is copied, one inside a list has no number to give."""
    if isinstance(data, BatchedTensor):
        return torch.as_tensor(data, *args, **kwargs).detach().clone()
    for x in tree_flatten(data)[0]:
        if isinstance(x, BatchedTensor):
            x.item()
    return torch.tensor(data, *args, **kwargs)


class Draws(TorchFunctionMode):
    """Draws that no batched tensor takes part in, torch.rand(3): a batch of them, where examples are to differ."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if func is torch.tensor:
            return _tensor(*args, **kwargs)
        if not levels or top_level(args, kwargs) is not None or _still(name, args, kwargs):
            return func(*args, **kwargs)
        if name not in MADE and name not in LIKE and name not in FILLED and name not in DRAWN:
            if name in SOMETIMES or isinstance(func, FunctionType) and getattr(torch.nn.functional, name, None) is func:
                return self.watched(func, args, kwargs)
            return func(*args, **kwargs)
        if "error" in draw_modes:
            refuse_draws()
        apart = [level for level, mode in enumerate(draw_modes) if mode == "different"]
        if not apart:
            return func(*args, **kwargs)
        if name in FILLED:
            raise RuntimeError("vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
                               "randomness. If this is necessary for your usage, please file an issue with functorch.")
        if name in MADE and not any(isinstance(x, torch.Tensor) for x in tree_flatten((args, kwargs))[0]):
            return self.made(func, name, args, dict(kwargs), apart)
        return self.apart(func, args, kwargs, apart)

    def apart(self, func, args, kwargs, apart):
        flat, spec = tree_flatten((args, kwargs))
        at = next(i for i, x in enumerate(flat) if isinstance(x, torch.Tensor))
        for level in apart:
            flat[at] = BatchedTensor(flat[at].unsqueeze(0).expand(levels[level], *flat[at].shape), level)
        args, kwargs = tree_unflatten(flat, spec)
        return func(*args, **kwargs)

    def watched(self, func, args, kwargs):
        """What may draw: one sees it from the generators."""
        state = torch.random._states()
        out = func(*args, **kwargs)
        if draw_modes.count("same") == len(draw_modes) or not torch.random._drawn_since(state):
            return out
        torch.random._go_on_from(state)
        if "error" in draw_modes:
            refuse_draws()
        return self.apart(func, args, kwargs, [level for level, mode in enumerate(draw_modes) if mode == "different"])

    def made(self, func, name, args, kwargs, apart):
        batch = tuple(levels[level] for level in apart)
        if name == "randperm":
            value = torch.stack([func(*args, **kwargs) for _ in range(math.prod(batch))]).unflatten(0, batch)
        else:
            before = MADE[name] + (name == "randint" and len(args) > 1 and isinstance(args[1], int))
            size = kwargs.pop("size", None) if "size" in kwargs else args[before:]
            size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
            value = func(*args[:before], batch + size, **kwargs)
        for level in apart:
            value = BatchedTensor(value, level)
        return value


def _still(name, args, kwargs):
    """A dropout that drops nothing."""
    given = dict(zip(("input", "p", "training"), args), **kwargs)
    return "dropout" in name and (not given.get("training", given.get("train", True)) or given.get("p") == 0)


def _refuse_same(level):
    if draw_modes[level] == "same":
        raise RuntimeError("Vmap does not currently support same randomness with a batched tensor input. Draw from what is the same for all "
                           "examples, or use randomness='different'.")


@rule(*LIKE)
def _like(func, args, kwargs, level):
    if draw_modes[level] == "error":
        refuse_draws()
    x = args[0] if args else kwargs.pop("input")
    if draw_modes[level] == "different":
        return BatchedTensor(func(x.value, *args[1:], **kwargs), level)
    return func(x.value.new_empty(x.shape), *args[1:], **kwargs)


@rule(*DRAWN)
def _drawn(func, args, kwargs, level):
    name = getattr(func, "__name__", "")
    if not _still(name, args, kwargs):
        if draw_modes[level] == "error":
            refuse_draws()
        if name in FROM:
            _refuse_same(level)
        if draw_modes[level] == "different" and not kwargs.get("inplace"):
            if name == "dropout":  # element by element, however they lie
                args, kwargs = tree_map(lambda x: BatchedTensor(x.value.contiguous(), level) if isinstance(x, BatchedTensor) else x, (args, kwargs))
            if name in ("bernoulli", "normal", "poisson", "dropout", "alpha_dropout", "native_dropout", "_standard_gamma") or \
                    name == "multinomial" and args and args[0].ndim == 1 or name == "_sample_dirichlet" and args[0].ndim > 0:
                return pointwise(func, args, kwargs, level)
    return by_example(func, args, kwargs, level)


@rule(*FILLED)
def _filled(func, args, kwargs, level):
    if draw_modes[level] == "error":
        refuse_draws()
    if top_level(args[1:], kwargs) == level:
        _refuse_same(level)
    target, batched = unwrap(args[0], level)
    if not batched:
        raise RuntimeError("vmap: Attempted to call an in-place random operation on a tensor that is not batched, with arguments that are. "
                           "Use the function that returns a new tensor.")
    if draw_modes[level] == "different":
        rest = [unwrap(a, level)[0] if isinstance(a, torch.Tensor) else a for a in args[1:]]
        func(target, *rest, **kwargs)
    else:
        target.copy_(func(target.new_empty(target.shape[1:]), *args[1:], **kwargs))
    return args[0]
