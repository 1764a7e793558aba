"""What scripting makes: one text for each function and class that is reached, and the objects of modules.

The texts are in TorchScript's language, as torch.jit.save writes it: every name in them is a local, an operation (torch.x, ops.x.y),
or a full path (__torch__.a.b). So src/script runs them, and an archive of them loads in PyTorch.
"""
import inspect
import re
import typing

import rushlight as torch
from rushlight import _C

from . import _loaded, _state, _types
from .frontend import Source


class Program:
    """Functions and classes under their paths, and the tensors that they have as constants."""

    def __init__(self):
        self.texts, self.names, self.constants = {}, set(), []
        self.functions, self.classes, self.modules, self.included, self.bodies = {}, {}, {}, {}, {}
        self.running, self.plain = [], {}   # plain: the classes whose objects the program makes, by their paths
        self.added = {}  # methods that classes of what is included got here
        self.of_included = {}  # classes of what is included: their paths here

    def place(self, module, name):
        """A path that nothing has yet."""
        module = re.sub(r"[^\w.]", "_", module or "")
        module = "torch" + module[len("rushlight"):] if module.split(".")[0] == "rushlight" else module
        base = "__torch__" if module in ("__main__", "") else "__torch__.torch.nn.functional" if module == "torch.jit._library" else f"__torch__.{module}"
        path, k = f"{base}.{name}", 0
        while path in self.names:
            path, k = f"{base}.___torch_mangle_{k}.{name}", k + 1
        self.names.add(path)
        return path

    def add(self, path, text):
        self.texts.setdefault(path.rpartition(".")[0], []).append(text)

    def sources(self):
        return [(path, "\n".join(texts), "a scripted program") for path, texts in self.texts.items()]

    def unit(self):
        return _C._ScriptUnit(self.sources(), tuple(self.constants), {**self.of_included, **self.classes})

    def function(self, fn):
        """The path of a function of Python, which is compiled."""
        from ._compile import Compiler
        key = (id(fn.__self__), id(fn.__func__)) if inspect.ismethod(fn) else id(fn)    # methods of classes are made when they are read
        if key in self.running:
            raise RuntimeError(f"function '{fn.__name__}' is called recursively. Recursive calls are not supported")
        if key not in self.functions:
            path = self.place(fn.__module__, fn.__name__)
            self.running.append(key)
            self.add(path, Compiler(self, Source(fn), fn).text(fn.__name__))
            self.running.pop()
            self.functions[key] = (path, fn)
        return self.functions[key][0]

    def class_(self, cls):
        """The path of a class: a named tuple, or one with methods."""
        from ._classes import Class
        cls = _state._stands_for(cls)
        if cls not in self.classes:
            if _types.is_named_tuple(cls):
                self.classes[cls] = self.place(cls.__module__, cls.__name__)
                self.add(self.classes[cls], self.named_tuple(cls))
            else:
                self.classes[cls] = self.place(cls.__module__, cls.__name__)
                try:
                    made = Class(self, cls)
                    self.add(self.classes[cls], made.text())
                    self.plain[self.classes[cls]] = made
                except BaseException:
                    del self.classes[cls]
                    raise
        return self.classes[cls]

    def named_tuple(self, cls):
        hints = typing.get_type_hints(cls)
        lines = [f"class {cls.__name__}(NamedTuple):"]
        for name in cls._fields:
            value = f" = {cls._field_defaults[name]!r}" if isinstance(cls._field_defaults.get(name, ...), (int, float, str, bool, type(None))) else ""
            lines.append(f"  {name} : {_types.text(hints.get(name, torch.Tensor), self.class_)}{value}")
        return "\n".join(lines) + "\n"

    def include(self, thing):
        """Takes over what has a program already, under paths of its own; gives a function from its paths to those here."""
        sources, constants = thing.__dict__["_sources"]
        if id(sources) not in self.included:
            folder = f"__torch__.___torch_mangle_{len(self.included)}_of"
            shift = len(self.constants)
            self.constants += constants

            def renamed(text):
                text = re.sub(r"\b__torch__\b", folder, text)
                return re.sub(r"\bCONSTANTS\.c(\d+)\b", lambda m: f"CONSTANTS.c{int(m[1]) + shift}", text)
            for path, text, _ in sources:
                if path == "__torch__":
                    for name in re.findall(r"^(?:def|class) (\w+)", text, re.M):  # functions of one text may call each other by bare names
                        text = re.sub(rf"(?<![\w.]){name}\(", f"__torch__.{name}(", text)
                        text = re.sub(rf"^(def|class) __torch__\.{name}\(", rf"\1 {name}(", text, flags=re.M)
                self.texts.setdefault(renamed(path), []).append(renamed(text))
            self.of_included.update({cls: renamed(path) for cls, path in (thing._unit if isinstance(thing, torch.jit.ScriptFunction) else thing._c.unit).classes.items()})
            self.included[id(sources)] = (renamed, sources)
        return self.included[id(sources)][0]

    def module(self, module):
        from ._classes import Module
        if id(module) not in self.modules:
            made = Scripted(self, module) if isinstance(module, torch.jit.RecursiveScriptModule) else Module(self, module)
            self.modules[id(module)] = made
        return self.modules[id(module)]


