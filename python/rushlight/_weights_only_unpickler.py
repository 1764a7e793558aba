"""The restricted unpickler behind torch.load(weights_only=True).

The pickle machine is C (src/io/pickle.c, python/_C/unpickle.c) and has a closed list of opcodes; names in the file
are looked up in a table here and never imported; calls and object states are limited to what checkpoints need.  So
a file can make tensors, containers and numbers, and nothing else.
"""
import importlib
from _codecs import encode
from collections import Counter, OrderedDict
from pickle import UnpicklingError

import rushlight as torch
from rushlight._namespace import _TENSOR_TYPES

_user_allowed = []


def _entry(item):
    """(key, object) of an item of add_safe_globals: an object, or (object, its name in files)."""
    if isinstance(item, tuple):
        if len(item) != 2 or not isinstance(item[1], str):
            raise ValueError("Expected tuple of a callable and its full name, got %r" % (item,))
        return item[1], item[0]
    module, name = item.__module__, getattr(item, "__qualname__", getattr(item, "__name__", None))
    from rushlight._alias import torch_name
    return "%s.%s" % (torch_name(module), name), item


def _add_safe_globals(safe_globals):
    for item in safe_globals:
        if not any(known is item or known == item for known in _user_allowed):
            _user_allowed.append(item)


def _get_safe_globals():
    return list(_user_allowed)


def _clear_safe_globals():
    _user_allowed.clear()


def _remove_safe_globals(globals_to_remove):
    for item in globals_to_remove:
        if item in _user_allowed:
            _user_allowed.remove(item)


class _safe_globals:
    """Context manager: these names are allowed inside."""

    def __init__(self, safe_globals):
        self.safe_globals = list(safe_globals)

    def __enter__(self):
        self.before = list(_user_allowed)
        _add_safe_globals(self.safe_globals)

    def __exit__(self, *error):
        _user_allowed[:] = self.before


def _get_user_allowed_globals():
    table = {}
    for item in _user_allowed:
        key, value = _entry(item)
        table[key] = value
    return table


_REBUILD = ("_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_qtensor", "_rebuild_tensor",
            "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage",
            "_rebuild_nested_tensor", "_rebuild_wrapper_subclass", "_rebuild_device_tensor_from_numpy",
            "_rebuild_device_tensor_from_cpu_tensor")
_DTYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
           "float64", "complex32", "complex64", "complex128", "bool", "float8_e4m3fn", "float8_e4m3fnuz",
           "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "qint8", "quint8", "qint32",
           "quint4x2", "quint2x4", "bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "int1", "int2", "int3", "int4",
           "int5", "int6", "int7", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7")
# Allowed as well, and imported when a file names them.
_LATER = frozenset(("torch.nested._internal.nested_tensor.NestedTensor", "torch.nested._internal.nested_tensor._rebuild_njt",
                    "torch._dynamo.decorators._DimRange"))
_base_table = None


def _storage_classes():
    from rushlight import storage
    for cls in storage._legacy_classes():
        yield cls.__name__, cls


def _get_allowed_globals():
    """Name in files -> object, for everything allowed without asking."""
    global _base_table
    if _base_table is None:
        table = {
            "collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "_codecs.encode": encode,
            "builtins.bytearray": bytearray, "builtins.set": set, "builtins.complex": complex,
            "torch.nn.parameter.Parameter": torch.nn.Parameter, "torch.Tensor": torch.Tensor, "torch.Size": torch.Size,
            "torch.device": torch.device, "torch.serialization._get_layout": torch.serialization._get_layout,
            "torch.storage.TypedStorage": torch.storage.TypedStorage,
            "torch.storage.UntypedStorage": torch.storage.UntypedStorage,
        }
        for name in _DTYPES:
            if hasattr(torch, name):
                table["torch." + name] = getattr(torch, name)
        for name in ("per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric",
                     "per_channel_affine_float_qparams"):
            if hasattr(torch, name):
                table["torch." + name] = getattr(torch, name)
        for name, cls in _storage_classes():
            table["torch." + name] = torch.serialization.StorageType(name)
            table["torch.cuda." + name] = torch.serialization.StorageType(name)
        for name in _TENSOR_TYPES:
            table["torch." + name] = getattr(torch, name)
        for name in _REBUILD:
            table["torch._utils." + name] = getattr(torch._utils, name)
        rebuild = getattr(torch._tensor, "_rebuild_from_type_v2", None)
        if rebuild is not None:
            table["torch._tensor._rebuild_from_type_v2"] = rebuild
        _base_table = table
    return _base_table


