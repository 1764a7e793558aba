"""Storages: the bytes behind tensors.

UntypedStorage is the extension's type.  TypedStorage, kept for old programs and for files, is a dtype beside an
untyped storage; torch.FloatStorage and its kin are names for it with a fixed dtype.  All arithmetic on typed
storages goes through a tensor that views the bytes.
"""
import functools
import io
import operator
import warnings

import rushlight as torch
from rushlight import _C

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage(_C.StorageBase):
    """The bytes under one or more tensors."""

    __module__ = "torch.storage"


_C._set_storage_class(UntypedStorage)

_NAMES = {dtype._storage: str(dtype)[len("torch."):] for dtype in _C._dtypes.values() if dtype._storage}
_NAMES.update(QUInt4x2Storage="quint4x2", QUInt2x4Storage="quint2x4")


@functools.lru_cache(None)
def _storage_type_to_dtype_map():
    return {name: getattr(torch, dtype) for name, dtype in _NAMES.items() if hasattr(torch, dtype)}


@functools.lru_cache(None)
def _dtype_to_storage_type_map():
    return {dtype: name for name, dtype in _storage_type_to_dtype_map().items()}


def _get_dtype_from_pickle_storage_type(pickle_storage_type):
    return _storage_type_to_dtype_map()[pickle_storage_type]


@functools.lru_cache(None)
def _new_dtypes():
    """dtypes that have no storage class of their own in files."""
    names = ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu",
             "float4_e2m1fn_x2", "bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "complex32", "uint16", "uint32",
             "uint64", "int1", "int2", "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3", "uint4",
             "uint5", "uint6", "uint7")
    return {getattr(torch, name) for name in names if hasattr(torch, name)}


_warned = False
_always_warn = False


def _warn_typed_storage_removal(stacklevel=2):
    global _warned
    if _always_warn or not _warned:
        warnings.warn("TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only "
                      "storage class. This should only matter to you if you are using storages directly.  To access "
                      "UntypedStorage directly, use tensor.untyped_storage() instead of tensor.storage()",
                      UserWarning, stacklevel=stacklevel + 1)
        _warned = True


def _reset_warn_typed_storage_removal():
    global _warned
    _warned = False


def _set_always_warn_typed_storage_removal(always_warn):
    global _always_warn
    _always_warn = bool(always_warn)


def _get_always_warn_typed_storage_removal():
    return _always_warn


def _load_from_bytes(b):
    return torch.load(io.BytesIO(b), weights_only=False)


class _TypedMeta(type):
    """isinstance(x, torch.FloatStorage) asks for the dtype of x."""

    def __instancecheck__(cls, instance):
        if type.__instancecheck__(cls, instance):
            return True
        name = cls.__dict__.get("_dtype_name")
        return name is not None and isinstance(instance, TypedStorage) and instance.dtype == getattr(torch, name)

    @property
    def dtype(cls):
        if cls._dtype_name is None:
            raise AttributeError("type object '%s' has no attribute 'dtype'" % cls.__name__)
        return getattr(torch, cls._dtype_name)


def _wrong_arguments(cls, why, kind=RuntimeError):
    return kind("%s received an invalid combination of arguments. %s" % (cls, why))


