"""The restricted unpickler behind torch.load(weights_only=True).

It runs the pickle machine over a closed list of opcodes; names in the file are looked up in a table and never
imported; calls and object states are limited to what checkpoints need.  So a file can make tensors, containers
and numbers, and nothing else.  docs of the opcodes: pickletools.
"""
import struct
from _codecs import encode
from collections import Counter, OrderedDict
from pickle import UnpicklingError

import rushlight as torch

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
        for kind in ("Double", "Float", "Half", "Long", "Int", "Short", "Char", "Byte", "Bool", "BFloat16"):
            if hasattr(torch, kind + "Tensor"):
                table["torch.%sTensor" % kind] = getattr(torch, kind + "Tensor")
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
    if module == "builtins" and name == "unicode":
        name = "str"
    return module + "." + name


def _unsupported(key):
    return UnpicklingError(
        "Unsupported global: GLOBAL %s was not an allowed global by default. Please use "
        "`torch.serialization.add_safe_globals([%s])` or the `torch.serialization.safe_globals([%s])` context manager "
        "to allowlist this global if you trust this class/function." % (key, key, key))


class Unpickler:
    """Reads one pickle from a binary file."""

    def __init__(self, file, *, encoding="bytes"):
        self.encoding = encoding
        self.readline = file.readline
        self.read = file.read
        self.memo = {}
        self.proto = -1

    def persistent_load(self, pid):
        raise UnpicklingError("unsupported persistent id encountered")

    def _take(self, count):
        data = self.read(count)
        if len(data) != count:
            raise EOFError("Ran out of input")
        return data

    def _find(self, module, name):
        key = _key(module, name)
        users = _get_user_allowed_globals()
        if key in users:
            return users[key]
        table = _get_allowed_globals()
        if key in table:
            return table[key]
        if module.split(".")[0] in ("sys", "os", "posix", "nt"):
            raise UnpicklingError("Trying to load unsupported GLOBAL %s whose module %s is blocked."
                                  % (key, module.split(".")[0]))
        raise _unsupported(key)

    def _may_call(self, func):
        if func in _get_user_allowed_globals().values():
            return True
        return func in _get_allowed_globals().values() and not isinstance(func, (torch.dtype,))

    def _pop_mark(self):
        items = self.stack
        self.stack = self.marks.pop()
        return items

    def _build(self):
        state = self.stack.pop()
        target = self.stack[-1]
        kind = type(target)
        if kind is torch.Tensor:
            target.set_(*state)
        elif kind is torch.nn.Parameter:
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                torch._utils._set_obj_state(target, state)
        elif kind is OrderedDict:
            target.__dict__.update(state)
        elif kind in _get_user_allowed_globals().values():
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

    def _new_object(self, cls, args, kwargs=None):
        if cls is torch.nn.Parameter or (isinstance(cls, type) and cls in _get_user_allowed_globals().values()
                                         and isinstance(args, tuple)):
            return cls.__new__(cls, *args, **(kwargs or {}))
        raise UnpicklingError("Can only create new object for nn.Parameter or classes allowlisted via "
                              "`add_safe_globals` but got %s" % (cls,))

    def _reduce(self):
        args = self.stack.pop()
        func = self.stack[-1]
        if not isinstance(args, tuple):
            raise UnpicklingError("the arguments of a REDUCE must be a tuple, got %s" % type(args).__name__)
        try:
            allowed = self._may_call(func)
        except TypeError:
            allowed = False
        if not allowed:
            raise UnpicklingError("Trying to call reduce for unrecognized function %s" % (func,))
        self.stack[-1] = func(*args)

    def _append_all(self, items):
        target = self.stack[-1]
        if type(target) is not list:
            raise UnpicklingError("Can only append to lists, but got %s" % type(target))
        target.extend(items)

    def _set_items(self, items):
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter) and \
                type(target) not in _get_user_allowed_globals().values():
            raise UnpicklingError("Can only set items of dictionaries, but got %s" % type(target))
        for i in range(0, len(items), 2):
            target[items[i]] = items[i + 1]

    def load(self):
        """The object of the pickle."""
        self.stack, self.marks = [], []
        while True:
            code = self.read(1)
            if not code:
                raise EOFError
            handler = _HANDLERS.get(code[0])
            if handler is None:
                raise UnpicklingError("Unsupported operand %d" % code[0])
            if handler is _stop:
                if len(self.stack) != 1 or self.marks:
                    raise UnpicklingError("the pickle ends with %d values instead of one" % len(self.stack))
                return self.stack.pop()
            handler(self)


# --- one function per opcode ------------------------------------------------------------------------------------------

_stop = object()


def _text_pair(u):
    module, name = u.readline()[:-1].decode("utf-8"), u.readline()[:-1].decode("utf-8")
    u.stack.append(u._find(module, name))


