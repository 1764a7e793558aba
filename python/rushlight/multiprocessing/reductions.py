"""How tensors and storages are pickled between processes of one machine: as handles of shared memory.

A storage that is sent is moved into shared memory in place, and both sides then see the same bytes.  The
receiver keeps what it has opened in `shared_cache`, so that two tensors of one storage stay two views of one.
`dumps_small_inline` is what loader workers use: small tensors go inside the message, which is cheaper.
"""
import io
import multiprocessing
import os
import threading
import weakref
from multiprocessing import reduction
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import register_after_fork

import rushlight as torch

__all__ = ["init_reductions"]


class StorageWeakRef:
    """A weak reference to a storage: alive as long as somebody has the object. It has no finaliser."""

    __slots__ = ["cdata", "_ref"]

    def __init__(self, storage):
        storage = getattr(storage, "_untyped_storage", storage)
        self.cdata = storage._cdata
        self._ref = weakref.ref(storage)

    def storage(self):  # None when it is gone
        return self._ref()

    def expired(self):
        return self._ref() is None

    def __hash__(self):
        return self.cdata

    def __eq__(self, other):
        return self is other or self.cdata == other.cdata


class SharedCache(dict):
    """Handle of shared memory -> weak reference to the storage opened from it."""

    def __init__(self):
        super().__init__()
        self.limit = 128
        self._renew_lock()
        register_after_fork(self, SharedCache._renew_lock)

    def _renew_lock(self):
        self.lock = threading.Lock()

    def get(self, key):
        with self.lock:
            return dict.get(self, key)

    def __setitem__(self, key, value):
        with self.lock:
            dict.__setitem__(self, key, value)
            if len(self) > self.limit:
                self._drop_dead()

    def _drop_dead(self):
        live = 0
        for key, ref in list(self.items()):
            if ref.expired():
                del self[key]
            else:
                live += 1
        self.limit = max(128, live * 2)

    def free_dead_references(self):
        with self.lock:
            self._drop_dead()


shared_cache = SharedCache()


def _remember(key, storage):
    """Note an opened storage, so that one that is sent again is opened once."""
    shared_cache[key] = StorageWeakRef(storage)


def rebuild_tensor(cls, storage, metadata):
    offset, size, stride, requires_grad = metadata
    tensor = torch._utils._rebuild_tensor(storage, offset, size, stride)
    if cls is torch.nn.parameter.Parameter:
        return torch.nn.parameter.Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


def rebuild_meta_tensor(tensor_cls, tensor_size, tensor_stride, tensor_offset, dtype, storage_size_bytes,
                        requires_grad):
    untyped = torch.UntypedStorage(storage_size_bytes, device="meta")
    tensor = torch.empty((0,), dtype=dtype, device="meta").set_(untyped, tensor_offset, tensor_size, tensor_stride)
    if tensor_cls is torch.nn.parameter.Parameter:
        return torch.nn.parameter.Parameter(tensor, requires_grad=requires_grad)
    tensor.requires_grad = requires_grad
    return tensor


def reduce_tensor(tensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does "
                           "not support crossing process boundaries. If you just want to transfer the data, call "
                           "detach() on the tensor before serializing (e.g., putting it on the queue).")
    if tensor.is_nested:
        return reduce_nested_tensor(tensor)
    if tensor.layout is not torch.strided:
        return reduce_sparse_tensor(tensor)
    kind = tensor.device.type
    if kind == "meta":
        return rebuild_meta_tensor, (type(tensor), tensor.size(), tensor.stride(), tensor.storage_offset(),
                                     tensor.dtype, tensor.untyped_storage().nbytes(), tensor.requires_grad)
    if kind == "cuda":
        return reduce_cuda_tensor(tensor)
    if kind != "cpu":
        raise NotImplementedError("sending tensors on device '%s' to another process is not supported: "
                                  "send tensor.cpu()" % kind)
    if tensor.is_conj() or tensor.is_neg():
        # The bits live in the tensor, not in its memory.
        tensor = tensor.resolve_conj().resolve_neg().detach().requires_grad_(tensor.requires_grad)
    storage = torch.storage.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)
    return rebuild_tensor, (type(tensor), storage,
                            (tensor.storage_offset(), tensor.size(), tensor.stride(), tensor.requires_grad))


