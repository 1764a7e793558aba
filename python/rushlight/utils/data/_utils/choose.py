"""Threads or processes: which workers a loader gets when the program does not say.

A worker process has a copy of the dataset and random generators of its own; a thread shares both. So threads are chosen
only for datasets that cannot tell: all that reading a sample can reach (code, by the names in it, and the values these
names stand for) is looked at, and what keeps state, draws from Python's or NumPy's random numbers or is not known makes
it processes. The look is bounded, and takes some 10 us for a plain dataset.
"""
import dis
import functools
import random
import sys
import types

import rushlight as torch

_LIMIT = 300            # values and functions looked at before giving up
_FEW = 6                # elements of a list that are looked at

_PLAIN = {int, float, complex, bool, str, bytes, type(None), range, slice, type(Ellipsis), type(NotImplemented), torch.dtype,
          torch.device, torch.Size, torch.Tensor, torch.nn.Parameter, types.GenericAlias if hasattr(types, "GenericAlias") else int}
_DESCRIPTORS = {types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
                types.ClassMethodDescriptorType}
_CONTAINERS = (list, tuple, set, frozenset, dict)
# Packages whose functions may be called by several threads and draw from no global generator but ours ...
_SAFE_CODE = {"rushlight", "torch", "numpy", "PIL", "cv2", "pandas", "scipy", "skimage", "sklearn", "h5py", "soundfile", "safetensors",
              "pyarrow", "imageio", "tifffile", "typing_extensions", "tqdm", "simplejpeg", "nibabel"}
# ... and those whose objects may be.
_SAFE_VALUES = {"rushlight", "torch", "numpy", "pandas", "scipy", "pathlib", "datetime", "decimal", "fractions", "re", "uuid", "enum",
                "logging", "zoneinfo", "array", "operator", "typing", "_thread", "threading", "collections", "types", "argparse",
                "configparser", "string", "abc", "zipfile"}
_UNSAFE_MODULES = {"random", "secrets", "multiprocessing", "signal", "faker", "mimesis", "imgaug", "ctypes", "gc", "resource"}
_UNSAFE_OS = {"_exit", "fork", "kill", "abort", "getpid", "getppid", "chdir", "putenv", "unsetenv", "environ"}
_UNSAFE_NAMES = {"setattr", "delattr", "exec", "eval", "globals", "vars", "__dict__", "__import__", "import_module"}
_CHANGES = {"append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "update", "setdefault", "add", "discard", "remove",
            "clear", "sort", "reverse", "move_to_end", "seek", "read", "readline", "readinto", "write", "fill", "put", "resize"}
_BEGINNINGS = {"__init__", "__new__", "__post_init__"}
_SPECIAL = {"__getitem__", "__getitems__", "__call__", "forward", "__iter__", "__len__", "__getattr__", "__getattribute__", "__init__",
            "__post_init__", "__enter__", "__exit__", "__contains__"}
_STDLIB = getattr(sys, "stdlib_module_names", frozenset(sys.builtin_module_names))

_OP = dis.opmap
_STORES = {_OP[name] for name in ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL") if name in _OP}
_ITEMS = {_OP[name] for name in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "DELETE_SLICE") if name in _OP}
_IMPORT = _OP["IMPORT_NAME"]
_STORE_DEREF = _OP.get("STORE_DEREF", -1)


class _Processes(Exception):
    """What was found that a thread should not share."""