_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def _key(module, name):
    module = _RENAMED.get(module, module)
    if module == "builtins":
        name = {"unicode": "str", "long": "int"}.get(name, name)
    return module + "." + name


def _unsupported(key):
    key = key.removeprefix("builtins.")
    return UnpicklingError(
        "Unsupported global: GLOBAL %s was not an allowed global by default. Please use "
        "`torch.serialization.add_safe_globals([%s])` or the `torch.serialization.safe_globals([%s])` context manager "
        "to allowlist this global if you trust this class/function." % (key, key, key))


def _sized(table):
    """What would make memory of a number in the file: bytearray(n), FloatTensor(n), UntypedStorage(n)."""
    return {id(f) for key, f in table.items()
            if f is bytearray or key.endswith("Tensor") or isinstance(f, type) and f.__name__ in ("TypedStorage", "UntypedStorage")}


class _Policy:
    """What one pickle may name, call, make and give a state to."""

    def __init__(self):
        self.users = _get_user_allowed_globals()
        self.table = _get_allowed_globals()
        self.user_classes = {cls for cls in self.users.values() if isinstance(cls, type)}

    def find(self, module, name):
        key = _key(module, name)
        blocked = module.split(".")[0]
        if blocked in ("sys", "os", "posix", "nt"):  # whatever the program allows
            raise UnpicklingError("Trying to load unsupported GLOBAL %s whose module %s is blocked." % (key, blocked))
        if key in self.users:
            return self.users[key]
        if key in self.table:
            return self.table[key]
        if key in _LATER:
            found = getattr(importlib.import_module(module.replace("torch", "rushlight", 1)), name)
            if isinstance(found, type):
                self.user_classes.add(found)
            return found
        raise _unsupported(key)

    def new(self, cls, args, kwargs):
        if cls is torch.nn.Parameter or cls in self.user_classes:
            return cls.__new__(cls, *args, **(kwargs or {}))
        raise UnpicklingError("Can only create new object for nn.Parameter or classes allowlisted via "
                              "`add_safe_globals` but got %s" % (cls,))

    def build(self, target, state):
        kind = type(target)
        if kind is torch.Tensor:
            before = state[0].nbytes() if state and hasattr(state[0], "nbytes") else None
            target.set_(*state)
            if before is not None and target.untyped_storage().nbytes() > before:
                raise UnpicklingError("a tensor lies outside of its storage")
        elif kind is torch.nn.Parameter:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                torch._utils._set_obj_state(target, state)
        elif kind is OrderedDict:
            target.__dict__.update(state)
        elif kind in self.user_classes:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                slots = None
                if isinstance(state, tuple) and len(state) == 2:
                    state, slots = state
                if state:
                    target.__dict__.update(state)
                for name, value in (slots or {}).items():
                    setattr(target, name, value)
        else:
            raise UnpicklingError("Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                                  "`add_safe_globals`, but got %s" % kind)


def _no_ids(pid):
    raise UnpicklingError("unsupported persistent id encountered")


def unpickle(data, persistent_load=_no_ids, encoding="utf-8", name="a pickle", offset=0):
    """(object, position after it) of the pickle that begins at offset of data."""
    policy = _Policy()
    return torch._C._unpickle(data, offset, policy.find, persistent_load, policy.new, policy.build,
                              {OrderedDict, Counter} | policy.user_classes, _sized(policy.table), encoding, name)


class Unpickler:
    """Reads one pickle from a binary file."""

    def __init__(self, file, *, encoding="bytes"):
        self.file, self.encoding = file, encoding

    def persistent_load(self, pid):
        return _no_ids(pid)

    def load(self):
        """The object of the pickle; the file stands behind it then."""
        start = self.file.tell()
        result, used = unpickle(self.file.read(), self.persistent_load, self.encoding)
        self.file.seek(start + used)
        return result


def get_globals_in_pkl(file):
    """The names that a pickle looks up, as "module.name"; nothing is loaded."""
    import pickletools
    found, strings = set(), []
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL":
            found.add(_key(*argument.split(" ", 1)))
        elif opcode.name == "STACK_GLOBAL":
            found.add(_key(*strings[-2:]))
        elif isinstance(argument, str):
            strings.append(argument)
    return found


def load(file, *, encoding="ASCII"):
    return Unpickler(file, encoding=encoding).load()
