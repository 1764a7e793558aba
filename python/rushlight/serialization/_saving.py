"""Writing: a pickle by Python's pickler under PyTorch's names, the storages by the archive writer in C.

Of a storage only the part that is used is written: saving x[:10] does not write x.  That is known when everything
has been pickled once; if some storage is used in part, it is pickled again with offsets that fit.
"""
import contextlib
import io
import os
import pickle
import shutil
import sys
import threading
import types
import zlib
from collections import OrderedDict

import rushlight as torch
from rushlight import _C
from rushlight._alias import OWN, torch_name

from ._locations import location_tag
from ._state import DEFAULT_PROTOCOL, INT_SIZE, LONG_SIZE, MAGIC_NUMBER, PROTOCOL_VERSION, SHORT_SIZE, _options, _state

_ALIGNMENT = 64


class _StorageClass:
    """Stands in a persistent id for a storage class; pickled as its name. One per name, so that it is memoized."""

    made = {}

    def __new__(cls, name):
        if name not in cls.made:
            cls.made[name] = super().__new__(cls)
        return cls.made[name]

    def __init__(self, name):
        self.__qualname__ = self.__name__ = name
        self.__module__ = "torch" if name != "UntypedStorage" else "torch.storage"


class _Pickler(pickle._Pickler):
    """Python's pickler, except that classes and functions of this package are written under PyTorch's names."""

    def __init__(self, file, protocol, persistent_id, storages=None):
        super().__init__(file, protocol)
        self.persistent_id = persistent_id
        self._storages = storages

    def save_reduce(self, func, args, *rest, **named):
        if self._storages is not None and func in _REBUILD:
            args = self._storages.place(args)
        return super().save_reduce(func, args, *rest, **named)

    def save_global(self, obj, name=None):
        if isinstance(obj, torch.dtype):
            module, name = "torch", str(obj).split(".")[-1]
        else:
            if name is None:
                name = getattr(obj, "__qualname__", None) or obj.__name__
            module = getattr(obj, "__module__", None)
        ours = isinstance(obj, (_StorageClass, torch.dtype)) or module == OWN or (module or "").startswith(OWN + ".")
        if not ours or "." in name and self.proto < 4:
            return super().save_global(obj, name)
        if self.proto >= 4:
            self.save(torch_name(module))
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + ("%s\n%s\n" % (torch_name(module), name)).encode("utf-8"))
        self.memoize(obj)
        return None

    def _save_dtype(self, obj):
        self.save_global(obj)

    dispatch = dict(pickle._Pickler.dispatch)
    dispatch[torch.dtype] = _save_dtype
    dispatch[types.FunctionType] = save_global
    dispatch[_StorageClass] = save_global


# Most of what is pickled; asking them for a storage would take longer than pickling them.
_NO_STORAGE = frozenset((str, int, float, bool, type(None), tuple, list, dict, OrderedDict, bytes, types.FunctionType, type, _StorageClass,
                         torch.Tensor, torch.nn.Parameter))
_REBUILD = (torch._utils._rebuild_tensor_v2, torch._utils._rebuild_tensor_v3)


class _Storages:
    """Collects the storages met while pickling, names them in persistent ids, and knows which part of each is used."""

    def __init__(self, parts=None):
        self.by_key = {}            # key in the file -> storage
        self.dtypes = {}            # address -> dtype, to refuse one memory under two types
        self.keys = {}              # identity of the memory -> key
        self.parts = parts          # key -> (first byte, last byte + 1); None: not known yet
        self.used = {}              # key -> [first byte, last byte + 1, tensors, references]

    def reference(self, obj):
        """(class name or None, key, location, number of elements) of a storage; None for other objects."""
        if getattr(obj, "_untyped_storage", None) is not None:
            untyped, dtype = obj._untyped_storage, obj.dtype
            name, numel = obj._pickle_storage_type(), obj._size()
        elif isinstance(obj, torch.UntypedStorage):
            untyped, dtype, name, numel = obj, torch.uint8, None, obj.nbytes()
        else:
            return None
        if untyped.device.type != "meta" and untyped.data_ptr() != 0:
            known = self.dtypes.setdefault(untyped.data_ptr(), dtype)
            if known != dtype:
                raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        key = self._key(untyped)
        self.used[key][3] += 1
        if self.parts is not None and key in self.parts:
            numel = (self.parts[key][1] - self.parts[key][0]) // dtype.itemsize
        fake = getattr(untyped, "_fake_device", None)
        return name, key, location_tag(untyped) if fake is None else str(fake), numel

    def _key(self, untyped):
        key = self.keys.get(untyped._cdata)
        if key is None:
            key = self.keys[untyped._cdata] = str(len(self.keys))
            self.by_key[key] = untyped
            self.used[key] = [untyped.nbytes(), 0, 0, 0]
        return key

    def place(self, args):
        """Note what a tensor uses of its storage; its arguments, with the offset in what is written."""
        storage, offset, size, stride = args[:4]
        untyped = getattr(storage, "_untyped_storage", storage)
        item = (args[6] if untyped is storage else storage.dtype).itemsize
        key = self._key(untyped)
        if self.parts is not None:
            return (storage, offset - self.parts[key][0] // item if key in self.parts else offset) + args[2:]
        used = self.used[key]
        used[2] += 1
        if 0 not in size:
            last = offset + sum((n - 1) * step for n, step in zip(size, stride))
            used[0] = min(used[0], offset * item)
            used[1] = max(used[1], (last + 1) * item)
        return args

    def partly_used(self):
        """key -> (first byte, last byte + 1) of the storages of which a part is enough."""
        parts = {}
        for key, (first, last, tensors, references) in self.used.items():
            if tensors == references and 0 < last and last - first < self.by_key[key].nbytes():
                parts[key] = (first, last)
        return parts

    def bytes_of(self, key):
        """What is to be written of a storage: something with a buffer."""
        untyped = self.by_key[key]
        if untyped.device.type != "cpu":
            untyped = untyped.cpu()
        if self.parts and key in self.parts:
            return memoryview(untyped)[slice(*self.parts[key])]
        return untyped


def _is_path(name_or_buffer):
    return isinstance(name_or_buffer, (str, os.PathLike))


def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):
    """Write obj to a file (path or open) in PyTorch's format."""
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if _is_path(f):
        folder = os.path.dirname(os.path.realpath(os.fspath(f)))
        if not os.path.isdir(folder):
            raise RuntimeError("Parent directory %s does not exist." % folder)
    if not _use_new_zipfile_serialization:
        if getattr(_state, "skip_data", False):
            raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
        if not _is_path(f):
            return _legacy_save(obj, f, pickle_module, pickle_protocol)
        with _replacing(f) as file:
            return _legacy_save(obj, file, pickle_module, pickle_protocol)
    data, storages = _pickled(obj, pickle_module, pickle_protocol)
    return _write_archive(f, data, storages, _disable_byteorder_record)


