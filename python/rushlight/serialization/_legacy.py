"""Files from before 2020: five pickles one after the other, then the raw storages; and tar archives from before 2017."""
import io
import pickle
import struct
import sys
import tarfile

import rushlight as torch

from ._state import MAGIC_NUMBER, PROTOCOL_VERSION


def _no_ids(pid):
    raise pickle.UnpicklingError("a persistent id before the data")


class _Data:
    """The bytes of a file and a position in them."""

    def __init__(self, data, how, name):
        self.data, self.how, self.name, self.at = data, how, name, 0

    def pickle(self, persistent_load=_no_ids):
        value, self.at = self.how.unpickle(self.data, persistent_load, self.name, self.at)
        return value

    def take(self, count):
        if count > len(self.data) - self.at:
            raise EOFError("unexpected end of file: '%s' is cut off at byte %d, %d bytes are missing"
                           % (self.name, len(self.data), count - (len(self.data) - self.at)))
        self.at += count
        return memoryview(self.data)[self.at - count:self.at]


def _typed(untyped, dtype):
    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _fill(storage, data, order):
    """Copy the elements of a file into a storage."""
    if not len(data) or storage._untyped_storage.device.type == "meta":
        return
    source = torch.UntypedStorage.from_buffer(data, byte_order="native", dtype=torch.uint8)
    if order != sys.byteorder and storage.dtype.itemsize > 1:
        source.byteswap(storage.dtype)
    if storage.dtype is torch.bool:
        torch.empty((0,), dtype=torch.uint8).set_(source, 0, (source.nbytes(),), (1,)).clamp_(max=1)
    storage._untyped_storage.copy_(source)


def load_legacy(data, how, name):
    """(object, position after it) of a file of the row-of-pickles format."""
    from ._loading import as_text, checked_count, dtype_of
    if data[257:262] == b"ustar":
        return _load_tar(data, how, name), len(data)
    loaded, views = {}, {}
    rest = _Data(data, how, name)
    magic = rest.pickle()
    if magic != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = rest.pickle()
    if protocol != PROTOCOL_VERSION:
        raise RuntimeError("Invalid protocol version: %s" % (protocol,))
    info = rest.pickle()
    order = "little"
    if isinstance(info, dict) and not info.get("little_endian", info.get(b"little_endian", True)):
        order = "big"
    promised = [len(data)]

    def persistent_load(saved_id):
        if not isinstance(saved_id, tuple) or not saved_id:
            raise RuntimeError("a persistent id that is not a tuple")
        kind = as_text(saved_id[0])
        if kind == "module" and len(saved_id) > 1:
            # (class, source file, source): the source is not compared.
            return saved_id[1]
        if kind != "storage" or len(saved_id) < 6:
            raise RuntimeError("Unknown saved id type: %s" % (kind,))
        storage_class, key, location, numel, view = saved_id[1:6]
        key, location, dtype, numel = as_text(key), as_text(location), dtype_of(storage_class), checked_count(numel)
        if key not in loaded:
            nbytes = numel * dtype.itemsize
            promised[0] -= nbytes
            if promised[0] < 0:
                raise EOFError("'%s' has %d bytes, but its storages would have more: it is cut off" % (name, len(data)))
            device = "meta" if how.is_meta(location) else "cpu"
            untyped = torch.UntypedStorage(nbytes, device=device)
            loaded[key] = _typed(untyped if device == "meta" else how.restore(untyped, location), dtype)
        if view is None:
            return loaded[key] if loaded[key].dtype == dtype else _typed(loaded[key]._untyped_storage, dtype)
        view_key, offset, size = view
        if view_key not in views:
            base = loaded[key]
            if not (type(offset) is int and type(size) is int and 0 <= offset <= offset + size <= base._size()):
                raise RuntimeError("a view of storage %s lies outside of it" % key)
            item = dtype.itemsize
            views[view_key] = _typed(base._untyped_storage[offset * item:(offset + size) * item], dtype)
        return views[view_key]

    result = rest.pickle(persistent_load)
    keys, missing = rest.pickle(), set(loaded)
    if not isinstance(keys, list):
        raise RuntimeError("the keys of the storages are no list")
    for key in keys:
        key = as_text(key)
        missing.discard(key)
        if key not in loaded:
            raise RuntimeError("the file holds storage %s, which nothing refers to" % key)
        storage = loaded[key]
        count, = struct.unpack("<q" if order == "little" else ">q", rest.take(8))
        if count != storage._size():
            raise RuntimeError("storage %s has %d elements in the file, but %d are expected"
                               % (key, count, storage._size()))
        _fill(storage, rest.take(count * storage.dtype.itemsize), order)
    if missing:
        raise RuntimeError("the file does not hold storage %s, which a tensor refers to" % sorted(missing)[0])
    torch._utils._validate_loaded_sparse_tensors()
    return result, rest.at


def _load_tar(data, how, name):
    """A tar of four files: the storages and the tensors over them by number, the object that refers to those."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        parts = {}
        for part in ("storages", "tensors", "pickle"):
            member = tar.extractfile(part) if part in tar.getnames() else None
            if member is None:
                raise RuntimeError("'%s' is a tar archive without '%s'" % (name, part))
            parts[part] = _Data(member.read(), how, name)
    storages, rest = {}, parts["storages"]
    for _ in range(_count(rest.pickle())):
        key, location, kind = rest.pickle()
        from ._loading import as_text, dtype_of
        dtype = dtype_of(kind)
        count, = struct.unpack("<q", rest.take(8))
        data = rest.take(count * dtype.itemsize)
        storages[key] = _typed(how.restore(torch.UntypedStorage(len(data)), as_text(location)), dtype)
        _fill(storages[key], data, "little")
    for target, root, offset, size in rest.pickle():
        dtype = storages[root].dtype
        storages[target] = _typed(storages[root]._untyped_storage[offset * dtype.itemsize:(offset + size) * dtype.itemsize], dtype)
    tensors, rest = {}, parts["tensors"]
    for _ in range(_count(rest.pickle())):
        key, storage, _kind = rest.pickle()
        ndim, = struct.unpack("<i", rest.take(4))
        rest.take(4)
        if not 0 <= ndim <= 64:
            raise RuntimeError("'%s' has a tensor of %d dimensions" % (name, ndim))
        size = struct.unpack("<%dq" % ndim, rest.take(8 * ndim))
        stride = struct.unpack("<%dq" % ndim, rest.take(8 * ndim))
        offset, = struct.unpack("<q", rest.take(8))
        tensors[key] = torch._utils._rebuild_tensor(storages[storage], offset, size, stride)
    return parts["pickle"].pickle(lambda saved_id: tensors[int(saved_id)] if not isinstance(saved_id, tuple) else saved_id[0])


def _count(number):
    if type(number) is not int or number < 0:
        raise RuntimeError("a number of storages or tensors was expected, not %r" % (number,))
    return number