class TypedStorage(metaclass=_TypedMeta):
    """A run of elements of one dtype."""

    is_sparse = False
    _dtype_name = None

    def __new__(cls, *args, wrap_storage=None, dtype=None, device=None, _internal=False):
        if not _internal:
            _warn_typed_storage_removal()
        made = object.__new__(TypedStorage if cls._dtype_name is not None else cls)
        if cls._dtype_name is not None:
            for name, given in (("dtype", dtype), ("device", device)):
                if given is not None and not _internal:
                    raise _wrong_arguments(cls, "Keyword argument '%s' cannot be specified" % name)
            dtype = getattr(torch, cls._dtype_name)
            made._fill_in(args, wrap_storage, dtype, device)
        elif wrap_storage is not None and dtype is None:
            raise _wrong_arguments(cls, "Argument 'dtype' must be specified together with 'wrap_storage'")
        else:
            made._fill_in(args, wrap_storage, dtype if dtype is not None else torch.get_default_dtype(), device)
        return made

    def _fill_in(self, args, wrap_storage, dtype, device):
        if not isinstance(dtype, torch.dtype):
            kind = RuntimeError if wrap_storage is None else TypeError
            raise _wrong_arguments(type(self), "Argument 'dtype' must be torch.dtype: expected torch.dtype, but got %s" % type(dtype), kind)
        self._dtype = dtype
        if wrap_storage is not None:
            if args:
                raise _wrong_arguments(type(self), "No positional arguments should be given when using 'wrap_storage'")
            if device is not None:
                raise _wrong_arguments(type(self), "Argument 'device' should not be specified when 'wrap_storage' is given")
            if isinstance(wrap_storage, TypedStorage):
                wrap_storage = wrap_storage._untyped_storage
            if not isinstance(wrap_storage, UntypedStorage):
                raise _wrong_arguments(type(self), "Argument 'wrap_storage' must be UntypedStorage, but got %s" % type(wrap_storage), TypeError)
            self._untyped_storage = wrap_storage
            return
        if len(args) > 1:
            raise _wrong_arguments(type(self), "Too many positional arguments")
        if args and not hasattr(args[0], "__index__"):
            source = args[0]
            if isinstance(source, TypedStorage):
                source = source.tolist()
            values = torch.tensor(list(source), dtype=dtype, device=device)
            self._untyped_storage = values.untyped_storage()
        else:
            count = operator.index(args[0]) if args else 0
            self._untyped_storage = UntypedStorage(count * dtype.itemsize, device=device or "cpu")

    # --- what it is

    @property
    def dtype(self):
        return self._dtype

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return self.device.type == "cuda"

    @property
    def is_hpu(self):
        return self.device.type == "hpu"

    @property
    def filename(self):
        return self._untyped_storage.filename

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def untyped(self):
        return self._untyped_storage

    def _as_tensor(self):
        return torch.empty((0,), dtype=self._dtype, device=self.device).set_(
            self._untyped_storage, 0, (self._size(),), (1,))

    def _size(self):
        return self._untyped_storage.nbytes() // self._dtype.itemsize

    def __len__(self):
        return self._size()

    def size(self):
        return self._size()

    def nbytes(self):
        return self._untyped_storage.nbytes()

    _nbytes = nbytes

    def element_size(self):
        return self._dtype.itemsize

    _element_size = element_size

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def get_device(self):
        return self.device.index

    def resizable(self):
        return self._untyped_storage.resizable()

    def pickle_storage_type(self):
        return self._pickle_storage_type()

    def _pickle_storage_type(self):
        try:
            return _dtype_to_storage_type_map()[self._dtype]
        except KeyError:
            raise KeyError("dtype %s is not recognized" % (self._dtype,)) from None

    def _get_legacy_storage_class(self):
        name = _dtype_to_storage_type_map().get(self._dtype)
        return None if name is None else getattr(torch, name)

    # --- elements

    def _index(self, i):
        if not isinstance(i, int):
            raise RuntimeError("can't index a %s with %s" % (type(self), type(i)))
        if i < -len(self) or i >= len(self):
            raise IndexError("index %d out of range for storage of size %d" % (i, len(self)))
        return i % len(self)

    def __getitem__(self, idx):
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type")
        if isinstance(idx, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._as_tensor()[self._index(idx)].item()

    _getitem = __getitem__

    def __setitem__(self, idx, value):
        if isinstance(idx, slice):
            if isinstance(value, (TypedStorage, UntypedStorage)):
                raise RuntimeError("cannot set item with value type %s" % type(value))
            self._as_tensor()[idx] = value
        else:
            self._as_tensor()[self._index(idx)] = value

    _setitem = __setitem__

    def __iter__(self):
        return iter(self.tolist())

    def tolist(self):
        return self._as_tensor().tolist()

    def fill_(self, value):
        self._as_tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        if isinstance(source, UntypedStorage):
            self._untyped_storage.copy_(source)
        else:
            self._as_tensor().copy_(source._as_tensor())
        return self

    def resize_(self, size):
        self._untyped_storage.resize_(size * self._dtype.itemsize)

    _resize_ = resize_

    # --- copies

    def _wrap(self, untyped):
        return TypedStorage(wrap_storage=untyped, dtype=self._dtype, _internal=True)

    _new_wrapped_storage = _wrap

    def clone(self):
        return self._wrap(self._untyped_storage.clone())

    __copy__ = clone

    def _deepcopy(self, memo):
        return self._wrap(__import__("copy").deepcopy(self._untyped_storage, memo))

    __deepcopy__ = _deepcopy

    def cpu(self):
        return self._wrap(self._untyped_storage.cpu())

    def cuda(self, device=None, non_blocking=False):
        return self._wrap(self._untyped_storage.cuda(device, non_blocking))

    def to(self, *, device, non_blocking=False):
        return self._wrap(torch._utils._to(self._untyped_storage, torch.device(device), non_blocking))

    def type(self, dtype=None, non_blocking=False):
        if dtype is None:
            kind = _dtype_to_storage_type_map().get(self._dtype)
            if kind is None:
                return "torch.storage.TypedStorage"
            return ("torch." if self.device.type == "cpu" else "torch.%s." % self.device.type) + kind
        return self._converted(dtype)

    def _converted(self, dtype):
        copy = self._as_tensor().to(dtype)
        return TypedStorage(wrap_storage=copy.untyped_storage(), dtype=dtype, _internal=True)

    def double(self):
        return self._converted(torch.double)

    def float(self):
        return self._converted(torch.float)

    def half(self):
        return self._converted(torch.half)

    def long(self):
        return self._converted(torch.long)

    def int(self):
        return self._converted(torch.int)

    def short(self):
        return self._converted(torch.short)

    def char(self):
        return self._converted(torch.int8)

    def byte(self):
        return self._converted(torch.uint8)

    def bool(self):
        return self._converted(torch.bool)

    def bfloat16(self):
        return self._converted(torch.bfloat16)

    def complex_double(self):
        return self._converted(torch.cdouble)

    def complex_float(self):
        return self._converted(torch.cfloat)

    # --- shared and pinned memory, files

    def is_shared(self):
        return self._untyped_storage.is_shared()

    _is_shared = is_shared

    def share_memory_(self):
        self._untyped_storage.share_memory_()
        return self

    _share_memory_ = share_memory_

    def is_pinned(self, device="cuda"):
        return self._untyped_storage.is_pinned(device)

    def pin_memory(self, device="cuda"):
        return self._wrap(self._untyped_storage.pin_memory(device))

    def _new_shared(self, size, *, device=None):
        return self._wrap(UntypedStorage._new_shared(size * self._dtype.itemsize, device=device or self.device))

    @classmethod
    def from_buffer(cls, *args, **kwargs):
        _warn_typed_storage_removal()
        return cls._from_buffer(*args, **kwargs)

    @classmethod
    def _from_buffer(cls, *args, dtype=None, device=None, **kwargs):
        if cls._dtype_name is not None:
            dtype = getattr(torch, cls._dtype_name)
        elif dtype is None:
            dtype = torch.get_default_dtype()
        data = UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs)
        return TypedStorage(wrap_storage=data if device is None else data.to(device=device), dtype=dtype, _internal=True)

    @classmethod
    def from_file(cls, filename, shared=False, size=0):
        dtype = getattr(torch, cls._dtype_name) if cls._dtype_name is not None else torch.get_default_dtype()
        untyped = UntypedStorage.from_file(filename, shared, size * dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

    def _weak_ref(self):
        return self._untyped_storage._weak_ref()

    def _set_cdata(self, *args):
        return self._untyped_storage._set_cdata(*args)

    @classmethod
    def _free_weak_ref(cls, *args):
        return UntypedStorage._free_weak_ref(*args)

    @classmethod
    def _expired(cls, *args):
        return UntypedStorage._expired(*args)

    def _write_file(self, *args):
        return self._untyped_storage._write_file(*args)

    # --- printing, comparing, pickling

    def __str__(self):
        note = "[torch.storage.TypedStorage(dtype=%s, device=%s) of size %d]" % (self._dtype, self.device, len(self))
        if self.device.type == "meta":
            return "...\n" + note
        return " " + "\n ".join(str(self[i]) for i in range(len(self))) + "\n" + note

    __repr__ = __str__

    def __eq__(self, other):
        if not isinstance(other, TypedStorage):
            return False
        return self._untyped_storage.data_ptr() == other._untyped_storage.data_ptr() and \
            self._untyped_storage.nbytes() == other._untyped_storage.nbytes() and self._dtype == other._dtype

    __hash__ = object.__hash__

    def __sizeof__(self):
        return object.__sizeof__(self) + self.nbytes()

    def __reduce__(self):
        buffer = io.BytesIO()
        torch.save(self, buffer, _use_new_zipfile_serialization=False)
        return _load_from_bytes, (buffer.getvalue(),)


class _LegacyStorage(TypedStorage):
    """torch.FloatStorage and the like: making one makes a TypedStorage of that dtype."""

    def __new__(cls, *args, **kwargs):
        if cls is _LegacyStorage:
            raise RuntimeError("Only child classes of _LegacyStorage can be instantiated")
        return super().__new__(cls, *args, **kwargs)


def _make_legacy():
    made = {}
    for name, dtype in _NAMES.items():
        made[name] = _TypedMeta(name, (_LegacyStorage,), {
            "_dtype_name": dtype, "__module__": torch.__name__, "__qualname__": name,
            "dtype": property(lambda self: self._dtype), "__doc__": "TypedStorage with dtype torch.%s." % dtype})
    return made


_legacy = _make_legacy()
globals().update(_legacy)


def _legacy_classes():
    return list(_legacy.values())


# --- what the extension's type leaves to Python -------------------------------------------------------------------


def _untyped_tensor(storage):
    return torch.empty((0,), dtype=torch.uint8, device=storage.device).set_(storage, 0, (storage.nbytes(),), (1,))


def _untyped_repr(self):
    note = "[torch.storage.UntypedStorage(device=%s) of size %d]" % (self.device, len(self))
    if self.device.type == "meta":
        return "...\n" + note
    return " " + "\n ".join(str(value) for value in _untyped_tensor(self).tolist()) + "\n" + note


def _untyped_clone(self):
    return UntypedStorage(self.nbytes(), device=self.device).copy_(self)


def _untyped_deepcopy(self, memo):
    memo = memo.setdefault("torch", {})
    if self._cdata not in memo:
        memo[self._cdata] = self.clone()
    return memo[self._cdata]


def _untyped_reduce(self):
    buffer = io.BytesIO()
    torch.save(self, buffer, _use_new_zipfile_serialization=False)
    return _load_from_bytes, (buffer.getvalue(),)


def _untyped_convert(name):
    def convert(self):
        dtype = getattr(torch, name)
        copy = _untyped_tensor(self).to(dtype)
        return TypedStorage(wrap_storage=copy.untyped_storage(), dtype=dtype, _internal=True)
    convert.__name__ = name
    return convert


def _untyped_byteswap(self, dtype):
    size = dtype.itemsize // (2 if dtype.is_complex else 1)
    flat = _untyped_tensor(self).view(-1, size)
    flat.copy_(flat.flip(1))


def _untyped_share_memory_(self):
    if self.device.type == "cpu":
        if torch.multiprocessing.get_sharing_strategy() == "file_system":
            self._share_filename_cpu_()
        else:
            self._share_fd_cpu_()
    return self


def _untyped_new_shared(cls, size, *, device="cpu"):
    if torch.device(device).type != "cpu":
        return cls(size, device=device)
    if torch.multiprocessing.get_sharing_strategy() == "file_system":
        return cls._new_using_filename_cpu(size)
    return cls._new_using_fd_cpu(size)


def _complete_untyped():
    """Give the extension's type the methods that need no C; those it has are left alone."""
    methods = {
        "__repr__": _untyped_repr, "__str__": _untyped_repr, "clone": _untyped_clone, "__copy__": _untyped_clone,
        "__deepcopy__": _untyped_deepcopy, "__reduce__": _untyped_reduce, "byteswap": _untyped_byteswap,
        "_share_cuda_": lambda self: torch._C._cuda_share(self), "_new_shared_cuda": classmethod(lambda cls, *args: torch._C._cuda_open_shared(*args)),
        "_release_ipc_counter_cuda": classmethod(lambda cls, *args: torch._C._cuda_release_shared(*args)),
        "_release_ipc_counter": classmethod(lambda cls, *args, device=None: torch._C._cuda_release_shared(*args)),
        "share_memory_": _untyped_share_memory_, "untyped": lambda self: self,
        "tolist": lambda self: _untyped_tensor(self).tolist(),
        "cpu": lambda self: self if self.device.type == "cpu" else torch._utils._to(self, torch.device("cpu")),
        "cuda": lambda self, device=None, non_blocking=False: torch._utils._to(
            self, torch.device("cuda", device), non_blocking),
        "to": lambda self, *, device, non_blocking=False: torch._utils._to(self, torch.device(device), non_blocking),
        "type": torch._utils._type, "is_pinned": lambda self, device="cuda": False,
        "get_device": lambda self: self.device.index, "_new_shared": classmethod(_untyped_new_shared),
        "is_sparse": False, "is_sparse_csr": False, "is_hpu": property(lambda self: False),
        "is_cuda": property(lambda self: self.device.type == "cuda"),
        "size": lambda self: self.nbytes(), "__sizeof__": lambda self: object.__sizeof__(self) + self.nbytes(),
        "_to": torch._utils._to, "element_size": lambda self: 1, "filename": property(lambda self: None),
    }
    for name, dtype in (("double", "float64"), ("float", "float32"), ("half", "float16"), ("long", "int64"),
                        ("int", "int32"), ("short", "int16"), ("char", "int8"), ("byte", "uint8"), ("bool", "bool"),
                        ("bfloat16", "bfloat16"), ("complex_double", "complex128"), ("complex_float", "complex64")):
        methods[name] = _untyped_convert(dtype)
    for name, method in methods.items():
        # object's own __repr__ and __reduce__ do not count as having one.
        if getattr(UntypedStorage, name, None) in (None, getattr(object, name, None)):
            setattr(UntypedStorage, name, method)


_complete_untyped()