def _pickled(obj, pickle_module, pickle_protocol):
    """The pickle of obj, and the storages that it refers to."""
    storages = _Storages()
    data = _pickle(obj, pickle_module, pickle_protocol, storages)
    if pickle_module is pickle:
        parts = storages.partly_used()
        if parts:
            keep, storages = storages, _Storages(parts)  # `keep` holds what was made for the first time around
            data = _pickle(obj, pickle_module, pickle_protocol, storages)
            del keep
    return data, storages


def _pickle(obj, pickle_module, pickle_protocol, storages):
    data = io.BytesIO()

    def persistent_id(value):
        if type(value) in _NO_STORAGE:
            return None
        found = storages.reference(value)
        if found is None:
            return None
        name, key, location, numel = found
        kind = _StorageClass(name or "UntypedStorage")
        if pickle_module is not pickle:
            kind = getattr(torch, name) if name else torch.UntypedStorage
        return "storage", kind, key, location, numel

    if pickle_module is pickle:
        _Pickler(data, pickle_protocol, persistent_id, storages).dump(obj)
    else:
        class OtherPickler(pickle_module.Pickler):
            def persistent_id(self, value):
                return persistent_id(value)
        OtherPickler(data, protocol=pickle_protocol).dump(obj)
    return data.getvalue()


def _write_archive(f, data, storages, _disable_byteorder_record):
    root = "archive"
    if _is_path(f):
        root = os.path.basename(os.fspath(f))
        root = root[:root.rindex(".")] if "." in root[1:] else root
    writer = _C.PyTorchFileWriter(f, _options["crc32"], _ALIGNMENT, root)
    try:
        writer.write_record("data.pkl", data)
        writer.write_record(".format_version", b"1")
        writer.write_record(".storage_alignment", b"%d" % _ALIGNMENT)
        if not _disable_byteorder_record:
            writer.write_record("byteorder", sys.byteorder.encode())
        for key, untyped in storages.by_key.items():
            if untyped.device.type == "meta" and getattr(untyped, "_fake_device", None) is None:
                continue
            if getattr(_state, "skip_data", False):
                writer.write_record("data/" + key, None, untyped.nbytes())
            else:
                writer.write_record("data/" + key, storages.bytes_of(key))
        writer.write_record("version", b"3\n")
        writer.write_record(".data/serialization_id", b"%040d" % (zlib.crc32(data),))
        writer.write_end_of_file()
    except BaseException:
        writer.discard()
        raise
    if not _is_path(f) and hasattr(f, "flush"):
        f.flush()


@contextlib.contextmanager
def _replacing(path):
    """A binary file that takes the place of path when all went well, and is gone when not."""
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as f:     # a device or pipe cannot be replaced
            yield f
        return
    temporary = os.path.join(os.path.dirname(path),
                             ".%s.%d.%d.draft" % (os.path.basename(path), os.getpid(), threading.get_ident()))
    try:
        with open(temporary, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _legacy_save(obj, f, pickle_module, pickle_protocol):
    """The format before the zip: five pickles, then the raw storages."""
    storages = _Storages()

    def persistent_id(value):
        found = storages.reference(value)
        if found is None:
            return None
        name, key, location, numel = found
        return "storage", _StorageClass(name or "UntypedStorage"), key, location, numel, None

    for value in (MAGIC_NUMBER, PROTOCOL_VERSION,
                  {"protocol_version": PROTOCOL_VERSION, "little_endian": sys.byteorder == "little",
                   "type_sizes": {"short": SHORT_SIZE, "int": INT_SIZE, "long": LONG_SIZE}}):
        f.write(pickle.dumps(value, pickle_protocol))
    _Pickler(f, pickle_protocol, persistent_id).dump(obj)
    keys = sorted(storages.by_key)
    f.write(pickle.dumps(keys, pickle_protocol))
    f.flush()
    for key in keys:
        untyped = storages.by_key[key].cpu()
        dtype = storages.dtypes.get(storages.by_key[key].data_ptr(), torch.uint8)
        f.write((untyped.nbytes() // dtype.itemsize).to_bytes(8, sys.byteorder))
        f.write(memoryview(untyped))
    f.flush()
