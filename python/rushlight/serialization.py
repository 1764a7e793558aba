"""torch.save and torch.load: PyTorch's files, both ways.

A file is a zip of one pickle (data.pkl) and the raw bytes of each storage (data/0, data/1, ...), every entry
stored at a multiple of 64 bytes, so that it can be mapped.  Tensors that share a storage share it again.  Names
of classes in the pickle are PyTorch's, whatever they are called here.  Saving writes a file beside the target
and renames it, so a crash leaves the old file.  Files from before 2020 are a row of pickles: read only (and
written on request, for pickling storages).
"""
import contextlib
import copyreg
import io
import mmap as _mmap
import os
import pickle
import shutil
import struct
import sys
import tempfile
import threading
import types
import warnings
import zipfile
import zlib
from enum import Enum

import rushlight as torch
from rushlight import _weights_only_unpickler
from rushlight._alias import OWN, own_name, torch_name

__all__ = ["SourceChangeWarning", "mkdtemp", "register_package", "check_module_version_greater_or_equal",
           "validate_cuda_device", "validate_hpu_device", "location_tag", "default_restore_location",
           "normalize_storage_type", "storage_to_tensor_type", "save", "load", "StorageType", "LoadEndianness",
           "get_crc32_options", "set_crc32_options", "get_default_load_endianness", "set_default_load_endianness",
           "get_default_mmap_options", "set_default_mmap_options", "clear_safe_globals", "get_safe_globals",
           "add_safe_globals", "safe_globals", "get_unsafe_globals_in_checkpoint", "skip_data"]

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
LONG_SIZE, INT_SIZE, SHORT_SIZE = 8, 4, 2
STORAGE_KEY_SEPARATOR = ","
MAP_LOCATION = object     # anything map_location may be: None, a device, text, a dict, a function
FILE_LIKE = object
_ALIGNMENT = 64
_state = threading.local()


class SourceChangeWarning(Warning):
    """The source of a pickled class changed."""


class LoadEndianness(Enum):
    NATIVE = 1
    LITTLE = 2
    BIG = 3


_options = {"endianness": None, "crc32": True, "mmap": getattr(_mmap, "MAP_PRIVATE", None)}


def get_default_load_endianness():
    """The byte order assumed for files that do not say theirs (None: this machine's)."""
    return _options["endianness"]


def set_default_load_endianness(endianness):
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _options["endianness"] = endianness


def get_crc32_options():
    """Whether save computes checksums."""
    return _options["crc32"]


def set_crc32_options(compute_crc32):
    _options["crc32"] = compute_crc32


def get_default_mmap_options():
    return _options["mmap"]


