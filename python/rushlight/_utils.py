"""Small parts used across the package: rebuilding tensors from pickles, wrapping exceptions, flattening lists."""
import functools
import importlib
import os
import sys
import traceback
from collections import defaultdict

import rushlight as torch

# --- exceptions from workers --------------------------------------------------------------------------------


class KeyErrorMessage(str):
    """A KeyError shows repr() of its argument; this keeps a message of several lines readable."""

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception with its traceback as text, to be sent between threads and processes and raised there."""

    def __init__(self, exc_info=None, where="in background"):
        if exc_info is None:
            exc_info = sys.exc_info()
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def __getstate__(self):
        """Classes that call themselves torch's may not be found under that name where this is read."""
        name = self.exc_type.__name__
        ours = self.exc_type.__module__ == "torch" and getattr(torch, name, None) is self.exc_type
        return dict(self.__dict__, exc_type=name if ours else self.exc_type)

    def __setstate__(self, state):
        self.__dict__.update(state)
        if isinstance(self.exc_type, str):
            self.exc_type = getattr(torch, self.exc_type)

    def reraise(self):
        """Raise the exception here, of the same class, with both tracebacks."""
        text = "Caught %s %s.\nOriginal %s" % (self.exc_type.__name__, self.where, self.exc_msg)
        if self.exc_type is KeyError:
            raise KeyError(KeyErrorMessage(text))
        if getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:
            # Its constructor wants something else.
            raise RuntimeError(text) from None
        raise error


# --- rebuilding tensors: these names stand in files, their arguments are part of the format --------------------

_sparse_tensors_to_validate = []


def _over(untyped, dtype, storage_offset, size, stride):
    """A tensor that shows a storage, which must hold it: set_() to these sizes would make the storage grow, and sizes come from files."""
    fake_mode = torch._guards.active_fake_mode() if untyped.device.type == "meta" else None
    if fake_mode is not None:
        from torch.utils._python_dispatch import _disable_current_modes
        with _disable_current_modes():
            bare = torch.empty((0,), dtype=dtype, device="meta").set_(untyped, storage_offset, size, stride)
        return torch._subclasses.FakeTensor(fake_mode, bare, getattr(untyped, "_fake_device", "meta"))
    tensor = torch.empty((0,), dtype=dtype, device=untyped.device)
    if untyped.device.type == "meta":
        return tensor.set_(untyped, storage_offset, size, stride)
    return tensor.set_(untyped).as_strided_(size, stride, storage_offset)


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _over(getattr(storage, "_untyped_storage", storage), storage.dtype, storage_offset, size, stride)


def get_tensor_metadata(tensor):
    """The conjugate and negative bits, as a dict to put into a pickle."""
    bits = {}
    if tensor.is_conj():
        bits["conj"] = True
    if tensor.is_neg():
        bits["neg"] = True
    return bits


def set_tensor_metadata(tensor, metadata):
    if metadata.get("conj"):
        torch._C._set_conj(tensor, True)
    if metadata.get("neg"):
        torch._C._set_neg(tensor, True)


def _finish(tensor, requires_grad, backward_hooks, metadata):
    if metadata:
        set_tensor_metadata(tensor, metadata)
    tensor.requires_grad = requires_grad
    # Hooks are functions of the program that saved the file; they are kept as that program put them there.
    if backward_hooks:
        tensor._backward_hooks = backward_hooks
    return tensor


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    return _finish(_rebuild_tensor(storage, storage_offset, size, stride), requires_grad, backward_hooks, metadata)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    tensor = _over(getattr(storage, "_untyped_storage", storage), dtype, storage_offset, size, stride)
    return _finish(tensor, requires_grad, backward_hooks, metadata)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    parameter = torch.nn.Parameter(data, requires_grad)
    if backward_hooks:
        parameter._backward_hooks = backward_hooks
    return parameter


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return _set_obj_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    tensor = data.to(device=device, dtype=dtype)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    tensor = torch.from_numpy(data).to(dtype=dtype, device=device)
    tensor.requires_grad = requires_grad
    return tensor


_rebuild_xla_tensor = _rebuild_device_tensor_from_numpy


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device, requires_grad):
    return torch.Tensor._make_wrapper_subclass(cls, size, strides=stride, dtype=dtype, storage_offset=storage_offset,
                                               layout=layout, device=device, requires_grad=requires_grad)


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    return torch._nested_view_from_buffer(buffer, sizes, strides, storage_offsets)


def _rebuild_sparse_tensor(layout, data):
    if layout == torch.sparse_coo:
        indices, values, size = data[:3]
        coalesced = data[3] if len(data) > 3 else None
        result = torch.sparse_coo_tensor(indices, values, size, check_invariants=False, is_coalesced=coalesced)
    elif layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        compressed, plain, values, size = data
        result = torch.sparse_compressed_tensor(compressed, plain, values, size, layout=layout,
                                                check_invariants=False)
    else:
        raise NotImplementedError("rebuilding sparse tensor for layout %s" % (layout,))
    # Files are checked once they are read whole: _validate_loaded_sparse_tensors.
    _sparse_tensors_to_validate.append(result)
    return result


