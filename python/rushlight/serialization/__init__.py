"""torch.save and torch.load: PyTorch's files, both ways.

A file is a zip of one pickle (data.pkl) and the raw bytes of each storage (data/0, data/1, ...), every entry
stored at a multiple of 64 bytes, so that it can be mapped.  Tensors that share a storage share it again.  Names
of classes in the pickle are PyTorch's, whatever they are called here.  Zip, checksums and the restricted pickle
machine are C (src/io); _saving.py and _loading.py say what goes in and what comes out, _legacy.py is the
format before 2020.
"""
import contextlib
import copyreg
import mmap as _mmap
import os
import pickle
import shutil
import tempfile
import warnings
from collections import OrderedDict
from enum import Enum

import rushlight as torch
from rushlight import _weights_only_unpickler
from rushlight._alias import OWN, torch_name

from . import _loading
from ._loading import PyTorchFileReader, load
from ._locations import (_get_restore_location, _package_registry, default_restore_location, location_tag, register_package,
                         validate_cuda_device, validate_hpu_device)
from ._saving import save
from ._state import DEFAULT_PROTOCOL, INT_SIZE, LONG_SIZE, MAGIC_NUMBER, PROTOCOL_VERSION, SHORT_SIZE, _options, _state

__all__ = ["SourceChangeWarning", "mkdtemp", "register_package", "check_module_version_greater_or_equal",
           "validate_cuda_device", "validate_hpu_device", "location_tag", "default_restore_location",
           "normalize_storage_type", "storage_to_tensor_type", "save", "load", "StorageType", "LoadEndianness",
           "get_crc32_options", "set_crc32_options", "get_default_load_endianness", "set_default_load_endianness",
           "get_default_mmap_options", "set_default_mmap_options", "clear_safe_globals", "get_safe_globals",
           "add_safe_globals", "safe_globals", "get_unsafe_globals_in_checkpoint", "skip_data"]

STORAGE_KEY_SEPARATOR = ","
MAP_LOCATION = object     # anything map_location may be: None, a device, text, a dict, a function
FILE_LIKE = object


class SourceChangeWarning(Warning):
    """The source of a pickled class changed."""


class LoadEndianness(Enum):
    NATIVE = 1
    LITTLE = 2
    BIG = 3


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
    """Context manager: save leaves the bytes of storages out (the room for them is kept).

    materialize_fake_tensors: fake tensors are written as ones of their devices.
    """

    def __init__(self, materialize_fake_tensors=False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self):
        self.before = getattr(_state, "skip_data", False), getattr(_state, "materialize_fake_tensors", False)
        _state.skip_data, _state.materialize_fake_tensors = True, self.materialize_fake_tensors

    def __exit__(self, *error):
        _state.skip_data, _state.materialize_fake_tensors = self.before


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


def script_state(path):
    """The parameters and buffers of a TorchScript archive by name; its code is not run."""
    return OrderedDict(torch._C._load_named("state", os.fspath(path)))


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


def get_unsafe_globals_in_checkpoint(f):
    """The names in a file that weights_only=True would refuse."""
    def scan(file):
        _loading.check_seekable(file)
        if not _loading.is_zipfile(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save but got a file that is not a zip")
        archive = _loading.open_archive(file)
        names = _weights_only_unpickler.get_globals_in_pkl(archive.get_record("data.pkl"))
        known = set(_weights_only_unpickler._get_allowed_globals()) | set(
            _weights_only_unpickler._get_user_allowed_globals())
        return list(names - known)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return scan(file)
    return scan(f)