class _Look:
    def __init__(self):
        self.seen = set()
        self.keep = []          # what was seen stays alive, so that an id is not used twice
        self.left = _LIMIT
        self.names = set()      # all names in the code looked at
        self.parts_matter = []  # modules of which only some names are unsafe
        self.objects = []       # (object, its class, names that were looked up in it)

    def run(self, values):
        for value in values:
            self.value(value)
        more = True
        while more:
            more = False
            for thing, cls, done in self.objects[:]:
                for name in self.names - done:
                    done.add(name)
                    more |= self.member(thing, cls, name)
        if "numpy" in self.parts_matter and "random" in self.names:
            raise _Processes("NumPy's random numbers")
        if not _UNSAFE_OS.isdisjoint(self.names) and ("os" in self.parts_matter or "posix" in self.parts_matter):
            raise _Processes("the process it runs in")

    # ---- values ----

    def value(self, x):
        cls = type(x)
        if cls in _PLAIN or id(x) in self.seen:
            return
        self.seen.add(id(x))
        self.keep.append(x)
        self.left -= 1
        if self.left < 0:
            raise _Processes("more code than is worth looking at")
        if cls in _DESCRIPTORS:
            return
        if isinstance(x, _CONTAINERS):
            if cls not in _CONTAINERS and not hasattr(cls, "_fields"):
                self.thing(x, cls)
            return self.container(x)
        if cls is types.FunctionType:
            return self.function(x)
        if cls is types.MethodType:
            self.value(x.__func__)
            return self.value(x.__self__)
        if cls is functools.partial:
            self.value(x.func)
            self.container(x.args)
            return self.container(x.keywords)
        if cls is types.BuiltinFunctionType or cls is types.MethodWrapperType:
            owner = x.__self__
            return None if isinstance(owner, types.ModuleType) else self.value(owner)
        if cls is types.ModuleType:
            return self.module(x)
        if isinstance(x, type):
            return self.type(x)
        if cls in (property, classmethod, staticmethod, functools.cached_property):
            return self.value(x.fget if cls is property else getattr(x, "__func__", None) or getattr(x, "func", None))
        self.thing(x, cls)

    def container(self, x):
        if isinstance(x, dict):
            x = list(x.values()) if len(x) <= _FEW else [x[k] for k, _ in zip(x, range(_FEW))]
        elif isinstance(x, (set, frozenset)):
            x = [item for item, _ in zip(x, range(_FEW))]
        for item in x if len(x) <= _FEW else [*x[:_FEW - 1], x[-1]]:
            self.value(item)

    def module(self, x):
        top = x.__name__.partition(".")[0]
        if top in _UNSAFE_MODULES or x.__name__.startswith("numpy.random"):
            raise _Processes("the module " + x.__name__)
        if top in ("numpy", "os", "posix"):
            self.parts_matter.append(top)
        elif top not in _SAFE_CODE and top not in _STDLIB:
            self.objects.append((x, None, set()))

    def type(self, x):
        top = x.__module__.partition(".")[0] if isinstance(x.__module__, str) else ""
        if x.__module__ in ("random", "numpy.random") or x is torch.Generator or top in _UNSAFE_MODULES:
            raise _Processes("random numbers of " + x.__name__)
        if top == "builtins" or top in _SAFE_CODE or top in _STDLIB:
            return
        self.methods(x, x)

    def thing(self, x, cls):
        """An object that is none of the above."""
        module = cls.__module__ if isinstance(cls.__module__, str) else ""
        top = module.partition(".")[0]
        if "random" in module or top in _UNSAFE_MODULES or cls is torch.Generator:
            raise _Processes("random numbers of " + cls.__name__)
        if isinstance(x, torch.Tensor):
            return
        if hasattr(cls, "__next__"):
            raise _Processes("an iterator, " + cls.__name__)
        if top in ("rushlight", "torch"):
            # Datasets of ours stand for what they hold; layers and the like hold tensors.
            if isinstance(x, torch.utils.data.Dataset):
                for part in vars(x).values():
                    self.value(part)
            return
        if top in _SAFE_VALUES or cls in (bytearray, memoryview, object):
            return
        if not cls.__flags__ & 512:     # a type of C: who knows
            raise _Processes("a " + cls.__name__)
        if not hasattr(x, "__dict__") and not hasattr(cls, "__slots__"):
            raise _Processes("a " + cls.__name__)
        self.methods(x, cls)

    def methods(self, x, cls):
        """The entrances of an object's class; its other members as soon as their names come up in code."""
        self.objects.append((x, cls, set(_SPECIAL)))
        has = set()
        for base in cls.__mro__[:-1]:
            has |= _SPECIAL & base.__dict__.keys()
        for name in has:
            self.member(x, cls, name)

    def member(self, x, cls, name):
        """Looks at an attribute, if there is one of this name; true when something was looked at."""
        if cls is None:             # a module
            found = vars(x).get(name)
            if found is not None:
                self.value(found)
            return found is not None
        for base in cls.__mro__:
            if name in base.__dict__:
                top = base.__module__.partition(".")[0] if isinstance(base.__module__, str) else ""
                if base is not object and top not in _SAFE_VALUES and not (top in _STDLIB and name not in _SPECIAL):
                    self.value(base.__dict__[name])
                break
        if x is not cls:
            try:
                found = vars(x).get(name)
            except TypeError:       # slots
                found = getattr(x, name, None) if name in getattr(cls, "__slots__", ()) else None
            if found is not None:
                self.value(found)
                return True
        return False

    # ---- code ----

    def function(self, f):
        top = f.__module__.partition(".")[0] if isinstance(f.__module__, str) else ""
        if top in _UNSAFE_MODULES:
            raise _Processes("%s.%s" % (f.__module__, f.__name__))
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            self.value(wrapped)
        if top in _SAFE_CODE or top in _STDLIB:
            return
        for cell, name in zip(f.__closure__ or (), f.__code__.co_freevars):
            try:
                if name != "__class__":
                    self.value(cell.cell_contents)
            except ValueError:      # empty still
                continue
        for default in (f.__defaults__ or ()):
            self.value(default)
        self.code(f.__code__, f.__globals__, f.__name__ in _BEGINNINGS)

    def code(self, code, names_of, beginning=False):
        ops = set(code.co_code[::2])
        if not beginning and ops & _STORES:
            raise _Processes("%s() assigns to what it shares" % code.co_name)
        if _STORE_DEREF in ops and code.co_freevars and code.co_freevars != ("__class__",):
            raise _Processes("%s() assigns to variables around it" % code.co_name)
        names = code.co_names
        if _IMPORT in ops and not _UNSAFE_MODULES.isdisjoint(names):
            raise _Processes("%s() uses random numbers" % code.co_name)
        for name in names:
            if name in names_of:
                self.value(names_of[name])
            elif name in _UNSAFE_NAMES:
                raise _Processes("%s() uses %s" % (code.co_name, name))
        if not beginning and (ops & _ITEMS or any(n in _CHANGES or n[-1] == "_" and n[0] != "_" for n in names)):
            self.changes(code)
        self.names.update(names)
        for constant in code.co_consts:
            if type(constant) is types.CodeType:
                self.code(constant, names_of)

    def changes(self, code):
        """Does it change, in place, what is no variable of its own?"""
        before, heights, height = [], [], 0
        for step in dis.get_instructions(code):
            if step.opname == "CACHE":
                continue
            what = step.argval if isinstance(step.argval, str) else ""
            if step.opcode in _ITEMS:
                key = 3 - 1 if step.opname.endswith("SLICE") else 1
                at = len(before) - 1
                while at >= 0 and heights[at] != height - key:
                    at -= 1
                self.own(before[at] if at >= 0 else None, code)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and before and (what in _CHANGES or what[-1:] == "_" and what[0] != "_"):
                self.own(before[-1], code)
            height += dis.stack_effect(step.opcode, step.arg if step.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
            before.append(step)
            heights.append(height)

    def own(self, step, code):
        if step is None or step.opname in ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_NAME", "LOAD_CLASSDEREF") or step.argval == "self" or (
                step.opname == "LOAD_DEREF" and step.argval in code.co_freevars):
            raise _Processes("%s() changes what it shares" % code.co_name)


def reason_for_processes(dataset, collate_fn):
    """Why threads might be noticed, in words; None where they are not."""
    if isinstance(dataset, torch.utils.data.IterDataPipe) or isinstance(dataset, torch.utils.data.MapDataPipe):
        return "a data pipe, of which each worker reads a part"
    if torch._C._len_torch_function_stack() or torch.is_autocast_enabled("cpu"):
        return "a mode of this thread"
    try:
        _Look().run([dataset, collate_fn])
    except _Processes as found:
        return str(found)
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as odd:    # objects that don't like to be looked at
        return "%s: %s" % (type(odd).__name__, odd)
    return None