def _validate_loaded_sparse_tensors():
    """Check the indices of the sparse tensors read since the last call."""
    try:
        for tensor in _sparse_tensors_to_validate:
            if tensor.layout is torch.sparse_coo:
                torch._validate_sparse_coo_tensor_args(tensor._indices(), tensor._values(), tensor.size(),
                                                       tensor.is_coalesced())
            else:
                by_row = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
                compressed = tensor.crow_indices() if by_row else tensor.ccol_indices()
                plain = tensor.col_indices() if by_row else tensor.row_indices()
                torch._validate_sparse_compressed_tensor_args(compressed, plain, tensor.values(), tensor.size(),
                                                              tensor.layout)
    finally:
        _sparse_tensors_to_validate.clear()


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    integers = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}.get(storage.dtype)
    if integers is None:
        raise NotImplementedError("quantized tensors of %s are not supported" % storage.dtype)
    tensor = _over(getattr(storage, "_untyped_storage", storage), integers, storage_offset, size, stride)
    scheme = quantizer_params[0]
    if scheme == torch.per_tensor_affine:
        tensor = torch._quantized_over(tensor, quantizer_params[1], quantizer_params[2])
    elif scheme in (torch.per_channel_affine, torch.per_channel_affine_float_qparams):
        _, scales, zero_points, axis = quantizer_params
        if isinstance(scales, list):
            whole = scheme == torch.per_channel_affine
            scales = torch.tensor(scales, dtype=torch.double if whole else torch.float)
            zero_points = torch.tensor(zero_points, dtype=torch.long if whole else torch.float)
        tensor = torch._quantized_over(tensor, scales, zero_points, axis)
    else:
        raise RuntimeError("Can't deserialize quantized tensor with qscheme %s" % (scheme,))
    return _finish(tensor, requires_grad, backward_hooks, None)


def _get_obj_state(obj):
    """The attributes of an object that a pickle must carry: a dict, or (dict, slots)."""
    state = getattr(obj, "__getstate__", None)
    if state is not None and type(obj).__getstate__ is not getattr(object, "__getstate__", None):
        return state()
    slots = [name for cls in type(obj).__mro__ for name in _slot_names(cls)]
    values = {name: getattr(obj, name) for name in slots if hasattr(obj, name)}
    own = dict(getattr(obj, "__dict__", {}))
    return (own, values) if values else own


def _slot_names(cls):
    names = cls.__dict__.get("__slots__", ())
    names = (names,) if isinstance(names, str) else names
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _set_obj_state(obj, state):
    slots = {}
    if isinstance(state, tuple):
        if len(state) != 2:
            raise RuntimeError("Invalid serialized state: %s" % (state,))
        state, slots = state
    for name, value in {**(state or {}), **(slots or {})}.items():
        setattr(obj, name, value)
    return obj


# --- lists of tensors as one ----------------------------------------------------------------------------------