def rebuild_cuda_storage(device, handle, size, offset, counter, slot, event, waits):
    """The storage of another process, or the one that was opened for it before."""
    if handle is None or not size:
        return torch.UntypedStorage(0, device=torch.device("cuda", device))
    storage = storage_from_cache(torch.UntypedStorage, (handle, offset))
    if storage is None:
        torch.cuda._lazy_init()
        storage = torch.UntypedStorage._new_shared_cuda(device, handle, size, offset, counter, slot, event, waits)
        _remember((handle, offset), storage)
    else:
        torch.UntypedStorage._release_ipc_counter(counter, slot, device=device)
    return storage


def share_cuda_storage(storage):
    """What rebuild_cuda_storage() is given in the other process; this one keeps the memory until that is done."""
    shared = storage._share_cuda_()
    if shared[1] is not None:
        _remember((shared[1], shared[3]), storage)
    return shared


def rebuild_cuda_tensor(cls, size, stride, offset, storage_cls, dtype, device, handle, storage_bytes, storage_offset, requires_grad, counter, slot, event, waits):
    storage = rebuild_cuda_storage(device, handle, storage_bytes, storage_offset, counter, slot, event, waits)
    return rebuild_tensor(cls, torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True), (offset, size, stride, requires_grad))


def reduce_cuda_tensor(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().requires_grad_(tensor.requires_grad) if tensor.is_conj() or tensor.is_neg() else tensor
    device, handle, storage_bytes, storage_offset, counter, slot, event, waits = share_cuda_storage(tensor.untyped_storage())
    return rebuild_cuda_tensor, (type(tensor), tensor.size(), tensor.stride(), tensor.storage_offset(), torch.storage.TypedStorage, tensor.dtype, device, handle, storage_bytes,
                                 storage_offset, tensor.requires_grad, counter, slot, event, waits)


def reduce_nested_tensor(nt):
    return rebuild_nested_tensor, (nt.values(), nt._nested_tensor_size(), nt._nested_tensor_strides(),
                                   nt._nested_tensor_storage_offsets())


def rebuild_nested_tensor(buffer, sizes, strides, offsets):
    return torch._nested_view_from_buffer_copy(buffer, sizes, strides, offsets)


def rebuild_sparse_coo_tensor(indices, values, shape, is_coalesced):
    return torch.sparse_coo_tensor(indices, values, shape, is_coalesced=is_coalesced)


def rebuild_sparse_compressed_tensor(compressed, plain, values, shape, layout):
    return torch.sparse_compressed_tensor(compressed, plain, values, shape, layout=layout)


def reduce_sparse_tensor(sparse):
    if sparse.layout is torch.sparse_coo:
        return rebuild_sparse_coo_tensor, (sparse._indices(), sparse._values(), sparse.shape, sparse.is_coalesced())
    if sparse.layout in (torch.sparse_csr, torch.sparse_bsr):
        compressed, plain = sparse.crow_indices(), sparse.col_indices()
    elif sparse.layout in (torch.sparse_csc, torch.sparse_bsc):
        compressed, plain = sparse.ccol_indices(), sparse.row_indices()
    else:
        raise NotImplementedError("sending tensors of layout %s to another process" % (sparse.layout,))
    return rebuild_sparse_compressed_tensor, (compressed, plain, sparse.values(), sparse.shape, sparse.layout)


# --- storages ----------------------------------------------------------------------------------------------------


def fd_id(fd):
    """A file descriptor's identity across processes: device and inode."""
    stat = os.fstat(fd)
    return stat.st_ino, stat.st_dev


def storage_from_cache(cls, key):
    ref = shared_cache.get(key)
    return None if ref is None else ref.storage()


def rebuild_storage_fd(cls, df, size):
    cls = torch.UntypedStorage if cls is None else cls     # the class itself need not travel
    fd = df.detach()
    try:
        key = fd_id(fd)
        storage = storage_from_cache(cls, key)
        if storage is None:
            storage = cls._new_shared_fd_cpu(fd, size)
            _remember(key, storage)
        return storage
    finally:
        os.close(fd)


def rebuild_storage_filename(cls, manager, handle, size, dtype=None):
    storage = storage_from_cache(cls, handle)
    if storage is None:
        storage = torch.UntypedStorage._new_shared_filename_cpu(manager, handle, size)
        _remember(handle, storage)
    else:
        storage._shared_incref()
    return storage


def rebuild_storage_empty(cls):
    return torch.UntypedStorage() if cls is None else cls()


def rebuild_typed_storage(storage, dtype):
    return torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def reduce_typed_storage(storage):
    return rebuild_typed_storage, (storage._untyped_storage, storage.dtype)


def rebuild_typed_storage_child(storage, storage_type):
    return storage_type(wrap_storage=storage, _internal=True)


def reduce_typed_storage_child(storage):
    return rebuild_typed_storage_child, (storage._untyped_storage, type(storage))


def reduce_storage(storage):
    if storage.device.type == "meta":
        raise RuntimeError("Cannot pickle meta storage; try pickling a meta tensor instead")
    if storage.device.type == "cuda":
        return rebuild_cuda_storage, share_cuda_storage(storage)
    if storage.device.type != "cpu":
        raise NotImplementedError("sending storages on device '%s' to another process" % storage.device.type)
    if storage.size() == 0:
        # Nothing can be mapped from an empty file.
        return rebuild_storage_empty, (None,)
    if torch.multiprocessing.get_sharing_strategy() == "file_system":
        manager, handle, size = storage._share_filename_cpu_()
        _remember(handle, storage)
        storage._shared_incref()
        return rebuild_storage_filename, (None, manager, handle, size)
    fd, size = storage._share_fd_cpu_()
    _remember(fd_id(fd), storage)
    return rebuild_storage_fd, (None, reduction.DupFd(fd), size)


def rebuild_event(device, handle):
    return torch.cuda.Event.from_ipc_handle(device, handle)


def reduce_event(event):
    return rebuild_event, (event.device, event.ipc_handle())


def init_reductions():
    """Teach the pickler of queues and pipes about tensors and storages."""
    ForkingPickler.register(torch.cuda.Event, reduce_event)
    ForkingPickler.register(torch.Tensor, reduce_tensor)
    ForkingPickler.register(torch.nn.parameter.Parameter, reduce_tensor)
    ForkingPickler.register(torch.UntypedStorage, reduce_storage)
    ForkingPickler.register(torch.storage.TypedStorage, reduce_typed_storage)
    for kind in torch.storage._legacy_classes():
        ForkingPickler.register(kind, reduce_typed_storage_child)


# --- messages with small tensors inside ------------------------------------------------------------------------------


def _rebuild_inline(data, dtype, shape, requires_grad):
    if data:
        tensor = torch.empty(0, dtype=dtype).set_(torch.UntypedStorage._new_nameless(data)).view(shape)
    else:
        tensor = torch.empty(shape, dtype=dtype)
    return tensor.requires_grad_() if requires_grad else tensor


def _bytes_of(tensor):
    flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
    try:
        return bytes(memoryview(flat))
    except TypeError:
        return flat.numpy().tobytes()


class _InlinePickler(ForkingPickler):
    limit = 0

    @staticmethod
    def shared_by_name(tensor):
        storage = tensor.untyped_storage()
        return storage.is_shared() and not storage._is_nameless()

    def reducer_override(self, obj):
        if type(obj) is not torch.Tensor or obj.layout is not torch.strided or obj.device.type != "cpu" \
                or obj.is_nested or obj.is_quantized:
            return NotImplemented
        if obj.numel() * obj.element_size() > self.limit or self.shared_by_name(obj) or obj.is_conj() or obj.is_neg() \
                or (obj.requires_grad and not obj.is_leaf):
            return NotImplemented
        return _rebuild_inline, (_bytes_of(obj), obj.dtype, tuple(obj.shape), obj.requires_grad)


def dumps_small_inline(obj, limit):
    """Pickle for another process; tensors of at most limit bytes are copied into the result."""
    buffer = io.BytesIO()
    pickler = _InlinePickler(buffer, multiprocessing.reduction.pickle.HIGHEST_PROTOCOL)
    pickler.limit = limit
    pickler.dump(obj)
    return buffer.getvalue()


def loads_inline(message):
    return ForkingPickler.loads(message)
