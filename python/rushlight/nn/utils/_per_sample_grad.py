"""Gradients of every sample by itself."""
import functools

import rushlight as torch
from rushlight.nn import functional as F
from rushlight.utils._pytree import tree_leaves


class ExpandedWeight(torch.Tensor):
    """A parameter of which every sample has its own, in `spread`. Functions with a rule keep the samples apart; others would mix them, and refuse."""

    rules = {}

    def __new__(cls, parameter, batch_size, hook):
        self = torch.Tensor._make_subclass(cls, parameter.detach())
        self.parameter, self.batch_size = parameter, batch_size
        self.spread = parameter.detach().expand(batch_size, *parameter.shape).requires_grad_()
        self.spread.register_hook(hook)
        return self

    shape, dtype, device, is_cuda, data = (property(lambda self, name=name: getattr(self.parameter, name)) for name in ("shape", "dtype", "device", "is_cuda", "data"))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in cls.rules:
            raise RuntimeError(f"Expanded Weights encountered but cannot handle function {func.__name__}")
        return cls.rules[func](*args, **(kwargs or {}))


def _check_input(func, x, weights, dim=0):
    if isinstance(x, ExpandedWeight):
        raise RuntimeError(f"Expanded Weights do not support inputs that are also ExpandedWeights. Input must be a Tensor, got ExpandedWeight in function {func.__name__}")
    size, wanted = x.shape[dim], next(w.batch_size for w in weights if isinstance(w, ExpandedWeight))
    if size == 0:
        raise RuntimeError(f"0 is not a valid batch size for Expanded Weights but got input tensor of {x} in function {func.__name__}")
    if size != wanted:
        raise RuntimeError(f"Expected ExpandedWeights to have batch size matching input but got input batch size of {size} with ExpandedWeight of batch size {wanted}")


def _rule(func, names, check, prepare=lambda x, given: None, one=None):
    """`func`, whose arguments have these names, of samples one by one, each by `one` if not by itself; `check(x, given)` says what is wrong with an input."""
    def rule(*args, **kwargs):
        given = {**dict(zip(names.split(), args)), **kwargs}
        x = given.pop("input")
        weights = {name: w for name, w in given.items() if isinstance(w, ExpandedWeight)}
        wrong = isinstance(x, torch.Tensor) and not isinstance(x, ExpandedWeight) and check(x, given)
        if wrong:
            raise RuntimeError(wrong)
        _check_input(func, x, weights.values())
        prepare(x, given)
        return torch.vmap(lambda x, mine: (one or func)(x.unsqueeze(0), **{**given, **mine}).squeeze(0), randomness="different")(x, {name: w.spread for name, w in weights.items()})
    ExpandedWeight.rules[func] = rule


def _renormalize(indices, given):
    """The rows are shortened before the samples part. Rows of padding count, as in PyTorch."""
    longest, norm = given.pop("max_norm", None), given.pop("norm_type", 2.0)
    if longest is not None:
        torch.embedding_renorm_(given["weight"].parameter.detach(), indices.contiguous(), longest, norm)
    for name in ("padding_idx", "scale_grad_by_freq", "sparse"):
        given.pop(name, None)


_rule(F.linear, "input weight bias", lambda x, given: x.ndim < 2 and
      f"Input does not have a batch dimension. Expanded Weights expected input of at least rank 2, got of rank {x.ndim}")
_rule(F.embedding, "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
      lambda x, given: x.ndim < 2 and f"Expanded Weights needs an input with a batch size, got a {x.ndim}D tensor, {x}", _renormalize)
_rule(F.layer_norm, "input normalized_shape weight bias eps", lambda x, given: len(given["normalized_shape"]) == x.ndim and
      "Expanded Weights: Layer norm should not normalize over batch dimension for per sample gradient computations but got that normalized shape, "
      f"{tuple(given['normalized_shape'])}, matched input shape.")
