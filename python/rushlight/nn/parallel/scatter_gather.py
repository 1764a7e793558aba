"""Cutting arguments up for several devices, and joining results."""
import rushlight as torch

__all__ = ["scatter", "scatter_kwargs", "gather"]


def is_namedtuple(obj):
    """Whether `obj` is an instance of a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


_is_namedtuple = is_namedtuple


def _device(target):
    return torch.device(target) if not isinstance(target, int) else torch.device("cuda", target)


def _deal(obj, pieces, n):
    """n things like obj, with pieces(tensor) in the places of its tensors; other values are repeated."""
    def cut(obj):
        if isinstance(obj, (torch.Tensor, torch.nn.utils.rnn.PackedSequence)):
            return pieces(obj)
        if is_namedtuple(obj):
            return [type(obj)(*values) for values in zip(*map(cut, obj))]
        if isinstance(obj, tuple) and obj:
            return list(zip(*map(cut, obj)))
        if isinstance(obj, list) and obj:
            return [list(values) for values in zip(*map(cut, obj))]
        if isinstance(obj, dict) and obj:
            return [type(obj)(pairs) for pairs in zip(*map(cut, obj.items()))]
        return [obj for _ in range(n)]

    return cut(obj)


def scatter(inputs, target_gpus, dim=0):
    """Tensors are cut along dim, a piece for each device; other values are repeated."""
    targets = [_device(t) for t in target_gpus]

    def pieces(x):
        cut = x.chunk(len(targets), dim) if isinstance(x, torch.Tensor) else [x] * len(targets)
        return [piece.to(device) for piece, device in zip(cut, targets)]

    return _deal(inputs, pieces, len(targets))


def _recursive_to(inputs, target_device, use_side_stream_for_tensor_copies):
    """The same with its tensors on a device, in a list of one. The copies are on the current stream, which needs nobody to wait for another."""
    return _deal(inputs, lambda x: [x.to(target_device)], 1)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """`scatter` of positional and keyword arguments, filled up to the same number."""
    args = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(args), len(named))
    args = list(args) + [()] * (count - len(args))
    named = list(named) + [{}] * (count - len(named))
    return tuple(args), tuple(named)


def gather(outputs, target_device, dim=0):
    """Join results from several devices on one."""
    device = torch.device("cpu") if target_device == "cpu" or target_device == -1 else _device(target_device)

    def join(values):
        first = values[0]
        if isinstance(first, torch.Tensor):
            moved = [v.to(device).unsqueeze(0) if v.dim() == 0 else v.to(device) for v in values]
            return torch.cat(moved, dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if not all(len(first) == len(v) for v in values):
                raise ValueError("All dicts must have the same number of keys")
            return type(first)((key, join([v[key] for v in values])) for key in first)
        if is_namedtuple(first):
            return type(first)._make(map(join, zip(*values)))
        return type(first)(map(join, zip(*values)))

    return join(outputs)
