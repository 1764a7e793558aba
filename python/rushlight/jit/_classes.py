"""Classes of the program: those that a program makes objects of, and modules with the methods that are reached."""
import ast
import dataclasses
import inspect
import typing

import rushlight as torch

from .. import _jit_internal
from . import _dataclasses, _state, _types
from ._compile import Compiler, Const, Method, Py, is_constant, is_own, literal, plain
from .frontend import NotSupportedError, Source


def note(cls):
    """Keeps the methods that a class has when torch.jit.script gets it: what it is given later stays in Python."""
    if "_scripted_members" not in vars(cls):
        if dataclasses.is_dataclass(cls):
            _dataclasses.refuse_factories(cls)
        cls._scripted_members = dict(vars(cls))
        _state._add_script_class(cls, cls)


class Class:
    """A class whose objects the program makes."""
    is_plain = True

    def __init__(self, program, cls):
        self.program, self.python, self.module = program, cls, cls
        self.fields = {n: _types.text(t, program.class_) for n, t in inspect.get_annotations(cls, eval_str=True).items() if not isinstance(t, dataclasses.InitVar)}

    def attribute(self, of, name):
        held = inspect.getattr_static(self.python, name, None)
        if inspect.isfunction(held) or isinstance(held, (staticmethod, property)):
            return Method(of, name)
        if isinstance(held, classmethod):
            return Py(getattr(self.python, name))
        return Const(held) if name not in self.fields and held is not None and is_constant(held) else None

    def need(self, name, told=None):
        return f"__{name}_getter" if isinstance(inspect.getattr_static(self.python, name, None), property) else name

    def text(self):
        cls, methods = self.python, []
        lines = [f"class {cls.__name__}:"]
        for name, held in self.functions(vars(cls).get("_scripted_members", vars(cls))):
            if not inspect.isfunction(held) or name.startswith("__annotate") or getattr(held, "_torchscript_modifier", None) in (_jit_internal.FunctionModifiers.IGNORE, _jit_internal.FunctionModifiers.UNUSED):
                continue
            held = _dataclasses.written(cls, name, held)
            if held is None:
                continue
            compiler = Compiler(self.program, Source(held), held, self)
            text = compiler.text(name)
            if name == "__init__":
                self.guess(compiler)
            methods.append(text)
        lines += [f"  {n} : {t}" for n, t in self.fields.items()]
        lines += ["  " + line for text in methods for line in text.rstrip("\n").split("\n")]
        return "\n".join(lines + ([] if len(lines) > 1 else ["  pass"])) + "\n"

    def functions(self, members):
        """The functions of a class, of a property two, by their names in the program."""
        for name, held in members.items():
            if isinstance(held, property):
                yield from ((f"__{name}_{what}", fn) for what, fn in (("getter", held.fget), ("setter", held.fset)))
            else:
                yield name, held.__func__ if isinstance(held, (staticmethod, classmethod)) else held

    def guess(self, compiler):
        """Types of the attributes that __init__ sets, from what it sets them to."""
        tree = compiler.source.tree
        kinds = {a.arg: compiler.type(a.annotation) if a.annotation is not None else "Tensor" for a in tree.args.args[1:]}
        kinds.update({n: compiler.type(t) for n, t in (compiler.comments()[2] or {}).items()})
        for node in ast.walk(tree):
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Attribute) or not isinstance(node.targets[0].value, ast.Name) or node.targets[0].value.id != tree.args.args[0].arg:
                continue
            self.fields.setdefault(node.targets[0].attr, self.kind_of(compiler, node.value, kinds))

    def kind_of(self, compiler, node, kinds):
        if isinstance(node, ast.Name) and node.id in kinds:
            return kinds[node.id]
        known = compiler.static(node) if not isinstance(node, ast.Name) or node.id not in compiler.locals else None
        if isinstance(known, Const):
            return _types.of_value(known.value, self.program.class_)
        if isinstance(node, ast.BinOp):
            both = {self.kind_of(compiler, node.left, kinds), self.kind_of(compiler, node.right, kinds)}
            return "Tensor" if "Tensor" in both else "float" if isinstance(node.op, ast.Div) or "float" in both else both.pop()
        if isinstance(node, ast.List):
            return f"List[{self.kind_of(compiler, node.elts[0], kinds)}]" if node.elts else "List[Tensor]"
        if isinstance(node, ast.Dict):
            return f"Dict[{self.kind_of(compiler, node.keys[0], kinds)}, {self.kind_of(compiler, node.values[0], kinds)}]" if node.keys else "Dict[str, Tensor]"
        if isinstance(node, ast.Call):
            f = compiler.static(node.func)
            if isinstance(f, Py) and f.value in (int, float, bool, str, len):
                return "int" if f.value is len else f.value.__name__
            if isinstance(f, Py) and f.value is torch.jit.annotate:
                return compiler.type(node.args[0])
            if isinstance(f, Py) and f.value in self.program.classes:
                return self.program.classes[f.value]
        return "Tensor"