_rule(F.group_norm, "input num_groups weight bias eps", lambda x, given: False, one=torch.group_norm)   # without a word about batches of one
_rule(F.instance_norm, "input running_mean running_var weight bias use_input_stats momentum eps", lambda x, given: False)
for _conv, _rank in ((F.conv1d, 3), (F.conv2d, 4), (F.conv3d, 5)):
    _rule(_conv, "input weight bias stride padding dilation groups", lambda x, given, rank=_rank: x.ndim != rank and
          f"Expanded Weights only support convolution with batched input, got {x.ndim} dimensions, expected input of dim {rank}")


def _packed(stack, x, sizes, states, weights):
    """Packed sequences, one after the other."""
    starts = sizes.cumsum(0) - sizes
    rows = [starts[:int((sizes > k).sum())] + k for k in range(int(sizes[0]))]
    done = [stack(x[mine], [s[:, k] for s in states], [w.spread[k] if isinstance(w, ExpandedWeight) else w for w in weights]) for k, mine in enumerate(rows)]
    output, *last = zip(*done)
    return (torch.cat(output)[torch.cat(rows).argsort()], *(torch.stack(each, 1) for each in last))


def _recurrent(func, x, *rest):
    """Recurrent layers. Between them nothing is dropped, as in PyTorch."""
    padded = isinstance(rest[2], bool)
    sizes, state, weights, biases, layers, _, train, both, batch_first = (None, *rest) if padded else (*rest, False)

    def stack(x, states, weights):
        first = [s.unsqueeze(1) for s in states]
        return tuple(y.squeeze(1) for y in func(x.unsqueeze(1), first[0] if func is not torch.lstm else first, weights, biases, layers, 0.0, train, both, False))
    states = list(state) if func is torch.lstm else [state]
    if padded:
        _check_input(func, x, weights, 0 if batch_first else 1)
        x = x.transpose(0, 1) if batch_first else x
        dims = [0 if isinstance(w, ExpandedWeight) else None for w in weights]
        output, *last = torch.vmap(stack, (1, 1, dims), 1)(x, states, [w.spread if isinstance(w, ExpandedWeight) else w for w in weights])
        return (output.transpose(0, 1) if batch_first else output, *last)
    return _packed(stack, x, sizes, states, weights)


for _cell in (torch.rnn_tanh, torch.rnn_relu, torch.gru, torch.lstm):
    ExpandedWeight.rules[_cell] = functools.partial(_recurrent, _cell)


def _size_of(tensors, dim):
    """The batch size that all of the tensors have."""
    sizes = [x.shape[dim] for x in tensors]
    if not sizes:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights cannot compute the batch size "
                           "from the inputs. Please specify it explicitly")
    other = next((n for n in sizes if n != sizes[0]), sizes[0])
    if other != sizes[0]:
        raise RuntimeError(f"When computing batch size, found at least one input with batch size {sizes[0]} and one with batch size {other}. Please specify it "
                           "explicitly using the batch size kwarg in call_for_per_sample_grads")
    return sizes[0]


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """`module`, whose backward leaves per-sample gradients in `grad_sample` of the parameters."""
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, torch.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")

    params = dict(module.named_parameters())
    for p in params.values():
        if getattr(p, "grad_sample", None) is not None:
            raise RuntimeError("Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without clearing gradients. Please "
                               f"clear out the grad_sample parameter of {p}")

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        size = _size_of(tensors, 0 if batch_first else 1) if batch_size is None else batch_size
        scale = size if loss_reduction == "mean" else 1

        def keep(p):
            def hook(grad):
                p.grad_sample = grad * scale if getattr(p, "grad_sample", None) is None else p.grad_sample + grad * scale
            return hook
        expanded = {name: ExpandedWeight(p, size, keep(p)) for name, p in params.items() if p.requires_grad}
        return torch.func.functional_call(module, expanded, args, kwargs)

    return wrapper
