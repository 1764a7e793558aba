"""Reading: the archive by the reader in C, its pickle by the restricted machine in C or, when asked, by Python."""
import io
import mmap as _mmap
import os
import pickle
import sys
import warnings

import rushlight as torch
from rushlight import _C, _weights_only_unpickler
from rushlight._alias import own_name

from ._legacy import load_legacy
from ._locations import _get_restore_location
from ._state import _options, _state

PyTorchFileReader = _C.PyTorchFileReader


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Read a file written by save; with weights_only (the default) it can contain data, but no code."""
    forced = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
    free = os.environ.get("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "0").lower() in ("1", "y", "yes", "true")
    if forced and free:
        raise RuntimeError("Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be "
                           "set, but both were set.")
    if getattr(_state, "skip_data", False):
        raise RuntimeError("`torch.load` within a torch.serialization.skip_data context manager is not supported. Please call torch.load outside the "
                           "skip_data context manager.")
    if weights_only is None:
        weights_only = pickle_module is None and not free
        if free:
            warnings.warn("Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, and weights_only was not passed to torch.load: "
                          "forcing weights_only=False.", stacklevel=2)
    if forced:
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap is None:
        mmap = False
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if map_location is None:
        device = getattr(torch, "get_default_device", lambda: torch.device("cpu"))()
        if device.type != "cpu":
            map_location = device
    how = _How(map_location, pickle_module, weights_only, mmap, pickle_load_args)
    try:
        if isinstance(f, (str, os.PathLike)):
            shared = mmap and _options["mmap"] == _mmap.MAP_SHARED
            with open(f, "r+b" if shared else "rb") as file:
                return _load_file(file, how)
        check_seekable(f)
        return _load_file(f, how)
    except pickle.UnpicklingError as error:
        if weights_only:
            raise _weights_only_error(error) from None
        raise
    finally:
        torch._utils._sparse_tensors_to_validate.clear()


class _How:
    """What load was asked for."""

    def __init__(self, map_location, pickle_module, weights_only, mmap, arguments):
        self.map_location, self.pickle_module, self.weights_only, self.mmap = map_location, pickle_module, weights_only, mmap
        self.arguments = dict(arguments)
        self.arguments.setdefault("encoding", "utf-8")
        self.restore = _get_restore_location(map_location)

    def place(self, location):
        """Where map_location puts what was at `location`, as far as it says so without storages."""
        wanted = self.map_location
        if isinstance(wanted, dict):
            return wanted.get(location, location)
        return str(wanted) if isinstance(wanted, (str, torch.device)) else location

    def is_meta(self, location):
        return "meta" in (location, str(self.map_location))

    def unpickle(self, data, persistent_load, name, offset=0):
        """(object, position after it) of the pickle that begins at offset."""
        if self.weights_only:
            return _weights_only_unpickler.unpickle(data, persistent_load, self.arguments["encoding"], name, offset)
        stream = io.BytesIO(data)
        stream.seek(offset)
        unpickler = _unpickler_class(self.pickle_module)(stream, **self.arguments)
        unpickler.persistent_load = persistent_load
        return unpickler.load(), stream.tell()


class _NamingUnpickler(pickle.Unpickler):
    """Python's unpickler, with torch's names answered by this package."""

    def find_class(self, module, name):
        if module == "torch" or module.startswith("torch."):
            if name.endswith("Storage") and hasattr(torch.storage, name) and module != "torch.storage":
                return torch.serialization.StorageType(name)
            try:
                return super().find_class(own_name(module), name)
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError("%s.%s is named in the file, but rushlight has no such module"
                                          % (module, name)) from error
        return super().find_class(module, name)


def _unpickler_class(pickle_module):
    if pickle_module in (None, pickle):
        return _NamingUnpickler

    class OtherUnpickler(pickle_module.Unpickler):
        def find_class(self, module, name):
            if module == "torch" and name.endswith("Storage") and hasattr(torch.storage, name):
                return torch.serialization.StorageType(name)
            if module == "torch" or module.startswith("torch."):
                module = own_name(module)
            return super().find_class(module, name)
    return OtherUnpickler


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


# --- files and buffers ------------------------------------------------------------------------------------------------


def is_zipfile(f):
    """Whether a zip starts at the current position."""
    start = f.tell()
    head = f.read(4)
    f.seek(start)
    return head == b"PK\x03\x04"


def check_seekable(f):
    try:
        f.seek(f.tell())
        return True
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)("%s. You can only torch.load from a file that is seekable. Please pre-load the data into a "
                          "buffer like io.BytesIO and try to load from it instead." % error) from None


def _name_of(f):
    name = getattr(f, "name", None)
    return str(name) if isinstance(name, (str, bytes, os.PathLike)) else "a %s" % type(f).__name__


def open_archive(f):
    """The archive that begins at the current position of an open file."""
    if type(f) in (io.BufferedReader, io.BufferedRandom, io.FileIO):
        return PyTorchFileReader(f.fileno(), _name_of(f), f.tell())
    return PyTorchFileReader(_rest(f), _name_of(f))


def _rest(f):
    if type(f) is io.BytesIO:
        return f.getbuffer()[f.tell():]
    data = f.read()
    return data if isinstance(data, (bytes, bytearray, memoryview)) else bytes(data)


def _load_file(file, how):
    if is_zipfile(file):
        start = file.tell()
        archive = open_archive(file)
        if archive.has_record("constants.pkl"):
            file.seek(start)
            return _load_script(file, how)
        return _load_zip(archive, how, _name_of(file))
    if how.mmap:
        raise RuntimeError("mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), "
                           "please torch.save your checkpoint with this option in order to use mmap.")
    start = file.tell()
    result, used = load_legacy(file.read(), how, _name_of(file))
    file.seek(start + used)
    return result


# --- archives ---------------------------------------------------------------------------------------------------------


def _byte_order(archive):
    order = sys.byteorder
    if archive.has_record("byteorder"):
        order = archive.get_record("byteorder").decode("ascii").strip()
        if order not in ("little", "big"):
            raise ValueError("Unknown endianness type: " + order)
    elif _options["endianness"] is not None and _options["endianness"].name in ("LITTLE", "BIG"):
        order = _options["endianness"].name.lower()
    return order


class _Storages:
    """The storages of an archive by key, each read once."""

    def __init__(self, archive, how):
        self.archive, self.how = archive, how
        self.order = _byte_order(archive)
        self.loaded = {}

    def load(self, key, location, dtype, numel):
        how, nbytes = self.how, numel * dtype.itemsize
        if key in self.loaded:
            known = self.loaded[key]
            if known.nbytes() != nbytes:
                raise RuntimeError("storage %s is declared with %d and with %d bytes" % (key, known.nbytes(), nbytes))
            return known if known.dtype == dtype else torch.storage.TypedStorage(wrap_storage=known._untyped_storage, dtype=dtype, _internal=True)
        fake = torch._guards.active_fake_mode() is not None
        if fake or how.is_meta(location):
            untyped = torch.UntypedStorage(nbytes, device="meta")
            if fake:
                untyped._fake_device = how.place(location)
        else:
            if how.mmap and nbytes:
                untyped = self.archive._map_storage("data/" + key, nbytes, _options["mmap"] == _mmap.MAP_SHARED)
            else:
                untyped = self.archive._read_storage("data/" + key, nbytes)
                if dtype is torch.bool and nbytes:
                    _normalise(untyped)
            if self.order != sys.byteorder and dtype.itemsize > 1:
                untyped.byteswap(dtype)
            untyped = how.restore(untyped, location)
        self.loaded[key] = torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)
        return self.loaded[key]

    def persistent_load(self, saved_id):
        if not isinstance(saved_id, tuple) or len(saved_id) < 5 or as_text(saved_id[0]) != "storage":
            raise RuntimeError("Unknown typename for persistent_load, expected 'storage' but got '%s'"
                               % (saved_id[0] if isinstance(saved_id, tuple) and saved_id else saved_id,))
        kind, key, location, numel = saved_id[1:5]
        return self.load(as_text(key), as_text(location), dtype_of(kind), checked_count(numel))


def dtype_of(kind):
    if kind is torch.UntypedStorage or kind is torch.storage.UntypedStorage:
        return torch.uint8
    dtype = getattr(kind, "dtype", None)
    if not isinstance(dtype, torch.dtype):
        raise pickle.UnpicklingError("a persistent id names %r instead of a storage class" % (kind,))
    return dtype


def checked_count(numel):
    if type(numel) is not int or not 0 <= numel < 2 ** 60:
        raise pickle.UnpicklingError("a storage of %.100r elements" % (numel,))
    return numel


def as_text(text):
    text = text.decode("ascii") if isinstance(text, bytes) else text
    if not isinstance(text, str):
        raise pickle.UnpicklingError("a persistent id has a %s where a text is expected" % type(text).__name__)
    return text


def _normalise(untyped):
    """Bytes of bools other than 0 and 1 count as 1."""
    flat = torch.empty((0,), dtype=torch.uint8).set_(untyped, 0, (untyped.nbytes(),), (1,))
    flat.clamp_(max=1)


def _load_script(file, how):
    if how.weights_only:
        raise RuntimeError("Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``: they hold code. Save the state_dict of the "
                           "module instead, or, if you trust the source of the file, read it with torch.jit.load.")
    warnings.warn("'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' (call 'torch.jit.load' directly to "
                  "silence this warning)", stacklevel=4)
    return torch.jit.load(file, how.map_location)


def _load_zip(archive, how, name):
    if not archive.has_record("version"):
        raise RuntimeError("PytorchStreamReader failed locating file version: file not found")
    version = int(archive.get_record("version"))
    if not 1 <= version <= 10:
        raise RuntimeError("Attempted to read a PyTorch file with version %d, but the versions 1 to 10 are supported"
                           % version)
    storages = _Storages(archive, how)
    result, _ = how.unpickle(archive.get_record("data.pkl"), storages.persistent_load, name)
    torch._utils._validate_loaded_sparse_tensors()
    return result