class Scripted:
    """A module that has a program already, within one that is being made. Methods of its class that the program lacks are compiled into it here."""
    is_plain = False
    annotations, fixed = {}, ()

    def __init__(self, program, module):
        self.program, self.module, self.renamed = program, module, program.include(module)
        self.python = module.__dict__.get("_class")
        self.added = program.added.setdefault(self.path(), set())

    def found(self, name):
        held = getattr(self.python, name, None) if not hasattr(torch.nn.Module, name) else None
        return held if inspect.isfunction(held) else None

    def failed(self, name):
        return ""

    def field(self, name, value, told):
        raise told(f"Module '{self.module.original_name}' has no attribute '{name}'")

    def need(self, name, told=None):
        if name in self.module._methods or name in self.added:
            return
        fn = self.found(name)
        if fn is None:
            raise RuntimeError(f"Module '{self.module.original_name}' has no method '{name}'")
        from ._compile import Compiler
        self.added.add(name)
        text = Compiler(self.program, Source(fn), fn, self).text(name)
        folder, _, cls = self.path().rpartition(".")
        head, texts = f"class {cls}(Module):\n", self.program.texts[folder]
        at = next(i for i, known in enumerate(texts) if head in known)
        lines = "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))
        before, _, rest = texts[at].partition(head)
        end = re.search(r"^(?=\S)|\Z", rest, re.M).start()
        texts[at] = before + head + rest[:end].rstrip("\n") + "\n" + lines + rest[end:]

    def path(self):
        return self.renamed(self.module._c.type)

    def make(self, unit, made):
        return copied(self.module._c, unit, self.renamed, made)


def copied(x, unit, renamed, made, tensor=lambda t: t):
    """An object of a program with the same tensors, or what `tensor` makes of each, as an object of another unit."""
    if x.id not in made:
        made[x.id] = new = unit.make(renamed(x.type))
        for name, what in x.fields():
            if what != "constant":
                value = x.get(name)
                new.set(name, copied(value, unit, renamed, made, tensor) if isinstance(value, _C._ScriptObject) else tensor(value) if isinstance(value, torch.Tensor) else value)
    return made[x.id]


def frozen(module, kept):
    """A copy of a module whose tensors are nobody's parameters or buffers, and of which its forward and what is kept can be reached."""
    sources, constants = module.__dict__["_sources"]
    sources = [(path, re.sub(r"(__(?:parameters|buffers)__ = )\[[^\]]*\]", r"\1[]", text), file) for path, text, file in sources]
    unit = _C._ScriptUnit(sources, tuple(constants), module._c.unit.classes)
    held = {}   # what is shared stays shared
    root = copied(module._c, unit, lambda path: path, {}, lambda t: held.setdefault(id(t), (t.detach().clone(), t))[0])
    result = _loaded.programmed(_loaded._module_of(root, {}), sources, constants)
    names = {name.split(".")[0] for name in kept}
    for table in (result._modules, result._fields):
        for name in table.keys() - names:
            del table[name]
    result._methods.intersection_update(names | {"forward"})
    return result


def script_function(fn):
    """A ScriptFunction of a function of Python."""
    program = Program()
    path = program.function(fn)
    return torch.jit.ScriptFunction(program.unit(), path, program.sources(), program.constants, fn)


def script_module(module):
    """A module with the same tensors, whose methods are a program."""
    from ._compile import refuse_hooks
    refuse_hooks(module)
    program = Program()
    root = program.module(module)
    root.start()
    if root.lost is not None:
        raise NotImplementedError(str(root.lost)) from root.lost
    root.path()
    unit = program.unit()
    result = _loaded.programmed(_loaded._module_of(root.make(unit, {}), {}), program.sources(), program.constants)
    for name, m in module.named_modules():
        _loaded._own(result.get_submodule(name), "_class", m.__dict__.get("_class") if isinstance(m, torch.jit.RecursiveScriptModule) else type(m))
    return result