_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


def _is_final(x):
    """Whether a class of a program can have a constant as Final[T]."""
    return type(x) in (bool, int, float, str, type(None)) or type(x) in (tuple, list) and all(map(_is_final, x))


def _is_data(x):
    """Whether an attribute that nothing reads stays one of the program: numbers, texts, tensors and what holds them."""
    if type(x) in (tuple, list, dict):
        return all(map(_is_data, x)) and (type(x) is not dict or all(map(_is_data, x.values())))
    return isinstance(x, (torch.Tensor, torch.jit.Attribute)) or is_constant(x)


def _final(x):
    return tuple(map(_final, x)) if isinstance(x, (tuple, list)) else x


class Module:
    """A module of Python, and the class of the program that is made of it."""
    is_plain = False

    def __init__(self, program, module):
        self.program, self.module, self.python = program, module, type(module)
        self.methods, self.fields, self._path = {}, {}, None
        self.lost = None  # why the program has no forward
        self.annotations = {}
        for cls in reversed(type(module).__mro__):
            try:
                self.annotations.update(inspect.get_annotations(cls, eval_str=True))
            except (NameError, SyntaxError, TypeError, AttributeError):
                self.annotations.update({n: None for n in vars(cls).get("__annotations__", {})})
        own = is_own(type(module))
        self.declared = set(getattr(module, "__constants__", ())) | {n for n, t in self.annotations.items() if typing.get_origin(t) is typing.Final or t is typing.Final}
        self.fixed = self.declared | (set(vars(module)) - {"training"} if own else set())
        self.annotations = {n: t for n, t in self.annotations.items() if n not in self.fixed and t is not None}
        if own:
            self.annotations = {}

    def failed(self, name):
        return ""

    def field(self, name, value, told):
        if name not in self.fields:
            kind = self.annotations.get(name)
            kind = value.type if isinstance(value, torch.jit.Attribute) else kind
            try:
                self.fields[name] = _types.text(kind, self.program.class_) if kind is not None else _types.of_value(value, self.program.class_)
            except _types.Unknown as why:
                raise told(f"Module '{self.module._get_name()}' has no attribute '{name}' {why}") from None

    def unfix(self, name, told):
        if name in self.fixed and name in vars(self.module):
            raise told(f"Can't set constant '{name}'")

    def found(self, name):
        """The function behind a method: the user's, or the one of the library in _library.py."""
        from . import _library
        own = vars(self.module).get(name)
        if inspect.ismethod(own):  # self.forward = self.forward_without_copies; of other methods the class's is meant, as in PyTorch
            own = own.__func__ if name == "forward" or not hasattr(type(self.module), name) else None
        if inspect.isfunction(inspect.unwrap(own)):
            return own
        for cls in type(self.module).__mro__:
            written = vars(getattr(_library.modules, cls.__name__, object)).get(name) if is_own(cls) else None
            if written is not None or name in vars(cls):
                return written if written is not None else vars(cls)[name]
        return None

    def need(self, name, told=None):
        """Compiles a method when it is first asked for; gives the name that it has in the program."""
        if name in self.methods:
            return self.methods[name][0]
        fn = self.found(name)
        if fn is None:
            message = f"Module '{self.module._get_name()}' has no attribute '{name}' "
            raise told(message) if told else RuntimeError(message)
        try:
            return self.add(name, fn, f"{name}__getter" if isinstance(fn, property) else name)
        except (RuntimeError, NotSupportedError) as why:
            self.methods.pop(name, None)
            if isinstance(why, NotImplementedError) or not is_own(fn) or fn.__module__ == "rushlight.jit._library":
                raise
            raise NotImplementedError(f"{type(self.module).__name__}.{name}, which is not written in the language") from why

    def setter(self, name, told):
        """The method that sets a property."""
        key, fn = f"__{name}_setter", inspect.getattr_static(self.python, name).fset
        if fn is None:
            raise told(f"Tried to set read-only attribute: {name}")
        return self.methods[key][0] if key in self.methods else self.add(key, fn, key)

    def need_super(self, name, fn):
        """The method behind the one that says super()."""
        mro = type(self.module).__mro__
        at = next((k for k, cls in enumerate(mro) if inspect.unwrap(vars(cls).get(name, len)) is fn), 0)
        for cls in mro[at + 1:]:
            if name in vars(cls):
                key = f"_{cls.__name__.lstrip('_')}_{name}"
                return self.methods[key][0] if key in self.methods else self.add(key, vars(cls)[name], key)
        raise RuntimeError(f"super() of '{self.module._get_name()}' has no '{name}'")

    def add(self, key, fn, name):
        fn = fn.fget if isinstance(fn, property) else fn.__func__ if isinstance(fn, (staticmethod, classmethod)) else fn
        modifier = getattr(fn, "_torchscript_modifier", None)
        if modifier == _jit_internal.FunctionModifiers.IGNORE:
            raise NotImplementedError(f"a call of {type(self.module).__name__}.{name}, which is marked to stay in Python")
        self.methods[key] = (name, None)    # while it is compiled: it may call itself
        compiler = Compiler(self.program, Source(fn), fn, self)
        self.methods[key] = (name, compiler.text(name, modifier in (_jit_internal.FunctionModifiers.UNUSED, _jit_internal.FunctionModifiers._DROP)))
        return name

    def start(self):
        """Compiles forward and what is exported, here and in all modules below."""
        for child in self.module._modules.values():
            if child is not None:
                self.program.module(child).start() if not isinstance(child, torch.jit.RecursiveScriptModule) else self.program.module(child)
        forward = self.found("forward")
        modifier = getattr(inspect.unwrap(forward), "_torchscript_modifier", None) if forward else None
        if forward and inspect.unwrap(forward) is not torch.nn.Module.forward and getattr(forward, "__name__", "") != "_forward_unimplemented" and modifier is None:
            if not is_own(type(self.module)) or isinstance(self.module, (torch.nn.Sequential, torch.fx.GraphModule)):
                self.need("forward")
            else:
                self.attempt()
        for name in dir(type(self.module)):
            if getattr(inspect.getattr_static(type(self.module), name), "_torchscript_modifier", None) == _jit_internal.FunctionModifiers.EXPORT:
                self.need(name)

    def attempt(self):
        """The forward of a module of the library that nothing may call."""
        try:
            self.need("forward")
        except (NotImplementedError, RuntimeError, NotSupportedError) as why:
            self.methods.pop("forward", None)
            self.lost = why

    def path(self):
        """The path of the class, which modules of one text share."""
        if self._path:
            return self._path
        m = self.module
        kids = [(n, self.program.module(c).path()) for n, c in m._modules.items() if c is not None]
        tensors = {n: "Tensor" for table in (m._parameters, m._buffers) for n, t in table.items() if t is not None}
        optional = [n for table in (m._parameters, m._buffers) for n, t in table.items() if n in self.annotations]
        constants = []
        for name, value in vars(m).items():
            if name in _OF_EVERY_MODULE or name in self.fields or not (name in self.annotations or _is_data(value)):
                continue
            if name in self.declared and _is_final(plain(value)):
                constants.append((name, _final(plain(value))))
                continue
            try:
                self.field(name, value, RuntimeError)
            except RuntimeError:
                continue  # what cannot be an attribute is none
        for name in optional:
            tensors[name] = _types.text(self.annotations[name], self.program.class_)
        lines = ["  __parameters__ = [" + "".join(f'"{n}", ' for n, p in m._parameters.items() if p is not None) + "]",
                 "  __buffers__ = [" + "".join(f'"{n}", ' for n, b in m._buffers.items() if b is not None) + "]"]
        fields = [*tensors.items(), ("training", "bool"), *self.fields.items(), *kids]
        if any(not n.isidentifier() for n, _ in fields):
            lines.append("  __annotations__ = []")
        lines += [f"  {n} : {t}" if n.isidentifier() else f'  __annotations__["{n}"] = {t}' for n, t in fields]
        lines += [f"  {n} : Final[{_types.of_value(x, self.program.class_)}] = {ast.unparse(literal(x))}" for n, x in constants]
        lines += ["  " + line for _, text in self.methods.values() if text for line in text.rstrip("\n").split("\n")]
        body = "\n".join(lines) + "\n"
        cls = type(m)
        key = (cls.__module__, cls.__name__, body)
        if key not in self.program.bodies:
            made = self.program.bodies[key] = self.program.place(cls.__module__, cls.__name__)
            self.program.add(made, f"class {cls.__name__}(Module):\n{body}")
        self._path = self.program.bodies[key]
        return self._path

    def make(self, unit, made):
        m = self.module
        if id(m) in made:
            return made[id(m)]
        made[id(m)] = x = unit.make(self.path())
        for table in (m._parameters, m._buffers):
            for n, t in table.items():
                if t is not None or n in self.annotations:
                    x.set(n, t)
        x.set("training", m.training)
        for n in self.fields:
            value = getattr(m, n)
            x.set(n, value.value if isinstance(value, torch.jit.Attribute) else value)
        for n, c in m._modules.items():
            if c is not None:
                x.set(n, self.program.module(c).make(unit, made))
        return x