class set_default_mmap_options:
    """Flags for mmap=True: MAP_PRIVATE (changes stay in memory) or MAP_SHARED. Also a context manager."""

    def __init__(self, flags):
        if flags not in (_mmap.MAP_PRIVATE, _mmap.MAP_SHARED):
            raise ValueError("Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                             "mmap.MAP_SHARED, but got %s" % (flags,))
        self.before = _options["mmap"]
        _options["mmap"] = flags

    def __enter__(self):
        return None

    def __exit__(self, *error):
        _options["mmap"] = self.before


def add_safe_globals(safe_globals):
    """Allow these classes and functions in files loaded with weights_only=True."""
    _weights_only_unpickler._add_safe_globals(safe_globals)


def get_safe_globals():
    return _weights_only_unpickler._get_safe_globals()


def clear_safe_globals():
    _weights_only_unpickler._clear_safe_globals()


class safe_globals(_weights_only_unpickler._safe_globals):
    """Context manager: allow these classes and functions inside."""


class skip_data:
    """Context manager: save leaves the bytes of storages out (the room for them is kept)."""

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self.before = getattr(_state, "skip_data", False)
        _state.skip_data = True

    def __exit__(self, *error):
        _state.skip_data = self.before


def mkdtemp():
    """Context manager: a temporary folder."""
    @contextlib.contextmanager
    def folder():
        path = tempfile.mkdtemp()
        try:
            yield path
        finally:
            shutil.rmtree(path)
    return folder()


def check_module_version_greater_or_equal(module, req_version_tuple, error_if_malformed=True):
    """Whether module.__version__ is at least the given one."""
    try:
        wanted = tuple(type(part)(have) for part, have in zip(req_version_tuple, module.__version__.split(".")))
    except Exception as error:
        message = "'%s' module version string is malformed '%s' and cannot be compared with tuple %s" % (
            module.__name__, module.__version__, req_version_tuple)
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True
    return wanted >= req_version_tuple


# --- where storages live ----------------------------------------------------------------------------------------------

_package_registry = []


def register_package(priority, tagger, deserializer):
    """Teach save and load about a kind of storage: tagger(storage) names its location, deserializer moves it there."""
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def _cpu_tag(obj):
    return "cpu" if obj.device.type == "cpu" else None


def _cpu_deserialize(obj, location):
    return obj if location == "cpu" else None


def _meta_tag(obj):
    return "meta" if obj.device.type == "meta" else None


def _meta_deserialize(obj, location):
    return torch.UntypedStorage(obj.nbytes(), device="meta") if location == "meta" else None


def _backend_tag(backend_name, obj):
    return str(obj.device) if obj.device.type == backend_name else None


def _validate_device(location, backend_name):
    """The index of a device named in a file, or an error that says what to do where it is not there."""
    module = getattr(torch, backend_name, None)
    if module is None or not module.is_available():
        name = backend_name.upper()
        raise RuntimeError("Attempting to deserialize object on a %s device but torch.%s.is_available() is False. If "
                           "you are running on a CPU-only machine, please use torch.load with "
                           "map_location=torch.device('cpu') to map your storages to the CPU." % (name, backend_name))
    index = torch._utils._get_device_index(location, True)
    if index >= module.device_count():
        raise RuntimeError("Attempting to deserialize object on %s device %d but torch.%s.device_count() is %d. Please "
                           "use torch.load with map_location to map your storages to an existing device."
                           % (backend_name.upper(), index, backend_name, module.device_count()))
    return torch.device(backend_name, index)


def validate_cuda_device(location):
    return _validate_device(location, "cuda").index


def validate_hpu_device(location):
    return _validate_device(location, "hpu").index


def _deserialize(backend_name, obj, location):
    if not location.startswith(backend_name):
        return None
    return obj.to(device=_validate_device(location, backend_name))


def _backend(name):
    return lambda obj: _backend_tag(name, obj), lambda obj, location: _deserialize(name, obj, location)


register_package(10, _cpu_tag, _cpu_deserialize)
for _i, _name in enumerate(("cuda", "mps", "xpu", "hpu")):
    register_package(20 + _i, *_backend(_name))
register_package(25, _meta_tag, _meta_deserialize)


def location_tag(storage):
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError("don't know how to determine data location of %s" % torch.typename(storage))


def default_restore_location(storage, location):
    for _, _, deserializer in _package_registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError("don't know how to restore data location of %s (tagged with %s)"
                       % (torch.typename(storage), location))


def _get_restore_location(map_location):
    """A function (storage, location) -> storage for what load was given."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        return lambda storage, location: default_restore_location(storage, map_location)
    if isinstance(map_location, torch.device):
        return lambda storage, location: default_restore_location(storage, str(map_location))

    def by_function(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result
    return by_function


def _is_meta_location(map_location):
    return str(map_location) == "meta" if isinstance(map_location, (str, torch.device)) else False


def normalize_storage_type(storage_type):
    return getattr(torch, storage_type.__name__)


def storage_to_tensor_type(storage):
    module = torch._utils._import_dotted_name(torch_name(type(storage).__module__).replace("torch", OWN, 1))
    return getattr(module, type(storage).__name__.replace("Storage", "Tensor"))


def _get_layout(name):
    """"torch.sparse_coo" -> torch.sparse_coo"""
    layouts = {str(value): value for value in vars(torch).values() if isinstance(value, torch.layout)}
    for known in ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"):
        layouts.setdefault("torch." + known, getattr(torch, known))
    return layouts[name]


def _reduce_layout(layout):
    return _get_layout, (str(layout),)


copyreg.pickle(torch.layout, _reduce_layout)


class StorageType:
    """The class of a storage in a file: only its dtype matters."""

    def __init__(self, name):
        self._dtype = torch.storage._get_dtype_from_pickle_storage_type(name)
        self._name = name

    @property
    def dtype(self):
        return self._dtype

    def __str__(self):
        return "StorageType(dtype=%s)" % (self.dtype,)


# --- files and buffers ------------------------------------------------------------------------------------------------


def _is_path(name_or_buffer):
    return isinstance(name_or_buffer, (str, os.PathLike))


def _is_zipfile(f):
    """Whether a zip starts at the current position."""
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return head == b"PK\x03\x04"


def _check_seekable(f):
    try:
        f.seek(f.tell())
        return True
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)("%s. You can only torch.load from a file that is seekable. Please pre-load the data into a "
                          "buffer like io.BytesIO and try to load from it instead." % error) from None


@contextlib.contextmanager
def _replacing(path):
    """A binary file that takes the place of path when all went well, and is gone when not."""
    path = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError("Parent directory %s does not exist." % folder)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as f:     # a device or pipe cannot be replaced
            yield f
        return
    temporary = os.path.join(folder, ".%s.%d.%d.tmp" % (os.path.basename(path), os.getpid(), threading.get_ident()))
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


def _bytes_tensor(untyped):
    return torch.empty((0,), dtype=torch.uint8).set_(untyped, 0, (untyped.nbytes(),), (1,))


def _memory(untyped):
    """The bytes of a CPU storage as a memoryview, without a copy."""
    if untyped.nbytes() == 0:
        return memoryview(b"")
    flat = _bytes_tensor(untyped)
    try:
        return memoryview(flat)
    except TypeError:
        return memoryview(flat.numpy())


# --- save -------------------------------------------------------------------------------------------------------------


class _Pickler(pickle._Pickler):
    """Python's pickler, except that classes and functions of this package are written under PyTorch's names."""

    def __init__(self, file, protocol, persistent_id):
        super().__init__(file, protocol)
        self._persistent_id = persistent_id

    def persistent_id(self, obj):
        return self._persistent_id(obj)

    def save_global(self, obj, name=None):
        if isinstance(obj, torch.dtype):
            module, name = "torch", str(obj).split(".")[-1]
        else:
            if name is None:
                name = getattr(obj, "__qualname__", None) or obj.__name__
            module = getattr(obj, "__module__", None)
        ours = isinstance(obj, (_StorageClass, torch.dtype)) or module == OWN or (module or "").startswith(OWN + ".")
        if not ours or "." in name or self.proto >= 4:
            return super().save_global(obj, name)
        self.write(pickle.GLOBAL + ("%s\n%s\n" % (torch_name(module), name)).encode("utf-8"))
        self.memoize(obj)
        return None

    def _save_dtype(self, obj):
        self.save_global(obj)

    dispatch = dict(pickle._Pickler.dispatch)
    dispatch[torch.dtype] = _save_dtype
    dispatch[types.FunctionType] = save_global


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


_Pickler.dispatch[_StorageClass] = _Pickler.save_global


def _check_save_filelike(f):
    if not _is_path(f) and not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")


def save(obj, f, pickle_module=pickle, pickle_protocol=DEFAULT_PROTOCOL, _use_new_zipfile_serialization=True,
         _disable_byteorder_record=False):
    """Write obj to a file (path or open) in PyTorch's format."""
    _check_save_filelike(f)
    write = _save if _use_new_zipfile_serialization else _legacy_save
    if _is_path(f):
        stem = os.path.basename(os.fspath(f))
        stem = stem[:stem.rindex(".")] if "." in stem[1:] else stem
        with _replacing(f) as file:
            write(obj, file, pickle_module, pickle_protocol, stem, _disable_byteorder_record)
    else:
        write(obj, f, pickle_module, pickle_protocol, "archive", _disable_byteorder_record)


class _Storages:
    """Collects the storages met while pickling and names them in persistent ids."""

    def __init__(self):
        self.by_key = {}            # key in the file -> storage
        self.dtypes = {}            # address -> dtype, to refuse one memory under two types
        self.keys = {}              # identity of the memory -> key
        self.alive = []

    def persistent_id(self, obj):
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
        key = self.keys.get(untyped._cdata)
        if key is None:
            key = self.keys[untyped._cdata] = str(len(self.keys))
            self.by_key[key] = untyped
            self.alive.append(untyped)
        return name, key, location_tag(untyped), numel


def _save(obj, file, pickle_module, pickle_protocol, root, _disable_byteorder_record):
    storages = _Storages()
    data = io.BytesIO()

    def persistent_id(value):
        found = storages.persistent_id(value)
        if found is None:
            return None
        name, key, location, numel = found
        kind = _StorageClass(name or "UntypedStorage")
        if pickle_module is not pickle:
            kind = getattr(torch, name) if name else torch.UntypedStorage
        return "storage", kind, key, location, numel

    if pickle_module is pickle:
        _Pickler(data, pickle_protocol, persistent_id).dump(obj)
    else:
        class OtherPickler(pickle_module.Pickler):
            def persistent_id(self, value):
                return persistent_id(value)
        OtherPickler(data, protocol=pickle_protocol).dump(obj)

    archive = zipfile.ZipFile(_Counted(file), "w", zipfile.ZIP_STORED, allowZip64=True)
    with archive:
        _add(archive, root + "/data.pkl", data.getvalue())
        _add(archive, root + "/.format_version", b"1")
        _add(archive, root + "/.storage_alignment", str(_ALIGNMENT).encode())
        if not _disable_byteorder_record:
            _add(archive, root + "/byteorder", sys.byteorder.encode())
        for key, untyped in storages.by_key.items():
            if untyped.device.type == "meta":
                continue
            if getattr(_state, "skip_data", False):
                _add(archive, "%s/data/%s" % (root, key), bytes(untyped.nbytes()))
                continue
            if untyped.device.type != "cpu":
                untyped = untyped.cpu()
            _add(archive, "%s/data/%s" % (root, key), _memory(untyped))
        _add(archive, root + "/version", b"3\n")
        _add(archive, root + "/.data/serialization_id", b"%040d" % (zlib.crc32(data.getvalue()),))


class _Counted:
    """The target file as zipfile sees it: a position of its own, so that buffers written to before work too."""

    def __init__(self, file):
        self.file = file
        self.start = None
        try:
            self.start = file.tell()
            if not file.seekable():
                self.start = None
        except (AttributeError, OSError):
            self.start = None
        self.written = 0

    def write(self, data):
        self.file.write(data)
        self.written += len(data)
        return len(data)

    def flush(self):
        if hasattr(self.file, "flush"):
            self.file.flush()

    def tell(self):
        if self.start is None:
            raise AttributeError("not seekable")
        return self.file.tell() - self.start

    def seek(self, offset, whence=0):
        if self.start is None:
            raise AttributeError("not seekable")
        if whence == 0:
            return self.file.seek(offset + self.start) - self.start
        return self.file.seek(offset, whence) - self.start

    def seekable(self):
        return self.start is not None


_ZIP64_FIELD = 20       # bytes of the extra field for sizes beyond 32 bits, in the local header


def _add(archive, name, data):
    """Append a stored entry whose data begin at a multiple of the alignment."""
    entry = zipfile.ZipInfo(name)
    size = len(data)
    header = 30 + len(name.encode("utf-8")) + (_ZIP64_FIELD if size * 1.05 > zipfile.ZIP64_LIMIT else 0)
    position = archive.fp.tell()
    padding = -(position + header + 4) % _ALIGNMENT
    entry.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding     # "FB": padding
    archive.writestr(entry, data)


def _legacy_save(obj, f, pickle_module, pickle_protocol, root, _disable_byteorder_record):
    """The format before the zip: five pickles, then the raw storages."""
    storages = _Storages()

    def persistent_id(value):
        found = storages.persistent_id(value)
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
        f.write(struct.pack("<q", untyped.nbytes() // dtype.itemsize))
        f.write(_memory(untyped))


# --- load -------------------------------------------------------------------------------------------------------------


def _weights_only_error(error):
    text = str(error)
    advice = ("Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in "
              "arbitrary code execution. Do it only if you got the file from a trusted source.")
    if "Unsupported global" in text or "allowlisted" in text:
        text = ("Weights only load failed. This file can still be loaded, to do so you have two options, do those steps "
                "only if you trust the source of the checkpoint.\n\t(1) " + advice + "\n\t(2) Alternatively, to load "
                "with `weights_only=True` please check the recommended steps in the following error message.\n\t"
                "WeightsUnpickler error: " + text)
    else:
        text = "Weights only load failed. " + advice + "\nWeightsUnpickler error: " + text
    return pickle.UnpicklingError(text + "\n\nCheck the documentation of torch.load to learn more about types accepted "
                                  "by default with weights_only https://pytorch.org/docs/stable/generated/torch.load.html.")


class _NamingUnpickler(pickle.Unpickler):
    """Python's unpickler, with torch's names answered by this package."""

    def find_class(self, module, name):
        if module == "torch" or module.startswith("torch."):
            if name.endswith("Storage") and hasattr(torch.storage, name) and module != "torch.storage":
                return StorageType(name)
            try:
                return super().find_class(own_name(module), name)
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError("%s.%s is named in the file, but rushlight has no such module"
                                          % (module, name)) from error
        return super().find_class(module, name)


def _unpickle(file, pickle_module, persistent_load, weights_only, **kwargs):
    kwargs.setdefault("encoding", "utf-8")
    if weights_only:
        unpickler = _weights_only_unpickler.Unpickler(file, encoding=kwargs["encoding"])
    elif pickle_module in (None, pickle):
        unpickler = _NamingUnpickler(file, **kwargs)
    else:
        class OtherUnpickler(pickle_module.Unpickler):
            def find_class(self, module, name):
                if module == "torch" and name.endswith("Storage") and hasattr(torch.storage, name):
                    return StorageType(name)
                if module == "torch" or module.startswith("torch."):
                    module = own_name(module)
                return super().find_class(module, name)
        unpickler = OtherUnpickler(file, **kwargs)
    unpickler.persistent_load = persistent_load
    try:
        return unpickler.load()
    finally:
        del unpickler


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Read a file written by save; with weights_only (the default) it can contain data, but no code."""
    forced = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
    free = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
    if forced and free:
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be "
                           "set, but both were set.")
    if weights_only is None:
        weights_only = pickle_module is None and not free
    if forced:
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap is None:
        mmap = False
    if mmap and not _is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if map_location is None:
        device = getattr(torch, "get_default_device", lambda: torch.device("cpu"))()
        if device.type != "cpu":
            map_location = device
    try:
        if _is_path(f):
            with open(f, "rb") as file:
                return _load_file(file, map_location, pickle_module, weights_only, mmap, pickle_load_args)
        if not hasattr(f, "read") or not hasattr(f, "readline"):
            raise AttributeError("'%s' object has no attribute 'read'. You can only torch.load from a file that is "
                                 "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from "
                                 "it instead." % type(f).__name__)
        _check_seekable(f)
        return _load_file(f, map_location, pickle_module, weights_only, mmap, pickle_load_args)
    except pickle.UnpicklingError as error:
        if weights_only:
            raise _weights_only_error(error) from None
        raise
    finally:
        torch._utils._sparse_tensors_to_validate.clear()


def _load_file(file, map_location, pickle_module, weights_only, mmap, pickle_load_args):
    if _is_zipfile(file):
        return _load_zip(file, map_location, pickle_module, weights_only, mmap, pickle_load_args)
    if mmap:
        raise RuntimeError("mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), "
                           "please torch.save your checkpoint with this option in order to use mmap.")
    return _legacy_load(file, map_location, pickle_module, weights_only, pickle_load_args)


def _corrupt(what):
    return RuntimeError("PytorchStreamReader failed reading zip archive: %s. The checkpoint file is corrupted, or was "
                        "not written completely." % what)


class _Archive:
    """The entries of a zip, by name below its root folder."""

    def __init__(self, file):
        self.file = file
        self.start = file.tell()
        try:
            self.zip = zipfile.ZipFile(_From(file, self.start) if self.start else file)
        except zipfile.BadZipFile as error:
            raise _corrupt("failed finding central directory (%s)" % error) from None
        infos = self.zip.infolist()
        if not infos:
            raise _corrupt("it is empty")
        self.root = infos[0].filename.split("/", 1)[0]
        self.entries = {info.filename[len(self.root) + 1:]: info for info in infos
                        if info.filename.startswith(self.root + "/")}

    def has(self, name):
        return name in self.entries

    def read(self, name):
        if name not in self.entries:
            raise RuntimeError("PytorchStreamReader failed locating file %s: file not found" % name)
        try:
            return self.zip.read(self.entries[name])
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise _corrupt("entry %s: %s" % (name, error)) from None

    def data_offset(self, info):
        """Where the bytes of a stored entry begin in the file."""
        self.file.seek(self.start + info.header_offset)
        header = self.file.read(30)
        if len(header) != 30 or header[:4] != b"PK\x03\x04":
            raise _corrupt("the local header of %s is damaged" % info.filename)
        name, extra = struct.unpack("<HH", header[26:30])
        return self.start + info.header_offset + 30 + name + extra

    def read_into(self, name, target):
        """Fill a memoryview with an entry, checking its checksum."""
        info = self.entries.get(name)
        if info is None:
            raise RuntimeError("PytorchStreamReader failed locating file %s: file not found" % name)
        if info.file_size != len(target):
            raise RuntimeError("storage %s is declared with %d bytes, but the file holds %d"
                               % (name, len(target), info.file_size))
        if info.compress_type != zipfile.ZIP_STORED:
            target[:] = self.read(name)
            return
        self.file.seek(self.data_offset(info))
        if hasattr(self.file, "readinto"):
            got, view = 0, target
            while got < len(target):
                step = self.file.readinto(view[got:])
                if not step:
                    break
                got += step
        else:
            data = self.file.read(len(target))
            got = len(data)
            target[:got] = data
        if got != len(target):
            raise _corrupt("entry %s is cut off" % name)
        if zlib.crc32(target) != info.CRC:
            raise _corrupt("the checksum of %s is wrong" % name)


class _From:
    """A file that starts at the current position of another."""

    def __init__(self, file, start):
        self.file, self.start = file, start

    def read(self, *args):
        return self.file.read(*args)

    def tell(self):
        return self.file.tell() - self.start

    def seek(self, offset, whence=0):
        if whence == 0:
            offset += self.start
        return self.file.seek(offset, whence) - self.start

    def seekable(self):
        return True


class PyTorchFileReader:
    """The records of a checkpoint by name, as PyTorch's C++ class gives them."""

    def __init__(self, name_or_buffer):
        self._own = _is_path(name_or_buffer)
        self._file = open(name_or_buffer, "rb") if self._own else name_or_buffer
        self._archive = _Archive(self._file)

    def archive_name(self):
        return self._archive.root

    def has_record(self, name):
        return self._archive.has(name)

    def get_all_records(self):
        return list(self._archive.entries)

    def get_record(self, name):
        return self._archive.read(name)

    def get_record_offset(self, name):
        return self._archive.data_offset(self._archive.entries[name])

    def get_record_header_offset(self, name):
        return self._archive.start + self._archive.entries[name].header_offset

    def get_record_size(self, name):
        return self._archive.entries[name].file_size

    def get_storage_from_record(self, name, numel, dtype):
        """A one-dimensional tensor over the bytes of a record."""
        untyped = _new_storage(numel * dtype.itemsize)
        if numel:
            self._archive.read_into(name, _memory(untyped).cast("B"))
        return torch.empty((0,), dtype=dtype).set_(untyped, 0, (numel,), (1,))

    def version(self):
        return int(self._archive.read("version"))

    def serialization_id(self):
        name = ".data/serialization_id"
        return self._archive.read(name).decode("ascii") if self._archive.has(name) else ""

    def __del__(self):
        if getattr(self, "_own", False):
            self._file.close()


def _new_storage(numel_bytes):
    return torch.UntypedStorage(numel_bytes)


def _load_zip(file, map_location, pickle_module, weights_only, mmap, pickle_load_args):
    archive = _Archive(file)
    if archive.has("constants.pkl"):
        raise RuntimeError("the file is a TorchScript archive: its code cannot be run by torch.load. Save the "
                           "state_dict of the module instead.")
    if not archive.has("version"):
        raise RuntimeError("PytorchStreamReader failed locating file version: file not found")
    version = int(archive.read("version"))
    if not 1 <= version <= 10:
        raise RuntimeError("Attempted to read a PyTorch file with version %d, but the versions 1 to 10 are supported"
                           % version)
    order = sys.byteorder
    if archive.has("byteorder"):
        order = archive.read("byteorder").decode("ascii").strip()
        if order not in ("little", "big"):
            raise ValueError("Unknown endianness type: " + order)
    elif _options["endianness"] in (LoadEndianness.LITTLE, LoadEndianness.BIG):
        order = _options["endianness"].name.lower()
    restore = _get_restore_location(map_location)
    loaded = {}
    mapped = None
    if mmap:
        if _options["mmap"] == _mmap.MAP_SHARED:
            with open(file.name, "r+b") as writable:
                mapped = _mmap.mmap(writable.fileno(), 0, access=_mmap.ACCESS_WRITE)
        else:
            mapped = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_COPY)

    def read_storage(key, nbytes):
        name = "data/" + key
        if nbytes == 0:
            return _new_storage(0)
        if mapped is not None:
            info = archive.entries.get(name)
            if info is None:
                raise RuntimeError("PytorchStreamReader failed locating file %s: file not found" % name)
            if info.compress_type != zipfile.ZIP_STORED:
                raise RuntimeError("entry %s is compressed and cannot be mapped: load without mmap" % name)
            if info.file_size != nbytes:
                raise RuntimeError("storage %s is declared with %d bytes, but the file holds %d"
                                   % (name, nbytes, info.file_size))
            at = archive.data_offset(info)
            return torch.frombuffer(mapped, dtype=torch.uint8, count=nbytes, offset=at).untyped_storage()
        untyped = _new_storage(nbytes)
        archive.read_into(name, _memory(untyped).cast("B"))
        return untyped

    def persistent_load(saved_id):
        if not isinstance(saved_id, tuple) or len(saved_id) < 5 or _maybe_decode_ascii(saved_id[0]) != "storage":
            raise RuntimeError("Unknown typename for persistent_load, expected 'storage' but got '%s'"
                               % (saved_id[0] if isinstance(saved_id, tuple) and saved_id else saved_id,))
        kind, key, location, numel = saved_id[1:5]
        dtype = torch.uint8 if kind is torch.UntypedStorage else kind.dtype
        key, location = _maybe_decode_ascii(key), _maybe_decode_ascii(location)
        if not isinstance(numel, int) or numel < 0:
            raise RuntimeError("a storage of %r elements" % (numel,))
        if key not in loaded:
            nbytes = numel * dtype.itemsize
            if _is_meta_location(map_location) or location == "meta":
                untyped = torch.UntypedStorage(nbytes, device="meta")
            else:
                untyped = read_storage(key, nbytes)
                if order != sys.byteorder and dtype.itemsize > 1:
                    untyped.byteswap(dtype)
                untyped = restore(untyped, location)
            loaded[key] = torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
        return loaded[key]

    data = io.BytesIO(archive.read("data.pkl"))
    result = _unpickle(data, pickle_module, persistent_load, weights_only, **pickle_load_args)
    torch._utils._validate_loaded_sparse_tensors()
    return result


def _maybe_decode_ascii(text):
    return text.decode("ascii") if isinstance(text, bytes) else text


def _exactly(f, count):
    data = f.read(count)
    if len(data) != count:
        raise EOFError("unexpected end of file: the checkpoint is cut off")
    return data


def _legacy_load(f, map_location, pickle_module, weights_only, pickle_load_args):
    """Files of the row-of-pickles format."""
    restore = _get_restore_location(map_location)
    loaded, views = {}, {}
    args = dict(pickle_load_args)

    def no_ids(pid):
        raise pickle.UnpicklingError("a persistent id before the data")

    def one(persistent_load=no_ids):
        return _unpickle(f, pickle_module, persistent_load, weights_only, **args)

    start = f.tell()
    if start == 0 and _looks_like_tar(f):
        raise RuntimeError("the file is a tar archive of PyTorch before 0.1.10, which is not supported")
    f.seek(start)
    magic = one()
    if magic != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    protocol = one()
    if protocol != PROTOCOL_VERSION:
        raise RuntimeError("Invalid protocol version: %s" % (protocol,))
    info = one()
    order = "little" if not isinstance(info, dict) or info.get("little_endian", info.get(b"little_endian", True)) \
        else "big"

    def persistent_load(saved_id):
        if not isinstance(saved_id, tuple):
            raise RuntimeError("a persistent id that is not a tuple")
        kind = _maybe_decode_ascii(saved_id[0])
        if kind == "module":
            # (class, source file, source): the source is not compared.
            return saved_id[1]
        if kind != "storage":
            raise RuntimeError("Unknown saved id type: %s" % (kind,))
        storage_class, key, location, numel, view = saved_id[1:6]
        key, location = _maybe_decode_ascii(key), _maybe_decode_ascii(location)
        dtype = torch.uint8 if storage_class is torch.UntypedStorage else storage_class.dtype
        if key not in loaded:
            untyped = restore(_new_storage(numel * dtype.itemsize), location)
            loaded[key] = torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
        if view is None:
            return loaded[key]
        view_key, offset, size = view
        if view_key not in views:
            base = loaded[key]
            part = base._as_tensor()[offset:offset + size].untyped_storage()
            views[view_key] = torch.storage.TypedStorage(wrap_storage=part, dtype=dtype, _internal=True)
        return views[view_key]

    result = one(persistent_load)
    keys = one()
    for key in keys:
        key = _maybe_decode_ascii(key)
        if key not in loaded:
            raise RuntimeError("the file holds storage %s, which nothing refers to" % key)
        storage = loaded[key]
        count, = struct.unpack("<q" if order == "little" else ">q", _exactly(f, 8))
        if count != storage._size():
            raise RuntimeError("storage %s has %d elements in the file, but %d are expected"
                               % (key, count, storage._size()))
        data = bytearray(_exactly(f, count * storage.dtype.itemsize))
        if data:
            source = torch.frombuffer(data, dtype=torch.uint8).untyped_storage()
            if order != sys.byteorder and storage.dtype.itemsize > 1:
                source.byteswap(storage.dtype)
            if storage._untyped_storage.device.type != "meta":
                storage._untyped_storage.copy_(source)
    torch._utils._validate_loaded_sparse_tensors()
    return result


def _looks_like_tar(f):
    start = f.tell()
    head = f.read(512)
    f.seek(start)
    return len(head) == 512 and head[257:262] == b"ustar"


def get_unsafe_globals_in_checkpoint(f):
    """The names in a file that weights_only=True would refuse."""
    def scan(file):
        _check_seekable(file)
        if not _is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save but got a file that is not a zip")
        archive = _Archive(file)
        names = _weights_only_unpickler.get_globals_in_pkl(archive.read("data.pkl"))
        known = set(_weights_only_unpickler._get_allowed_globals()) | set(
            _weights_only_unpickler._get_user_allowed_globals())
        return list(names - known)
    if _is_path(f):
        with open(f, "rb") as file:
            return scan(file)
    return scan(f)
