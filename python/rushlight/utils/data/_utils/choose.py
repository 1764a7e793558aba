"""Threads or processes: which workers a loader gets when the program does not say.

A worker process has a copy of the dataset and random generators of its own; a thread shares both. So threads are chosen
only where no program can tell: for tensors, lists and the like, and for datasets whose code is plain. Plain code assigns
to its own variables only, and all it can reach is plain again: numbers, tensors, functions of torch, math and NumPy,
objects of Python classes with nothing but plain code. Whatever is not known to be plain gets processes, as in PyTorch.
"""
import builtins
import dis
import functools
import types

import rushlight as torch

_FEW = 16       # elements of a container that are looked at
_LIMIT = 200    # values looked at in all

_VALUES = {int, float, complex, bool, str, bytes, type(None), range, slice, type(Ellipsis), type(NotImplemented), torch.dtype,
           torch.device, torch.Size, torch.Tensor, torch.nn.Parameter}
_MODULES = {"rushlight", "torch", "math", "cmath", "operator", "time", "numpy"}
_BUILTINS = {"abs", "all", "any", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter", "float", "format",
             "frozenset", "hash", "id", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "ord", "pow", "range",
             "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip", "NotImplemented", "Ellipsis"}
# Attributes that change what they belong to, or something that all share; also those that end in "_" or begin with "set_".
_CHANGING = {"append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "update", "setdefault", "add", "discard", "remove",
             "clear", "sort", "reverse", "resize", "fill", "put", "partition", "itemset", "setflags", "random", "seed", "manual_seed",
             "initial_seed", "default_generator", "copyto", "place", "__dict__", "__globals__", "__setitem__", "__setattr__"}
# Members that reading a sample does not use.
_UNUSED = {"__init__", "__new__", "__post_init__", "__init_subclass__", "__reduce__", "__getstate__", "__setstate__", "__repr__", "_abc_impl"}

_OPS = {dis.opmap[name] for name in ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_SUBSCR", "DELETE_SUBSCR",
                                     "STORE_SLICE", "IMPORT_NAME") if name in dis.opmap}
_OPS |= {code for name, code in dis.opmap.items() if name.startswith("INPLACE_")}
_BINARY_OP, _STORE_DEREF = dis.opmap.get("BINARY_OP"), dis.opmap["STORE_DEREF"]
_INPLACE = range(13, 26)    # of BINARY_OP's arguments


class _NotPlain(Exception):
    """What was found, in words."""


class _Look:
    def __init__(self):
        self.seen = {}      # by id; what was seen stays alive, so that an id is not used twice

    def value(self, x):
        cls = type(x)
        if cls in _VALUES or id(x) in self.seen:
            return
        self.seen[id(x)] = x
        if len(self.seen) > _LIMIT:
            raise _NotPlain("more code than is worth looking at")
        if cls in (list, tuple, set, frozenset, dict):
            for item, _ in zip(x.values() if cls is dict else x, range(_FEW)):
                self.value(item)
        elif cls is types.FunctionType:
            self.function(x)
        elif cls is types.MethodType:
            self.value(x.__func__)
            self.value(x.__self__)
        elif cls is functools.partial:
            for part in (x.func, x.args, x.keywords):
                self.value(part)
        elif cls is types.ModuleType:
            if x.__name__.partition(".")[0] not in _MODULES:
                raise _NotPlain("the module " + x.__name__)
        elif isinstance(x, type) or cls is types.BuiltinFunctionType:
            if not self.known(x):
                raise _NotPlain(x.__name__)
        elif isinstance(x, torch.utils.data.Dataset) and cls.__module__ == torch.utils.data.Dataset.__module__:
            self.parts(vars(x))
        elif cls.__module__ == "numpy" and hasattr(x, "dtype"):
            if x.dtype.hasobject:
                raise _NotPlain("an array of objects")
        elif isinstance(x, (torch.nn.Module, torch.Tensor)) or not hasattr(x, "__dict__"):
            raise _NotPlain("a " + cls.__name__)
        else:
            self.object(x, cls)

    def parts(self, x):
        for part in x.values():
            self.value(part)

    def known(self, x):
        module = getattr(x, "__module__", None) or getattr(getattr(x, "__self__", None), "__name__", "")
        if module == "builtins":
            return x.__name__ in _BUILTINS or isinstance(x, type) and issubclass(x, BaseException)
        return module.partition(".")[0] in _MODULES and x.__name__ not in _CHANGING and x is not torch.Generator

    def object(self, x, cls):
        """All code of its classes and all that it holds, but for what makes objects."""
        done = set(_UNUSED)
        for base in cls.__mro__:
            module = base.__module__
            if module in ("builtins", "typing", "abc") or module.startswith("rushlight.utils.data."):
                continue
            if not base.__flags__ & 512:    # made in C
                raise _NotPlain("a " + base.__name__)
            for name, member in base.__dict__.items():
                if name == "__next__":
                    raise _NotPlain("an iterator, " + cls.__name__)
                if name in done or name[:2] == "__" and type(member) is not types.FunctionType:
                    continue
                done.add(name)
                if isinstance(member, (property, staticmethod, classmethod)):
                    member = member.fget if isinstance(member, property) else member.__func__
                self.value(member)
        self.parts(vars(x))

    def function(self, f):
        if (f.__module__ or "").partition(".")[0] in _MODULES:
            if not self.known(f):
                raise _NotPlain(f.__name__)
            return
        for part in (f.__defaults__, f.__kwdefaults__, f.__dict__, [cell.cell_contents for cell in f.__closure__ or ()]):
            if part:
                self.value(part)
        self.code(f.__code__, f)

    def code(self, code, f):
        ops, arguments = code.co_code[::2], code.co_code[1::2]
        if not _OPS.isdisjoint(ops) or code.co_freevars and _STORE_DEREF in ops or any(
                op == _BINARY_OP and argument in _INPLACE for op, argument in zip(ops, arguments)):
            raise _NotPlain("%s() assigns to more than variables" % code.co_name)
        for name in code.co_names:
            if name in _CHANGING or name.startswith("set_") or name[-1] == "_" and name[0] != "_":
                raise _NotPlain("%s() calls %s" % (code.co_name, name))
            if name in f.__globals__:
                self.value(f.__globals__[name])
            elif hasattr(builtins, name):
                self.value(getattr(builtins, name))
        for constant in code.co_consts:
            if type(constant) is types.CodeType:
                self.code(constant, f)


def reason_for_processes(dataset, collate_fn):
    """Why threads might be noticed, in words; None where they are not."""
    if isinstance(dataset, (torch.utils.data.IterDataPipe, torch.utils.data.MapDataPipe)):
        return "a data pipe, of which each worker reads a part"
    if torch._C._len_torch_function_stack() or torch.is_autocast_enabled("cpu"):
        return "a mode of this thread"
    try:
        look = _Look()
        look.value(dataset)
        look.value(collate_fn)
    except _NotPlain as found:
        return str(found)
    except (AttributeError, TypeError, ValueError) as odd:      # objects that don't like to be looked at
        return "%s: %s" % (type(odd).__name__, odd)
    return None
