"""Turns a list of samples into a batch: tensors are stacked, containers are rebuilt around that."""
import collections.abc
import copy
import math
import re

import rushlight as torch

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = ("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists;"
                                  " found {}")


def _numpy_kind(data):
    """'array', 'scalar' or None, without importing numpy for it."""
    cls = type(data)
    if cls.__module__ != "numpy" or cls.__name__ in ("str_", "bytes_"):
        return None
    if cls.__name__ in ("ndarray", "memmap"):
        return "array"
    return "scalar" if hasattr(data, "dtype") else None


def _is_namedtuple(data):
    return isinstance(data, tuple) and hasattr(data, "_fields")


def _rebuild_mapping(data, convert):
    try:
        if isinstance(data, collections.abc.MutableMapping):
            # A copy keeps the class and what else the mapping carries.
            clone = copy.copy(data)
            clone.update({key: convert(key) for key in data})
            return clone
        return type(data)({key: convert(key) for key in data})
    except TypeError:
        # No copy(), update() or constructor of the usual kind.
        return {key: convert(key) for key in data}


def _rebuild_sequence(data, items):
    try:
        if isinstance(data, collections.abc.MutableSequence):
            clone = copy.copy(data)
            for i, item in enumerate(items):
                clone[i] = item
            return clone
        return type(data)(items)
    except TypeError:
        return items


def default_convert(data):
    """NumPy arrays become tensors, containers are kept, everything else stays as it is.

    data: any object.

    >>> data.default_convert([torch.tensor([1]), "text"])
    [tensor([1]), 'text']
    """
    if isinstance(data, torch.Tensor):
        return data
    kind = _numpy_kind(data)
    if kind is not None:
        if kind == "array" and np_str_obj_array_pattern.search(data.dtype.str) is not None:
            return data
        return torch.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_mapping(data, lambda key: default_convert(data[key]))
    if _is_namedtuple(data):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild_sequence(data, [default_convert(item) for item in data])
    return data


def collate(batch, *, collate_fn_map=None):
    """Collate with a table {type or tuple of types: function(batch, collate_fn_map=...)}."""
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known in collate_fn_map:
            if isinstance(first, known):
                return collate_fn_map[known](batch, collate_fn_map=collate_fn_map)

    def merge(samples):
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, collections.abc.Mapping):
        return _rebuild_mapping(first, lambda key: merge([sample[key] for sample in batch]))
    if _is_namedtuple(first):
        return kind(*(merge(column) for column in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        width = len(first)
        if any(len(sample) != width for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [merge(column) for column in zip(*batch)]
        if isinstance(first, tuple):
            return columns
        return _rebuild_sequence(first, columns)
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch, *, collate_fn_map=None):
    first = batch[0]
    if first.is_nested:
        raise RuntimeError("Batches of nested tensors are not currently supported by the default collate_fn; "
                           "please provide a custom collate_fn to handle them appropriately.")
    if first.layout != torch.strided:
        raise RuntimeError("Batches of sparse tensors are not currently supported by the default collate_fn; "
                           "please provide a custom collate_fn to handle them appropriately.")
    return torch.stack(batch, 0, out=_shared_target(batch))


def _shared_target(batch):
    """In a worker batches are stacked into shared memory at once: sending large ones then copies nothing."""
    info = torch.utils.data.get_worker_info()
    first = batch[0]
    if info is None or type(first) is not torch.Tensor or first.requires_grad or first.device.type != "cpu":
        return None
    if first.numel() == 0 or any(t.shape != first.shape or t.dtype != first.dtype for t in batch):
        return None
    return _shared_empty(info, first.dtype, (len(batch), *first.shape))


def _shared_empty(info, dtype, shape):
    from rushlight.utils.data._utils.worker import INLINE_BYTES
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes <= INLINE_BYTES or getattr(info, "in_thread", False):
        storage = torch.UntypedStorage._new_nameless(nbytes)
    else:
        storage = torch.UntypedStorage._new_shared(nbytes)
    return torch.empty(0, dtype=dtype).set_(storage).view(shape)


def _numbers(batch, dtype):
    """A process's numbers arrive in shared memory; those of a thread are there at once."""
    numbers, info = torch.tensor(batch, dtype=dtype), torch.utils.data.get_worker_info()
    if not getattr(info, "in_thread", False):
        return numbers
    return _shared_empty(info, numbers.dtype, numbers.shape).copy_(numbers)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    if np_str_obj_array_pattern.search(batch[0].dtype.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([torch.as_tensor(sample) for sample in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    return torch.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    return _numbers(batch, torch.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    return _numbers(batch, None)


def collate_str_fn(batch, *, collate_fn_map=None):
    return batch


default_collate_fn_map = {torch.Tensor: collate_tensor_fn}
try:
    import numpy as _np
    default_collate_fn_map[_np.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[(_np.bool_, _np.number, _np.object_)] = collate_numpy_scalar_fn
except ModuleNotFoundError:
    _np = None
default_collate_fn_map.update({float: collate_float_fn, int: collate_int_fn, str: collate_str_fn,
                               bytes: collate_str_fn})


def default_collate(batch):
    """Stack samples into a batch with an extra first dimension; containers are collated part by part.

    batch: a list of samples: tensors, arrays, numbers, texts, or tuples, lists and dictionaries of them.

    >>> data.default_collate([{"x": 1., "y": "a"}, {"x": 2., "y": "b"}])
    {'x': tensor([1., 2.], dtype=torch.float64), 'y': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