def _stack_global(u):
    name, module = u.stack.pop(), u.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise UnpicklingError("STACK_GLOBAL requires str")
    u.stack.append(u._find(module, name))


def _new_obj(u):
    args, cls = u.stack.pop(), u.stack.pop()
    u.stack.append(u._new_object(cls, args))


def _new_obj_ex(u):
    kwargs, args, cls = u.stack.pop(), u.stack.pop(), u.stack.pop()
    u.stack.append(u._new_object(cls, args, kwargs))


def _mark(u):
    u.marks.append(u.stack)
    u.stack = []


def _tuple(u):
    items = u._pop_mark()
    u.stack.append(tuple(items))


def _tuple_of(count):
    def make(u):
        if len(u.stack) < count:
            raise UnpicklingError("a tuple of %d from a stack of %d" % (count, len(u.stack)))
        u.stack[-count:] = [tuple(u.stack[-count:])]
    return make


def _push(make):
    return lambda u: u.stack.append(make())


def _number(layout, size):
    unpack = struct.Struct(layout).unpack
    return lambda u: u.stack.append(unpack(u._take(size))[0])


def _long1(u):
    u.stack.append(int.from_bytes(u._take(u._take(1)[0]), "little", signed=True))


def _unicode(width):
    def read(u):
        u.stack.append(str(u._take(int.from_bytes(u._take(width), "little")), "utf-8", "surrogatepass"))
    return read


def _bytes(width, kind=bytes):
    def read(u):
        u.stack.append(kind(u._take(int.from_bytes(u._take(width), "little"))))
    return read


def _short_string(u):
    data = u._take(u._take(1)[0])
    u.stack.append(data if u.encoding == "bytes" else data.decode(u.encoding))


def _get(width):
    def read(u):
        key = int.from_bytes(u._take(width), "little")
        if key not in u.memo:
            raise UnpicklingError("Memo value not found at index %d" % key)
        u.stack.append(u.memo[key])
    return read


def _put(width):
    def read(u):
        u.memo[int.from_bytes(u._take(width), "little")] = u.stack[-1]
    return read


def _memoize(u):
    u.memo[len(u.memo)] = u.stack[-1]


def _append(u):
    item = u.stack.pop()
    u._append_all([item])


def _appends(u):
    items = u._pop_mark()
    u._append_all(items)


def _set_item(u):
    value, key = u.stack.pop(), u.stack.pop()
    u._set_items([key, value])


def _set_items(u):
    items = u._pop_mark()
    if len(items) % 2:
        raise UnpicklingError("SETITEMS with an odd number of items")
    u._set_items(items)


def _add_items(u):
    items = u._pop_mark()
    if type(u.stack[-1]) is not set:
        raise UnpicklingError("Can only add items to sets, but got %s" % type(u.stack[-1]))
    u.stack[-1].update(items)


def _persistent(u):
    pid = u.stack.pop()
    # In the old format the class of the storage and its location are bytes.
    u.stack.append(u.persistent_load(pid))


def _proto(u):
    u.proto = u._take(1)[0]
    if not 2 <= u.proto <= 5:
        raise UnpicklingError("unsupported pickle protocol: %d" % u.proto)


_HANDLERS = {
    0x80: _proto, ord("."): _stop, ord("("): _mark, ord(")"): _push(tuple), ord("]"): _push(list),
    ord("}"): _push(dict), 0x8f: _push(set), ord("N"): _push(lambda: None), 0x88: _push(lambda: True),
    0x89: _push(lambda: False), ord("t"): _tuple, 0x85: _tuple_of(1),
    0x86: _tuple_of(2), 0x87: _tuple_of(3), ord("K"): _number("<B", 1), ord("M"): _number("<H", 2),
    ord("J"): _number("<i", 4), 0x8a: _long1, ord("G"): _number(">d", 8), ord("X"): _unicode(4), 0x8c: _unicode(1),
    0x8d: _unicode(8), ord("U"): _short_string, ord("B"): _bytes(4), ord("C"): _bytes(1), 0x8e: _bytes(8),
    0x96: _bytes(8, bytearray), ord("h"): _get(1), ord("j"): _get(4), ord("q"): _put(1), ord("r"): _put(4),
    0x94: _memoize, ord("c"): _text_pair, 0x93: _stack_global, ord("R"): Unpickler._reduce,
    ord("b"): Unpickler._build, 0x81: _new_obj, 0x92: _new_obj_ex, ord("a"): _append, ord("e"): _appends,
    ord("s"): _set_item, ord("u"): _set_items, 0x90: _add_items, ord("Q"): _persistent,
    0x95: lambda u: u._take(8),     # FRAME: how many bytes belong together
}


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