def _flatten_dense_tensors(tensors):
    """One contiguous vector of all elements."""
    return torch.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of flat with the shapes of tensors."""
    parts, at = [], 0
    for t in tensors:
        parts.append(flat.narrow(0, at, t.numel()).view_as(t))
        at += t.numel()
    return tuple(parts)


def _flatten_sparse_tensors(tensors):
    return (_flatten_dense_tensors([t._indices() for t in tensors]),
            _flatten_dense_tensors([t._values() for t in tensors]))


def _unflatten_sparse_tensors(flat, tensors):
    indices = _unflatten_dense_tensors(flat[0], [t._indices() for t in tensors])
    values = _unflatten_dense_tensors(flat[1], [t._values() for t in tensors])
    return tuple(t.new(i, v, t.size()) for t, i, v in zip(tensors, indices, values))


def _take_tensors(tensors, size_limit):
    """Groups of tensors of one type, each of at most size_limit bytes (a larger tensor is alone)."""
    groups = defaultdict(lambda: [[], 0])
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        group = groups[tensor.type()]
        if group[0] and group[1] + size > size_limit:
            yield group[0]
            group = groups[tensor.type()] = [[], 0]
        group[0].append(tensor)
        group[1] += size
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(tensors, ordered_tensors):
    """tensors, grouped by type, put into the order of types in ordered_tensors."""
    queues = defaultdict(list)
    for tensor in tensors:
        queues[tensor.type()].append(tensor)
    feeds = {name: iter(queue) for name, queue in queues.items()}
    return tuple(next(feeds[tensor.type()]) for tensor in ordered_tensors)


def _chunk_or_narrow_cat(tensor, num_chunks, narrow_dim, cat_dim=0):
    return torch.cat(tensor.chunk(num_chunks, dim=narrow_dim), dim=cat_dim)


# --- devices ----------------------------------------------------------------------------------------------------


def _get_available_device_type():
    """The type of the accelerator present, or None."""
    device = torch._C._device_accelerator()
    return None if device is None else device.type


def _get_device_module(device_type):
    module = getattr(torch, device_type, None)
    if module is None:
        raise RuntimeError("Device '%s' does not have a corresponding module registered as 'torch.%s'."
                           % (device_type, device_type))
    return module


def _get_device_attr(get_member):
    kind = _get_available_device_type()
    return None if kind is None else get_member(_get_device_module(kind))


def _get_current_device_index():
    return _get_device_attr(lambda module: module.current_device())


get_current_device_index = _get_current_device_index


def _get_all_device_indices():
    return _get_device_attr(lambda module: list(range(module.device_count())))


def _get_devices_properties(device_ids):
    return [_get_device_attr(lambda module: module.get_device_properties(i)) for i in device_ids]


def _get_device_index(device, optional=False, allow_cpu=False):
    """The index of a device given as number, text or torch.device; -1 for the CPU where that is allowed."""
    if isinstance(device, str):
        device = torch.device(device)
    index = None
    if isinstance(device, torch.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError("Expected a non cpu device, but got: %s" % device)
        index = -1 if device.type == "cpu" else device.index
    elif isinstance(device, int):
        index = device
    if index is None:
        if not optional:
            raise ValueError("Expected a torch.device with a specified index or an integer, but got:%s" % (device,))
        index = _get_current_device_index()
        if index is None:
            raise RuntimeError("no accelerator is available, so there is no current device")
    return index


def _get_restore_location(device):
    return str(device)


def _element_size(dtype):
    """Bytes of one element."""
    if not isinstance(dtype, torch.dtype):
        raise RuntimeError("expected torch.dtype, but got %s" % type(dtype))
    return dtype.itemsize


def _handle_complex(tensor):
    """Complex tensors as real ones with a last dimension of 2."""
    if isinstance(tensor, torch.nn.UninitializedParameter) or not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor)


def _get_async_or_non_blocking(function_name, non_blocking, kwargs):
    if not kwargs:
        return non_blocking
    if len(kwargs) != 1 or "async" not in kwargs:
        raise TypeError("%s() got an unexpected keyword argument '%s'" % (function_name, next(iter(kwargs))))
    return kwargs["async"]


def _type(self, dtype=None, non_blocking=False, **kwargs):
    """storage.type(dtype): its type name, or a converted copy."""
    non_blocking = _get_async_or_non_blocking("type", non_blocking, kwargs)
    if dtype is None:
        return type(self).__module__.replace("rushlight", "torch", 1) + "." + type(self).__name__
    if isinstance(dtype, str):
        dtype = _import_dotted_name(dtype)
    return self if dtype == type(self) else dtype(self)


def _to(self, device, non_blocking=False):
    if self.device == device:
        return self
    moved = torch.UntypedStorage(self.size(), device=device)
    moved.copy_(self, non_blocking)
    return moved


# --- odds and ends ----------------------------------------------------------------------------------------------


def _import_dotted_name(name):
    parts = name.split(".")
    value = __import__(parts[0])
    for part in parts[1:]:
        value = getattr(value, part)
    return value


def try_import(module_name):
    """The module, or None where it is not installed."""
    if importlib.util.find_spec(module_name) is None:
        return None
    return importlib.import_module(module_name)


class _ClassPropertyDescriptor:
    def __init__(self, getter):
        self.fget = getter

    def __get__(self, instance, owner=None):
        return self.fget.__get__(instance, owner if owner is not None else type(instance))()


def classproperty(func):
    """A property of the class itself."""
    return _ClassPropertyDescriptor(func if isinstance(func, (classmethod, staticmethod)) else classmethod(func))


def _dummy_type(name):
    """A class that says, when it is made, what this build lacks."""
    def refuse(self, *args, **kwargs):
        raise RuntimeError("Tried to instantiate dummy base class %s" % name)
    return type(name, (object,), {"__init__": refuse})


def _functionalize_sync(t):
    raise NotImplementedError("functionalisation is not part of rushlight")


def is_compiling():
    return torch.compiler.is_compiling()


@functools.lru_cache(None)
def cpu_count():
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count()


def render_call(fn, args, kwargs):
    """A call as text, with tensors by shape."""
    name = getattr(fn, "__qualname__", None) or str(fn)
    shown = [repr(a) for a in args] + ["%s=%r" % item for item in kwargs.items()]
    return "%s(%s)" % (name, ", ".join(shown))


class CallbackRegistry:
    """Callbacks of one kind of event."""

    def __init__(self, name):
        self.name = name
        self.callback_list = []

    def add_callback(self, cb):
        self.callback_list.append(cb)

    def fire_callbacks(self, *args, **kwargs):
        for callback in self.callback_list:
            callback(*args, **kwargs)


class _LazySeedTracker:
    """Remembers the last seeding calls made before a device was ready for them."""

    def __init__(self):
        self.calls = {}

    def queue_seed_all(self, cb, trace):
        self.calls = {"all": (cb, trace)}

    def queue_seed(self, cb, trace):
        self.calls["one"] = (cb, trace)

    def get_calls(self):
        return list(self.calls.values())
