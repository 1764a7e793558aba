"""torch.jit.script: Python's syntax tree, with every name replaced by what it stands for, as text of TorchScript.

What is known while compiling (modules and their constants, functions, None) is a `Const`, `Py`, `Mod` or `Items`; conditions on it
are decided here and loops over it unrolled. All else stays the expression that it is, and runs in src/script.
"""
import ast
import builtins
import collections
import copy
import enum
import inspect
import math
import re
import types
import typing
import warnings

import rushlight as torch
from rushlight import _C

from .. import _jit_internal
from . import _types
from .frontend import NotSupportedError, Range, Source, types_of_comment


class Const:
    """A value that is written as a literal."""

    def __init__(self, value):
        self.value = value


class Py:
    """A thing of Python: a function, a class, a package."""

    def __init__(self, value):
        self.value = value


def _reach(text, name):
    return f"{text}.{name}" if name.isidentifier() else f'getattr({text}, "{name}")'


class Mod:
    """A module, and the expression that reaches it."""

    def __init__(self, text, owner):
        self.text, self.owner, self.module = text, owner, owner.module

    def child(self, name):
        return Mod(_reach(self.text, name), self.owner.program.module(self.module._modules[name]))

    def children(self):
        return [self.child(n) for n, m in self.module._modules.items() if m is not None]

    def below(self, prefix=""):
        """(name, Mod) of this module and all below it."""
        yield prefix, self
        for n, m in self.module._modules.items():
            if m is not None:
                yield from self.child(n).below(f"{prefix}.{n}" if prefix else n)

    def parts(self):
        """What a container holds, in order: modules or parameters; None: it is none."""
        if isinstance(self.module, _CONTAINERS):
            return self.children()
        return [held for _, held in self.parameters()] if isinstance(self.module, _HOLDERS) else None

    def parameters(self):
        """(name, what holds it) of this module's own."""
        return [(n, _Held(_reach(self.text, n))) for n, p in self.module._parameters.items() if p is not None]

    def buffers(self):
        """(name, what holds it) of this module's own."""
        return [(n, _Held(_reach(self.text, n)) if b is not None else Const(None)) for n, b in self.module._buffers.items()]


class Method:
    """A method of a module."""

    def __init__(self, of, name):
        self.of, self.name = of, name


class Items:
    """Several things, some of them modules."""

    def __init__(self, items):
        self.items = items


_NUMBERS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
_BUILTINS = {len, range, slice, print, min, max, abs, sum, any, all, sorted, zip, enumerate, reversed, list, tuple, dict, int, float, bool, str, complex, round, divmod, ord, chr, hex, oct, bin, isinstance, id, hash}
_LISTED = {"einsum": 1, "meshgrid": 0, "broadcast_tensors": 0, "block_diag": 0, "cartesian_prod": 0, "chain_matmul": 0}
_CASTS = {"bool": torch.bool, "byte": torch.uint8, "char": torch.int8, "short": torch.int16, "int": torch.int32, "long": torch.int64, "half": torch.float16,
          "bfloat16": torch.bfloat16, "float": torch.float32, "double": torch.float64, "cfloat": torch.complex64, "cdouble": torch.complex128}  # methods of tensors
_MODES = {"is_scripting", "is_tracing", "_get_tracing_state", "is_compiling", "is_dynamo_compiling", "is_exporting"}  # questions that a program knows the answer to


def _is_repeated(node):
    """A tuple times a number, or what is added to one: in the language a list."""
    sides = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
    if sides and isinstance(node.op, ast.Mult):
        return any(isinstance(x, ast.Tuple) for x in sides)
    return bool(sides) and isinstance(node.op, ast.Add) and any(map(_is_repeated, sides))


_NUMERIC = ("int", "float", "Optional[int]", "Optional[float]")
_WALKS = {name: give for give, names in ((lambda name, x: Items([name, x]), "items named_children named_modules named_buffers"),
                                         (lambda name, x: x, "values children modules"), (lambda name, x: name, "keys")) for name in names.split()}
_CONTAINERS = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
_HOLDERS = (torch.nn.ParameterList, torch.nn.ParameterDict)


def is_own(thing):
    """Whether a class or function is the package's."""
    return (getattr(thing, "__module__", None) or "").split(".")[0] in ("rushlight", "torch")


def is_class_method(f):
    return inspect.ismethod(f) and inspect.isclass(f.__self__)


def is_constant(x):
    return isinstance(x, _NUMBERS) and not isinstance(x, enum.Enum) or type(x) in (tuple, list, torch.Size) and all(is_constant(v) for v in x)


def plain(x):
    """A list or tuple for what a program derives from them, at any depth."""
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return (tuple if isinstance(x, tuple) else list)(plain(v) for v in x)
    return x


def wrapped(x):
    return Const(x) if is_constant(x) else Py(x)


class _Unquoted(ast.NodeTransformer):
    """An annotation whose texts are what they say: List["Boxes"] is List[Boxes]."""

    def visit_Constant(self, node):
        return self.visit(ast.parse(node.value.strip(), mode="eval").body) if isinstance(node.value, str) else node


def raw(text):
    return ast.Name(id=text, ctx=ast.Load())


def flattened(kinds):
    """The classes of what isinstance takes: tuples of tuples, unions."""
    if isinstance(kinds, tuple) or typing.get_origin(kinds) in (typing.Union, types.UnionType):
        for k in kinds if isinstance(kinds, tuple) else typing.get_args(kinds):
            yield from flattened(k)
    else:
        yield kinds


def never_passed(statement):
    """Whether nothing after a statement of the program is reached."""
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and never_passed(statement.body[-1]) and never_passed(statement.orelse[-1])
    if isinstance(statement, ast.With):
        return never_passed(statement.body[-1])
    return isinstance(statement, ast.Return) or isinstance(statement, ast.Assert) and isinstance(statement.test, ast.Constant) and not statement.test.value


def literal(x):
    """A constant as the language writes it."""
    if isinstance(x, (torch.dtype, torch.layout, torch.memory_format)):
        return ast.Constant(_C._script_code(x))
    if isinstance(x, torch.device):
        return ast.Call(raw("torch.device"), [ast.Constant(str(x))], [])
    if isinstance(x, float) and not math.isfinite(x):
        return raw("nan" if x != x else "inf") if not x < 0 else ast.UnaryOp(ast.USub(), raw("inf"))
    if isinstance(x, (int, float)) and not isinstance(x, bool) and x < 0:
        return ast.UnaryOp(ast.USub(), ast.Constant(-x))
    if isinstance(x, tuple) and not isinstance(x, torch.Size):
        return ast.Tuple([literal(v) for v in x], ast.Load())
    if isinstance(x, (list, torch.Size)):
        made = ast.List([literal(v) for v in x], ast.Load())
        return made if x else ast.Call(raw("annotate"), [raw("List[int]"), made], [])
    return ast.Constant(x)


def refuse_hooks(module):
    """A program would leave them out."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise NotImplementedError(f"the hooks of {type(module).__name__} are Python")


class Compiler:
    """One function or method."""

    def __init__(self, program, source, fn, owner=None):
        self.program, self.source, self.owner = program, source, owner
        self.of_class = fn.__self__ if is_class_method(fn) else None
        self.fn = inspect.unwrap(fn.__func__ if self.of_class is not None else fn)
        self.env, self.out, self.unrolled = {}, [], 0
        tree = source.tree
        self.locals = {a.arg for a in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs)}
        self.stores = collections.Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        self.locals |= set(self.stores)
        self.numbers = {}  # names of numbers and their types, of arguments and of what is assigned once
        self.enums = {}  # arguments that are members of an enum: the values of these
        self.tensors, self.objects = set(), {}  # arguments that are tensors, or of a class of the program, by their annotation, and stay what they are

    # ---- names and types ----

    def lookup(self, name, node):
        closure = dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or ()))
        if name in closure:
            return wrapped(closure[name].cell_contents)
        for space in (self.fn.__globals__, vars(builtins)):
            if name in space:
                return wrapped(space[name])
        raise self.source.error(node, f"undefined value {name}")

    def evaluated(self, node):
        """What an annotation says, as Python's object."""
        closure = {n: c.cell_contents for n, c in zip(self.fn.__code__.co_freevars, self.fn.__closure__ or ()) if c != inspect.types.CellType()}
        base = {"Tensor": torch.Tensor, "torch": torch, "List": typing.List, "Dict": typing.Dict, "Tuple": typing.Tuple, "Optional": typing.Optional, "Union": typing.Union,
                "Any": typing.Any, "NoneType": type(None)}
        if self.owner is not None and self.owner.is_plain:  # a class in a function does not know itself yet
            base[self.owner.python.__name__] = self.owner.python
        node = _Unquoted().visit(copy.deepcopy(node))
        return eval(compile(ast.fix_missing_locations(ast.Expression(node)), "<annotation>", "eval"), {**base, **self.fn.__globals__}, closure)

    def kinds(self, node):
        """What isinstance asks for: classes."""
        if isinstance(node, ast.Attribute) and node.attr == "__class__" and isinstance(self.static(node.value), Mod):
            return (self.static(node.value).owner.python,)
        return tuple(flattened(self.evaluated(node)))

    def type(self, node, at=None):
        try:
            kind = self.evaluated(node)
        except (NameError, AttributeError, SyntaxError) as why:
            message = f"Unknown type name '{why.name}'" if isinstance(why, NameError) else str(why)
            raise self.source.error(at or node, message) from None
        try:
            return _types.text(kind, self.program.class_)   # may compile a class, whose errors are its own
        except _types.Unknown as why:
            raise self.source.error(at or node, str(why)) from None

    # ---- what is known ----

    def static(self, node):
        """What an expression stands for where that is known, or None."""
        if isinstance(node, ast.Constant):
            return Const(node.value)
        reader = getattr(self, "static_" + type(node).__name__, None)
        return reader(node) if reader else None

    def static_Name(self, node):
        if node.id in self.env:
            return self.env[node.id]
        return None if node.id in self.locals else self.lookup(node.id, node)

    def static_Attribute(self, node):
        of = self.static(node.value)
        if isinstance(of, Mod):
            return self.attribute(of, node.attr, node)
        if isinstance(of, Py):
            try:
                return wrapped(getattr(of.value, node.attr))
            except AttributeError:
                raise self.source.error(node, f"object has no attribute {node.attr}") from None
        return None

    def attribute(self, of, name, node):
        m = of.module
        if name == "__class__":
            return Py(type(m))
        if of.owner.is_plain:
            return of.owner.attribute(of, name)
        if name in m._modules:
            return Const(None) if m._modules[name] is None else of.child(name)
        for table in (m._parameters, m._buffers):
            if name in table:
                return None if table[name] is not None or name in of.owner.annotations else Const(None)
        if name == "training" and name not in of.owner.fixed or isinstance(m, torch.jit.RecursiveScriptModule) and name in m._fields:
            return None
        held = vars(m).get(name, inspect.getattr_static(type(m), name, self))
        if held is self and (isinstance(m, torch.jit.RecursiveScriptModule) and name in m._methods or of.owner.found(name)):
            return Method(of, name)
        if held is self or isinstance(held, property) and "__jit_unused_properties__" in dir(m) and name in m.__jit_unused_properties__:
            raise self.source.error(node, f"Module '{m._get_name()}' has no attribute '{name}' {of.owner.failed(name)}")
        if name not in vars(m) and (inspect.isfunction(held) or isinstance(held, (staticmethod, classmethod, property))):
            return Py(held.__func__) if isinstance(held, staticmethod) else Method(of, name)
        if is_constant(held) and (name in of.owner.fixed or held is None and name not in of.owner.annotations):
            return Const(held)
        if inspect.ismethod(held) and held.__self__ is m:
            return Method(of, name if hasattr(type(m), name) else held.__name__)
        if callable(held) and not isinstance(held, torch.Tensor) or inspect.ismodule(held) or isinstance(held, enum.Enum):
            return Py(held)
        of.owner.field(name, held, lambda text: self.source.error(node, text))
        return None

    def static_Subscript(self, node):
        of = self.static(node.value)
        if isinstance(of, Mod) and isinstance(of.module, (torch.nn.ModuleDict, torch.nn.ParameterDict)):
            named = dict(of.parameters() if isinstance(of.module, torch.nn.ParameterDict) else [(n, of.child(n)) for n, m in of.module._modules.items() if m is not None])
            key = self.static(node.slice)
            return named.get(key.value) if isinstance(key, Const) else None
        if isinstance(of, Mod) and of.parts() is not None:
            of = Items(of.parts())
        if not isinstance(of, (Items, Const)) or isinstance(of, Const) and not isinstance(of.value, (tuple, list, str)):
            return None
        items = of.items if isinstance(of, Items) else of.value
        parts = [node.slice.lower, node.slice.upper, node.slice.step] if isinstance(node.slice, ast.Slice) else [node.slice]
        known = [Const(None) if p is None else self.static(p) for p in parts]
        if not all(isinstance(k, Const) and (k.value is None or isinstance(k.value, int)) for k in known):
            if isinstance(of, Items):
                raise self.source.error(node, "Expected integer literal for index. ModuleList/Sequential indexing is only supported with integer literals. "
                                              "For example, 'i = 4; self.layers[i](input)' will fail because i is not a literal. Enumeration is supported, "
                                              "e.g. 'for index, v in enumerate(self): out = v(inp)'")
            return None
        try:
            got = items[slice(*(k.value for k in known)) if len(known) == 3 else known[0].value]
        except (IndexError, TypeError) as why:
            raise self.source.error(node, str(why)) from None
        return got if isinstance(of, Items) and len(known) == 1 else Items(got) if isinstance(of, Items) else Const(got)

    def static_UnaryOp(self, node):
        x = self.static(node.operand)
        if not isinstance(x, Const):
            return None
        table = {ast.Not: lambda v: not v, ast.USub: lambda v: -v, ast.UAdd: lambda v: +v, ast.Invert: lambda v: ~v}
        return Const(table[type(node.op)](x.value)) if isinstance(node.op, ast.Not) or isinstance(x.value, (int, float)) else None

    def static_BoolOp(self, node):
        known = [self.static(part) for part in node.values]
        for x in known:  # one is enough, also behind others: a condition changes nothing
            if isinstance(x, Const) and bool(x.value) == isinstance(node.op, ast.Or):
                return x
        return known[-1] if all(isinstance(x, Const) for x in known) else None

    def static_Compare(self, node):
        sides = [self.static(x) for x in (node.left, *node.comparators)]
        if len(sides) != 2:
            return None
        a, b = sides
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(b, Const) and b.value is None and (a is not None or self.is_never_none(node.left)):
            return Const((isinstance(a, Const) and a.value is None) == isinstance(node.ops[0], ast.Is))
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(a, Mod) and isinstance(b, Mod):
            return Const((a.module is b.module) == isinstance(node.ops[0], ast.Is))
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(a, Const) and isinstance(b, Mod) and isinstance(b.module, (torch.nn.ModuleDict, torch.nn.ParameterDict)):
            return Const((a.value in b.module) == isinstance(node.ops[0], ast.In))
        if not isinstance(a, Const) or not isinstance(b, Const):
            return None
        table = {ast.Eq: lambda: a.value == b.value, ast.NotEq: lambda: a.value != b.value, ast.Lt: lambda: a.value < b.value, ast.LtE: lambda: a.value <= b.value,
                 ast.Gt: lambda: a.value > b.value, ast.GtE: lambda: a.value >= b.value, ast.In: lambda: a.value in b.value, ast.NotIn: lambda: a.value not in b.value,
                 ast.Is: lambda: a.value is b.value, ast.IsNot: lambda: a.value is not b.value}
        try:
            return Const(table[type(node.ops[0])]())
        except TypeError as why:
            raise self.source.error(node, str(why)) from None

    def is_never_none(self, node):
        """Whether an expression whose value is not known has a type that leaves out None: an argument's, or an attribute's."""
        if isinstance(node, ast.Name):
            return node.id not in self.env and (node.id in self.tensors or node.id in self.objects or self.numbers.get(node.id) in ("int", "float"))
        of = self.static(node.value) if isinstance(node, ast.Attribute) else None
        if not isinstance(of, Mod) or of.owner.is_plain or isinstance(of.module, torch.jit.RecursiveScriptModule):
            return False
        if node.attr in of.module._parameters or node.attr in of.module._buffers:
            return of.owner.annotations.get(node.attr, torch.Tensor) is torch.Tensor
        return not of.owner.fields.get(node.attr, "Any").startswith(("Optional", "Union", "Any", "None"))

    def static_Call(self, node):
        f = self.static(node.func)
        if isinstance(f, Py):
            name = getattr(f.value, "__name__", "")
            if is_own(f.value) and name in _MODES or name == "is_torchdynamo_compiling":
                return Const(name == "is_scripting")
            if f.value is isinstance and len(node.args) == 2 and self.is_tensor(node.args[0]):
                return Const(torch.Tensor in self.kinds(node.args[1]))
            if f.value is isinstance and len(node.args) == 2 and isinstance(node.args[0], ast.Name) and node.args[0].id in self.enums:
                if not any(isinstance(k, enum.EnumMeta) for k in self.kinds(node.args[1])):
                    return Const(False)  # its value may be one
            known = [self.static(a) for a in node.args]
            if f.value is isinstance and len(known) == 2 and isinstance(known[0], (Mod, Const)):
                kinds = self.kinds(node.args[1])
                if isinstance(known[0], Mod) and known[0].owner.is_plain:
                    return Const(issubclass(known[0].module, kinds))
                return Const(isinstance(known[0].module if isinstance(known[0], Mod) else known[0].value, kinds))
            if f.value in (hasattr, getattr) and isinstance(known[0], Mod) and isinstance(known[1], Const):
                there = hasattr(known[0].module, known[1].value)
                if f.value is hasattr or not there and len(known) == 3:
                    return Const(there) if f.value is hasattr else known[2]
                return self.attribute(known[0], known[1].value, node)
            return self.static_items(f.value, known, node.args)
        if isinstance(f, Method) and f.name in _WALKS and not f.of.owner.is_plain and is_own(inspect.getattr_static(type(f.of.module), f.name, self.static_Call)):
            if node.args or node.keywords:
                raise self.source.error(node, f"{f.name} method does not accept any arguments")
            pairs = f.of.below() if f.name.endswith("modules") else f.of.buffers() if f.name == "named_buffers" else \
                f.of.parameters() if isinstance(f.of.module, torch.nn.ParameterDict) else [(n, f.of.child(n)) for n, m in f.of.module._modules.items() if m is not None]
            give = _WALKS[f.name]
            return Items([give(Const(n), x) for n, x in pairs])
        return None

    def static_items(self, f, known, args):
        """len, enumerate, zip, ... of modules."""
        lists = [Items(x.parts()) if isinstance(x, Mod) and not x.owner.is_plain and x.parts() is not None else x for x in known]
        if f is len and isinstance(lists[0], Items):
            return Const(len(lists[0].items))
        if f is len and isinstance(lists[0], Const) and isinstance(lists[0].value, (tuple, list, str)):
            return Const(len(lists[0].value))
        if f is enumerate and isinstance(lists[0], Items):
            start = lists[1].value if len(lists) > 1 and isinstance(lists[1], Const) else 0
            return Items([Items([Const(i), x]) for i, x in enumerate(lists[0].items, start)])
        if f is zip and any(isinstance(x, Items) for x in lists):
            made = [[Const(v) for v in x.value] if isinstance(x, Const) else x.items if isinstance(x, Items) else None for x in lists]
            n = min(len(x) for x in made if x is not None)
            return Items([Items([m[i] if m is not None else _At(args[k], i) for k, m in enumerate(made)]) for i in range(n)])
        if f in (reversed, list, tuple) and lists and isinstance(lists[0], Items):
            return Items(lists[0].items[::-1] if f is reversed else lists[0].items)
        return None

    # ---- expressions ----

    def expr(self, node):
        known = self.static(node)
        if known is not None:
            return self.written(known, node)
        writer = getattr(self, "expr_" + type(node).__name__, None)
        if writer is None:
            raise self.source.unsupported(node)
        return writer(node)

    def written(self, known, node):
        """What is known as an expression."""
        if isinstance(known, Const):
            return literal(known.value)
        if isinstance(known, Items):
            return ast.Tuple([self.written(x, node) for x in known.items], ast.Load())
        if isinstance(known, Py) and isinstance(known.value, enum.Enum):
            return self.written(Const(known.value.value), node)
        if isinstance(known, Method) and isinstance(inspect.getattr_static(known.of.owner.python, known.name, None), property):
            return ast.Call(raw(f"{known.of.text}.{known.of.owner.need(known.name)}"), [], [])
        if isinstance(known, _Held) or isinstance(known, Mod) and known.owner.is_plain:
            return raw(known.text)
        what = known.module if isinstance(known, Mod) else known.value if isinstance(known, Py) else known
        raise self.source.error(node, f"python value of type '{type(what).__name__}' cannot be used as a value. Perhaps it is a closed over global variable? "
                                      "If so, please consider passing it in as an argument or use a local variable instead.")

    def expr_Name(self, node):
        return raw(self.name(node.id))

    def name(self, name):
        return name + "_" if name in ("torch", "ops", "inf", "nan", "infj", "nanj", "annotate", "uninitialized", "unchecked_cast", "fork", "CONSTANTS") else name

    def is_tensor(self, node):
        return isinstance(node, ast.Name) and node.id in self.tensors

    def expr_Attribute(self, node):
        of = self.static(node.value)
        if self.is_tensor(node.value) and not hasattr(torch.Tensor, node.attr):
            raise self.source.error(node, f"'Tensor' object has no attribute or method '{node.attr}'.")
        cls = self.objects.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if cls is not None and node.attr not in cls.fields and not hasattr(cls.python, node.attr):
            raise self.source.error(node, f"'{self.program.classes[cls.python]}' object has no attribute or method '{node.attr}'. "
                                          "Did you forget to initialize an attribute in __init__()?")
        if isinstance(node.value, ast.Name) and node.value.id in self.enums and node.attr == "name":
            members = self.enums[node.value.id]
            return ast.Subscript(ast.Dict([literal(m.value) for m in members], [literal(m.name) for m in members]), self.expr(node.value), ast.Load())
        return ast.Attribute(raw(of.text) if isinstance(of, Mod) else self.expr(node.value), node.attr, ast.Load())

    def expr_Subscript(self, node):
        of = self.static(node.value)
        if isinstance(of, Py) and isinstance(of.value, enum.EnumMeta):  # a member by its name
            return ast.Subscript(ast.Dict([literal(n) for n in of.value.__members__], [literal(m.value) for m in of.value.__members__.values()]), self.expr(node.slice), ast.Load())
        if isinstance(of, Mod) and not of.owner.is_plain:
            raise self.source.error(node, f"'{of.module._get_name()}' can only be indexed with a literal")
        return ast.Subscript(self.expr(node.value), self.expr(self.plain_index(node.slice)), ast.Load())

    def plain_index(self, node):
        """An index with slices and dots as people write them, of one with calls of slice() and the name Ellipsis, as graphs of fx do."""
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.plain_index(part) for part in node.elts], ast.Load())
        is_call = isinstance(node, ast.Call)
        known = self.static(node.func if is_call else node)
        what = known.value if isinstance(known, Py) else None
        if is_call and what is slice and not node.keywords:
            parts = [None if isinstance(part, ast.Constant) and part.value is None else part for part in node.args]
            parts = [None, *parts] if len(parts) == 1 else parts
            return ast.Slice(*parts, *[None] * (3 - len(parts)))
        return ast.Constant(...) if what is ... and not is_call else node

    def expr_Slice(self, node):
        return ast.Slice(*(x and self.expr(x) for x in (node.lower, node.upper, node.step)))

    def expr_BinOp(self, node):
        if isinstance(node.op, ast.Mod) and isinstance(self.static(node.left), Const) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            args = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return ast.Call(raw("torch.percentFormat"), [self.expr(a) for a in (node.left, *args)], [])
        sides = [node.left, node.right]
        if _is_repeated(node):
            sides = [ast.List(x.elts, x.ctx) if isinstance(x, ast.Tuple) else x for x in sides]
        return ast.BinOp(self.expr(sides[0]), node.op, self.expr(sides[1]))

    def expr_UnaryOp(self, node):
        return ast.UnaryOp(node.op, self.expr(node.operand))

    def expr_BoolOp(self, node):
        parts, stop = [], isinstance(node.op, ast.Or)
        for value in node.values:
            x = self.static(value)
            if isinstance(x, Const) and bool(x.value) != stop:
                continue  # says nothing
            parts.append(self.expr(value))
        return ast.BoolOp(node.op, parts) if len(parts) > 1 else parts[0]

    def expr_Compare(self, node):
        sides = [node.left, *node.comparators]
        parts = [ast.Compare(self.expr(a), [op], [self.expr(b)]) for a, op, b in zip(sides, node.ops, sides[1:])]
        return ast.BoolOp(ast.And(), parts) if len(parts) > 1 else parts[0]

    def expr_IfExp(self, node):
        test = self.static(node.test)
        if isinstance(test, Const):
            return self.expr(node.body if test.value else node.orelse)
        return ast.IfExp(self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def expr_List(self, node):
        return ast.List([self.expr(x) for x in node.elts], ast.Load())

    def expr_Tuple(self, node):
        return ast.Tuple([self.expr(x) for x in node.elts], ast.Load())

    def expr_Starred(self, node):
        return ast.Starred(self.expr(node.value), ast.Load())

    def expr_Dict(self, node):
        if any(k is None for k in node.keys):
            raise self.source.unsupported(node, "Dict expansion (**dict) is not supported")
        return ast.Dict([self.expr(k) for k in node.keys], [self.expr(v) for v in node.values])

    def expr_JoinedStr(self, node):
        text, args = "", []
        for part in node.values:
            if isinstance(part, ast.Constant):
                text += part.value
                continue
            if part.format_spec is not None or part.conversion not in (-1, 114, 115):
                raise NotSupportedError(Range(self.source, node), "Don't support conversion in JoinedStr" if part.conversion != -1 else "Don't support formatting in JoinedStr")
            text += "{}"
            args.append(self.expr(part.value))
        return ast.Call(ast.Attribute(ast.Constant(text), "format", ast.Load()), args, [])

    def comprehension(self, node, *parts):
        if len(node.generators) != 1:
            raise NotSupportedError(Range(self.source, node), "Only a single generator is currently supported")
        each = node.generators[0]
        if each.ifs:
            raise NotSupportedError(Range(self.source, node), "Comprehension ifs are not supported yet")
        items = self.items(each.iter)
        if items is None:
            made = ast.comprehension(self.target(each.target), self.expr(each.iter), [], 0)
            return [self.expr(p) for p in parts], [made]
        rows, saved = [], dict(self.env)
        for x in items:
            self.bind_static(each.target, x, node, within=True)
            rows.append([self.expr(p) for p in parts])
        self.env = saved
        return rows, None

    def expr_ListComp(self, node):
        parts, each = self.comprehension(node, node.elt)
        return ast.ListComp(parts[0], each) if each else ast.List([r[0] for r in parts], ast.Load())

    expr_GeneratorExp = expr_ListComp

    def expr_DictComp(self, node):
        parts, each = self.comprehension(node, node.key, node.value)
        return ast.DictComp(*parts, each) if each else ast.Dict([r[0] for r in parts], [r[1] for r in parts])

    # ---- calls ----

    def arguments(self, node, args=None):
        if any(k.arg is None for k in node.keywords):
            raise self.source.unsupported(node, "keyword-arg expansion is not supported")
        return [self.expr(a) for a in (node.args if args is None else args)], [ast.keyword(k.arg, self.expr(k.value)) for k in node.keywords]

    def called(self, text, node, args=None):
        return ast.Call(raw(text), *self.arguments(node, args))

    def expr_Call(self, node):
        f = self.static(node.func)
        if isinstance(f, Py):
            return self.call_python(f.value, node)
        if isinstance(f, Mod):
            refuse_hooks(f.module)
            f = Method(f, "forward")
        if isinstance(f, Method):
            return self.call_method(f, node)
        if isinstance(f, (Const, Items)):
            raise self.source.error(node, f"'{type(getattr(f, 'value', None)).__name__}' object is not callable")
        super_ = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(super_, ast.Call) and isinstance(super_.func, ast.Name) and super_.func.id == "super":
            if self.owner is None or self.owner.is_plain:
                raise self.source.error(node, "super() is that of a module's method")
            name = self.owner.need_super(node.func.attr, self.fn)
            return self.called(f"self.{name}", node)
        if isinstance(node.func, ast.Attribute):
            of = self.expr(node.func.value)
            if node.func.attr in _CASTS and not node.args and not node.keywords:
                return ast.Call(raw("torch.to"), [of, ast.Constant(_C._script_code(_CASTS[node.func.attr]))], [])
            return ast.Call(ast.Attribute(of, node.func.attr, ast.Load()), *self.arguments(node))
        return ast.Call(self.expr(node.func), *self.arguments(node))

    def call_method(self, f, node):
        name = f.of.owner.need(f.name, lambda text: self.source.error(node, text)) or f.name
        return self.called(f"{f.of.text}.{name}", node)

    def call_python(self, f, node):
        if isinstance(f, torch.jit.ScriptFunction):
            return self.called(self.program.include(f)(f._path), node)
        special = _SPECIAL.get(f) if type(f).__hash__ else None
        if special:
            return special(self, node)
        if type(f).__hash__ and f in _BUILTINS: # of the list itself: lists have no hash, their class has
            return self.called(f.__name__, node)
        if isinstance(f, torch._classes.ScriptClass):
            return self.called(f._path, node)
        if isinstance(f, (torch._ops.OpOverloadPacket, torch._ops.OpOverload)):
            packet = f.overloadpacket if isinstance(f, torch._ops.OpOverload) else f
            return self.called("ops." + packet._qualified_op_name.replace("::", "."), node)
        module, name = getattr(f, "__module__", None) or "", getattr(f, "__name__", type(f).__name__)
        if inspect.ismethoddescriptor(f) and issubclass(torch.Tensor, getattr(f, "__objclass__", type(None))):
            return self.called(f"torch.{name}", node)
        if module == "math":
            return self.called(f"torch.{name}" if name != "pow" else "torch.pow", node)
        if inspect.isclass(f):
            if issubclass(f, torch.nn.Module) or issubclass(f, enum.Enum) or f in vars(builtins).values():
                raise self.source.error(node, f"python value of type 'type' cannot be used as a value: {f.__name__}")
            return self.called(self.program.class_(f), node)
        if is_own(f):
            return self.call_library(f, name, module, node)
        modifier = getattr(f, "_torchscript_modifier", None)
        if not inspect.isfunction(f) and not is_class_method(f) or modifier == _jit_internal.FunctionModifiers.IGNORE:
            raise NotImplementedError(f"a call of {f}, which stays in Python")
        return self.called(self.program.function(f), node)

    def call_library(self, f, name, module, node):
        """A function of the package: written in the language in _library.py, or an operation."""
        from . import _library
        if module.endswith(".sparse"):  # its names are those of other operations elsewhere
            name = next((full for full in ("_sparse_" + name, "sparse_" + name) if _C._schemas(full)), name)
        written = getattr(_library, name, None)
        if written is not None and (written is f or "nn." in module or not _C._schemas(name)):
            return ast.Call(raw(self.program.function(written)), [self.spread(name, k, a) for k, a in enumerate(node.args)],
                            [ast.keyword(a.arg, self.spread(name, a.arg, a.value)) for a in node.keywords])
        if name in _LISTED:
            first = _LISTED[name]
            given = node.args[first:]
            if len(given) > 1 or given and name == "meshgrid" and not isinstance(given[0], (ast.List, ast.Name)):
                return self.called(f"torch.{name}", node, [*node.args[:first], ast.List(given, ast.Load())])
        if isinstance(f, type(torch.relu)) or _C._schemas(name):
            return self.called(f"torch.{name}", node)
        if inspect.isbuiltin(f):
            return self.called(f"torch.{name}", node)
        raise NotImplementedError(f"{module}.{name}, which is not written in the language (called in {self.source.file}, line {self.source.first + node.lineno - 1})")

    def spread(self, name, at, node):
        """An argument of a function of _library.py: one number for a list of them is written as a list."""
        from . import _library
        kinds = inspect.get_annotations(getattr(_library, name))
        at = list(kinds)[at] if isinstance(at, int) and at < len(kinds) else at
        known = self.static(node)
        kind = self.number(node) if kinds.get(at) in (typing.List[int], typing.Optional[typing.List[int]], typing.Optional[typing.List[float]]) else None
        if kind is None:
            return self.expr(node)
        dims = re.search(r"(\d)d(?:_|$)", name)
        n = int(dims[1]) if dims else 2 if name in ("fold", "unfold") else 1
        wanted = float if "float" in str(kinds[at]) else int
        if isinstance(known, Const):
            return literal([wanted(known.value)] * n)
        value = self.expr(node)
        one = value if wanted.__name__ in kind else ast.Call(raw(wanted.__name__), [value], [])
        several = ast.List([one] * n, ast.Load())
        return ast.IfExp(ast.Compare(value, [ast.Is()], [ast.Constant(None)]), ast.Constant(None), several) if kind.startswith("Optional") else several

    def number(self, node):
        """The type of what is a number, as far as is known without running."""
        known = self.static(node)
        if isinstance(known, Const):
            return type(known.value).__name__ if isinstance(known.value, (int, float)) else None
        if isinstance(node, ast.Name):
            return self.numbers.get(node.id)
        if isinstance(node, ast.Attribute):
            of = self.static(node.value)
            kind = of.owner.fields.get(node.attr) if isinstance(of, Mod) and not isinstance(of.module, torch.jit.RecursiveScriptModule) else None
            return kind if kind in _NUMERIC else None
        if isinstance(node, ast.UnaryOp):
            return self.number(node.operand)
        if isinstance(node, ast.BinOp):
            sides = self.number(node.left), self.number(node.right)
            return None if None in sides else "float" if "float" in sides or isinstance(node.op, ast.Div) else "int"
        if isinstance(node, ast.Call):
            f = self.static(node.func)
            if isinstance(f, Py) and f.value in (int, float, len):
                return "float" if f.value is float else "int"
            return "int" if isinstance(node.func, ast.Attribute) and node.func.attr == "size" and node.args and self.is_tensor(node.func.value) else None
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and not isinstance(node.slice, ast.Slice):
            return "int" if self.is_tensor(node.value.value) else None
        return None

    # ---- statements ----

    def emit(self, node):
        self.out.append(ast.copy_location(node, self.at) if hasattr(self, "at") else node)

    def block(self, body):
        saved, self.out = self.out, []
        for node in body:
            writer = getattr(self, "do_" + type(node).__name__, None)
            if writer is None:
                raise self.source.unsupported(node)
            writer(node)
            if self.out and never_passed(self.out[-1]):
                break  # what follows is not compiled, so it may be anything
        made, self.out = self.out, saved
        return made or [ast.Pass()]

    def branch(self, body):
        """A block after which nothing that it found out is known."""
        saved = dict(self.env)
        made = self.block(body)
        self.env = {k: v for k, v in saved.items() if self.env.get(k) is v}
        return made

    def do_Pass(self, node):
        pass

    def do_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.emit(ast.Expr(self.expr(node.value)))

    def do_Return(self, node):
        self.emit(ast.Return(self.expr(node.value) if node.value else None))

    def do_Break(self, node):
        if self.unrolled:
            raise self.source.error(node, "break and continue cannot be used in a loop over modules, which is unrolled")
        self.emit(node)

    do_Continue = do_Break

    def do_Delete(self, node):
        for target in node.targets:
            self.emit(ast.Delete([self.target(target)]))

    def do_Assert(self, node):
        test = self.static(node.test)
        if not (isinstance(test, Const) and test.value):
            self.emit(ast.Assert(self.expr(node.test), node.msg and self.message(node.msg)))

    def message(self, node):
        try:
            return self.expr(node)
        except (NotSupportedError, NotImplementedError, RuntimeError):
            return ast.Constant(ast.unparse(node))  # a text that says what would have been told

    def do_Raise(self, node):
        if node.exc is None:
            raise self.source.unsupported(node, "raise without an exception")
        cls = self.static(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
        args = node.exc.args if isinstance(node.exc, ast.Call) else []
        text = self.message(args[0]) if args else ast.Constant("")
        if isinstance(cls, Py) and inspect.isclass(cls.value) and issubclass(cls.value, BaseException):
            kind = f"{cls.value.__module__}.{cls.value.__qualname__}"
        else:
            raise self.source.error(node, "only exceptions can be raised")
        self.emit(ast.Expr(ast.Call(raw("ops.prim.RaiseException"), [text, ast.Constant(kind)], [])))
        self.emit(ast.Assert(ast.Constant(False), text))  # says that nothing follows

    def target(self, node):
        if isinstance(node, ast.Name):
            self.env.pop(node.id, None)
            return raw(self.name(node.id))
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self.target(x) for x in node.elts], ast.Store())
        if isinstance(node, ast.Starred):
            return ast.Starred(self.target(node.value), ast.Store())
        if isinstance(node, ast.Attribute):
            of = self.static(node.value)
            if isinstance(of, Mod):
                if not of.owner.is_plain:
                    self.attribute(of, node.attr, node)
                    of.owner.unfix(node.attr, lambda text: self.source.error(node, text))
                return ast.Attribute(raw(of.text), node.attr, ast.Store())
            return ast.Attribute(self.expr(node.value), node.attr, ast.Store())
        if isinstance(node, ast.Subscript):
            return ast.Subscript(self.expr(node.value), self.expr(self.plain_index(node.slice)), ast.Store())
        raise self.source.unsupported(node)

    def bind_static(self, target, known, node, within=False):
        """A loop's or assignment's name stands for what is known; `within` an expression it is written in its place."""
        if isinstance(target, ast.Name):
            if within and isinstance(known, (_At, _Held)):
                self.env[target.id] = known if isinstance(known, _Held) else _Held(f"{known.text}[{known.i}]")
            elif isinstance(known, _At):
                self.env.pop(target.id, None)
                self.emit(ast.Assign([raw(self.name(target.id))], ast.Subscript(raw(known.text), ast.Constant(known.i), ast.Load())))
            elif isinstance(known, _Held):
                self.env.pop(target.id, None)
                self.emit(ast.Assign([raw(self.name(target.id))], raw(known.text)))
            else:
                self.env[target.id] = known
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(known, (Items, Const)):
            items = known.items if isinstance(known, Items) else [Const(v) for v in known.value]
            if len(items) != len(target.elts):
                raise self.source.error(node, f"Provided {len(target.elts)} names, but {len(items)} values")
            for t, x in zip(target.elts, items):
                self.bind_static(t, x, node, within)
        else:
            raise self.source.unsupported(target)

    def do_Assign(self, node):
        to = node.targets[0]
        of = self.static(to.value) if isinstance(to, ast.Attribute) and len(node.targets) == 1 else None
        if isinstance(of, Mod) and not of.owner.is_plain and isinstance(inspect.getattr_static(of.owner.python, to.attr, None), property):
            return self.emit(ast.Expr(ast.Call(raw(f"{of.text}.{of.owner.setter(to.attr, lambda text: self.source.error(node, text))}"), [self.expr(node.value)], [])))
        known = self.static(node.value)
        if isinstance(known, (Mod, Py, Items)) and not (isinstance(known, Py) and isinstance(known.value, enum.Enum)) and len(node.targets) == 1 and not isinstance(node.targets[0], ast.Attribute):
            if not (isinstance(known, Mod) and known.owner.is_plain):
                return self.bind_static(node.targets[0], known, node)
        if isinstance(known, Const) and known.value is None and isinstance(node.targets[0], ast.Name) and self.stores[node.targets[0].id] == 1:
            self.env[node.targets[0].id] = known
            return None
        if isinstance(node.targets[0], ast.Name) and self.stores[node.targets[0].id] == 1 and (kind := self.number(node.value)):
            self.numbers[node.targets[0].id] = kind
        line = self.source.lines[node.end_lineno - 1]
        _, mark, comment = line.partition("# type:")
        value = self.expr(node.value)
        if mark and not comment.strip().startswith("ignore"):
            value = ast.Call(raw("annotate"), [raw(self.type(ast.Constant(comment), node)), value], [])
        self.emit(ast.Assign([self.target(t) for t in node.targets], value))

    def do_AnnAssign(self, node):
        kind = self.type(node.annotation)
        if self.owner is not None and self.owner.is_plain and isinstance(node.target, ast.Attribute):
            self.owner.fields[node.target.attr] = kind
        if node.value is not None:
            self.emit(ast.Assign([self.target(node.target)], ast.Call(raw("annotate"), [raw(kind), self.expr(node.value)], [])))

    def do_AugAssign(self, node):
        value = self.expr(node.value)
        known = self.static(node.target) if isinstance(node.target, ast.Name) else None
        if isinstance(known, Const):  # the number of an unrolled loop
            self.emit(ast.Assign([raw(self.name(node.target.id))], literal(known.value)))
        self.emit(ast.AugAssign(self.target(node.target), node.op, value))

    def do_If(self, node):
        test = self.static(node.test)
        if isinstance(test, Const):
            self.out += [] if not (test.value or node.orelse) else [x for x in self.block(node.body if test.value else node.orelse) if not isinstance(x, ast.Pass)]
            return
        condition = self.expr(node.test)
        self.emit(ast.If(condition, self.branch(node.body), self.branch(node.orelse) if node.orelse else []))

    def do_While(self, node):
        if node.orelse:
            raise self.source.unsupported(node, "else branches of while loops aren't supported")
        saved, self.unrolled = self.unrolled, 0
        self.emit(ast.While(self.expr(node.test), self.branch(node.body), []))
        self.unrolled = saved

    def items(self, node):
        """What a loop walks, if there are modules in it."""
        known = self.static(node)
        if isinstance(known, Const) and self.fn.__module__.endswith("jit._library") and isinstance(known.value, list):
            return [Const(x) for x in known.value]
        if isinstance(known, Mod) and isinstance(known.module, (torch.nn.ModuleDict, torch.nn.ParameterDict)):
            return [Const(n) for n in known.module]
        if isinstance(known, Mod) and not known.owner.is_plain and known.parts() is not None:
            return known.parts()
        if isinstance(known, Items):
            self.compute_once(known, {})
            return known.items
        return None

    def compute_once(self, known, names):
        """What zip() walks beside modules gets a name, before the loop."""
        for x in known.items if isinstance(known, Items) else ():
            if isinstance(x, _At) and x.text is None:
                if id(x.node) not in names:
                    names[id(x.node)] = f"zip_{x.node.lineno}_{x.node.col_offset}"
                    self.emit(ast.Assign([raw(names[id(x.node)])], self.expr(x.node)))
                x.text = names[id(x.node)]
            self.compute_once(x, names)

    def do_For(self, node):
        if node.orelse:
            raise self.source.unsupported(node, "else branches of for loops aren't supported")
        items = self.items(node.iter)
        if items is None:
            saved, self.unrolled = self.unrolled, 0
            iterated = self.expr(node.iter)
            target = self.target(node.target)
            self.emit(ast.For(target, iterated, self.branch(node.body), []))
            self.unrolled = saved
            return
        self.unrolled += 1
        for x in items:
            made, self.out = self.out, []
            self.bind_static(node.target, x, node)
            made, self.out = made + self.out, made
            self.out = made + [s for s in self.block(node.body) if not isinstance(s, ast.Pass)]
        self.unrolled -= 1

    def do_With(self, node):
        items = []
        for item in node.items:
            known = self.static(item.context_expr.func) if isinstance(item.context_expr, ast.Call) else None
            if isinstance(known, Py) and known.value in (torch.no_grad, torch.enable_grad):
                from . import _library
                context = ast.Call(raw(self.program.class_(getattr(_library, known.value.__name__))), [], [])
            elif isinstance(known, Py) and getattr(known.value, "__name__", "") == "record_function" or isinstance(known, Py) and getattr(known.value, "__name__", "") == "fuser":
                continue
            else:
                context = self.expr(item.context_expr)
            items.append(ast.withitem(context, item.optional_vars and self.target(item.optional_vars)))
        body = self.block(node.body)
        if items:
            self.emit(ast.With(items, body))
        else:
            self.out += body

    # ---- the head ----

    def comments(self):
        """Types that comments give: ([of the arguments], result), or of single arguments."""
        single = {}
        for line, text in self.source.type_comments():
            if text.startswith("("):
                return *types_of_comment(text), {}
            name = line.split("#")[0].strip().rstrip(",").split("=")[0].strip().removeprefix("def").split("(")[-1].strip()
            single[name] = ast.parse(text, mode="eval").body
        return None, None, single

    def overloaded(self, name):
        """The type of an argument that takes each type of the overloads, if they differ."""
        found = []
        for fn in _jit_internal.overloads_of(self.fn):
            kind = inspect.get_annotations(fn, eval_str=True).get(name, torch.Tensor)
            found += [text for text in [_types.text(kind, self.program.class_)] if text not in found]
        return f"Union[{', '.join(found)}]" if len(found) > 1 else None

    def text(self, name, unused=False):
        tree, a = self.source.tree, self.source.tree.args
        for star in (a.vararg, a.kwarg, *(x for x, default in zip(a.kwonlyargs, a.kw_defaults) if default)):
            if star and not unused:
                raise NotSupportedError(Range(self.source, star), "Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults")
        args = [*a.posonlyargs, *a.args, *a.kwonlyargs]
        held = self.owner and inspect.getattr_static(self.owner.python, name, None)
        is_method = self.owner is not None and not isinstance(held, staticmethod)
        kinds, result, single = self.comments()
        if kinds is not None:
            kinds = dict(zip([x.arg for x in args[is_method or self.of_class is not None:]], kinds))
        try:
            defaults = {p.name: p.default for p in inspect.signature(self.fn).parameters.values() if p.default is not p.empty}
        except (ValueError, TypeError):
            defaults = {}
        made, given = [], []
        for k, arg in enumerate(args):
            if k == 0 and self.of_class is not None:
                self.env[arg.arg] = Py(self.of_class)
                continue
            if is_method and k == 0:
                self.env[arg.arg] = Py(self.owner.python) if isinstance(held, classmethod) else Mod("self", self.owner)
                made.append(ast.arg("self"))
                continue
            kind = kinds.get(arg.arg) if kinds is not None else single.get(arg.arg, arg.annotation)
            text = "Any" if unused else self.overloaded(arg.arg)
            if text is None and kind is not None:
                text = self.type(kind, arg)
                classes = [c for c in flattened(self.evaluated(kind)) if c is not type(None)]
                if len(classes) == 1 and isinstance(classes[0], enum.EnumMeta):
                    self.enums[arg.arg] = classes[0]
            made.append(ast.arg(self.name(arg.arg), raw(text) if text else None))
            if arg.arg not in self.stores and text in _NUMERIC:
                self.numbers[arg.arg] = text
            if arg.arg not in self.stores and arg.arg not in defaults:
                if text == "Tensor":
                    self.tensors.add(arg.arg)
                elif text in self.program.plain:
                    self.objects[arg.arg] = self.program.plain[text]
            if arg.arg in defaults:
                if not is_constant(defaults[arg.arg]):
                    if not isinstance(defaults[arg.arg], enum.Enum):
                        raise NotSupportedError(Range(self.source, arg), f"Default value of type {type(defaults[arg.arg]).__name__} is not supported")
                    defaults[arg.arg] = defaults[arg.arg].value
                given.append(literal(defaults[arg.arg]))
        result = tree.returns if result is None else result
        body = self.block(tree.body) if not unused else self.refusal(name)
        head = ast.FunctionDef(name, ast.arguments([], made[:len(made) - len(a.kwonlyargs)], None, made[len(made) - len(a.kwonlyargs):], [None] * len(a.kwonlyargs), None, given),
                               body, [], raw(self.type(result)) if result is not None else None, type_params=[])
        self.result = head.returns and head.returns.id
        return ast.unparse(ast.fix_missing_locations(head)) + "\n"

    def refusal(self, name):
        text = ast.Constant(f"{name} is marked unused and was called")
        return [ast.Expr(ast.Call(raw("ops.prim.RaiseException"), [text, ast.Constant("builtins.NotImplementedError")], [])), ast.Assert(ast.Constant(False), text)]


class _Held:
    """A tensor of a module, by the expression that reads it."""

    def __init__(self, text):
        self.text = text


class _At:
    """The i-th of what an argument of zip gives, beside modules."""

    def __init__(self, node, i):
        self.node, self.i, self.text = node, i, None


def _annotate(c, node):
    return ast.Call(raw("annotate"), [raw(c.type(node.args[0])), c.expr(node.args[1])], [])


def _isinstance(c, node):
    kinds = c.kinds(node.args[1])
    names = [_types.text(k, c.program.class_) if k not in (list, tuple) else k.__name__ for k in kinds]
    return ast.Call(raw("isinstance"), [c.expr(node.args[0]), raw(names[0] if len(names) == 1 else f"({', '.join(names)})")], [])


def _type(c, node):
    """The class of a tensor, as messages of errors show it."""
    if len(node.args) != 1 or not c.is_tensor(node.args[0]):
        raise c.source.error(node, "python value of type 'type' cannot be used as a value: type")
    return ast.Constant(str(torch.Tensor))


def _warn(c, node):
    return ast.Call(raw("torch.warn"), [c.message(node.args[0])], [])


def _assert(c, node):
    c.emit(ast.Assert(c.expr(node.args[0]), c.message(node.args[1]) if len(node.args) > 1 else None))
    return ast.Constant(None)


def _same(c, node):
    return c.expr(node.args[0])


def _getattr(c, node):
    of, name = c.static(node.args[0]), c.static(node.args[1])
    if not isinstance(name, Const):
        raise c.source.error(node, "getattr's second argument must be a string literal")
    return ast.Attribute(raw(of.text) if isinstance(of, Mod) else c.expr(node.args[0]), name.value, ast.Load())


def _bound(f, c, node):
    """The arguments of a call by their names."""
    if any(k.arg is None for k in node.keywords):
        raise c.source.unsupported(node, "keyword-arg expansion is not supported")
    try:
        return inspect.signature(f).bind(*node.args, **{k.arg: k.value for k in node.keywords}).arguments
    except TypeError as why:
        raise c.source.error(node, f"{f.__name__}: {why}") from None


def _by_flags(f, *flags):
    """A function whose flags say how many results there are: for each set of them _library.py has one, with its name."""
    def special(c, node):
        from . import _library
        given = _bound(f, c, node)
        known = {name: c.static(given.pop(name)) for name in flags if name in given}
        if not all(isinstance(x, Const) for x in known.values()):
            raise c.source.error(node, f"{f.__name__}: {' and '.join(known)} must be constants")
        chosen = [name.removeprefix("return_") for name in flags if name in known and known[name].value]
        name = "_".join([f.__name__, *(["with", *chosen] if chosen else [])])
        return ast.Call(raw(c.program.function(getattr(_library, name))), [], [ast.keyword(k, c.spread(name, k, x)) for k, x in given.items()])
    return special


def _stft(c, node):
    """Of the operation's two forms the one that centers, as the function does."""
    given = {"center": ast.Constant(True), **_bound(torch.functional.stft, c, node)}
    return ast.Call(raw("torch.stft"), [c.expr(given.pop("input"))], [ast.keyword(k, c.expr(x)) for k, x in given.items()])


def _dims(c, node):
    """Dims, or one, as a list."""
    known = c.static(node)
    if isinstance(known, Const) and known.value is not None:
        return literal([known.value] if isinstance(known.value, int) else list(known.value))
    return ast.List([c.expr(x) for x in node.elts], ast.Load()) if isinstance(node, ast.Tuple) else c.expr(node)


def _tensordot(c, node):
    given = _bound(torch.functional.tensordot, c, node)
    dims = given.get("dims", ast.Constant(2))
    known = c.static(dims)
    if isinstance(known, Const) and isinstance(known.value, int):
        pair = [literal(list(range(-known.value, 0))), literal(list(range(known.value)))]
    elif isinstance(known, Const):
        pair = [literal([x] if isinstance(x, int) else list(x)) for x in known.value]
    elif isinstance(dims, (ast.Tuple, ast.List)) and len(dims.elts) == 2:
        pair = [_dims(c, x) for x in dims.elts]
    else:
        pair = [ast.Subscript(c.expr(dims), ast.Constant(i), ast.Load()) for i in range(2)]
    return ast.Call(raw("torch.tensordot"), [c.expr(given["a"]), c.expr(given["b"]), *pair], [])


def _norm(c, node):
    given = _bound(torch.functional.norm, c, node)
    order = c.static(given["p"]) if "p" in given else Const("fro")
    order = order.value if isinstance(order, Const) else ...
    named = [ast.keyword("dim", _dims(c, given["dim"]))] if "dim" in given else []
    named += [ast.keyword(k, c.expr(given[k])) for k in ("keepdim", "dtype") if k in given]
    if order == "nuc":
        return ast.Call(raw("torch.linalg_matrix_norm"), [c.expr(given["input"]), ast.Constant("nuc")], named)
    return ast.Call(raw("torch.linalg_vector_norm"), [c.expr(given["input"]), ast.Constant(2.0) if order in ("fro", None) else c.expr(given["p"])], named)


def _dict(c, node):
    """What keywords say is set after what is copied: the language's dict() takes no keywords."""
    args, named = c.arguments(node)
    if not named or not args:
        return ast.Dict([ast.Constant(k.arg) for k in named], [k.value for k in named]) if named else ast.Call(raw("dict"), args, [])
    made = f"dict_{node.lineno}_{node.col_offset}"
    c.emit(ast.Assign([raw(made)], ast.Call(raw("dict"), args, [])))
    for k in named:
        c.emit(ast.Assign([ast.Subscript(raw(made), ast.Constant(k.arg), ast.Store())], k.value))
    return raw(made)


def _fork(c, node):
    called = c.expr(ast.copy_location(ast.Call(node.args[0], node.args[1:], node.keywords), node))
    return ast.Call(raw("fork"), [called.func, *called.args], called.keywords)


_SPECIAL = {torch.jit.annotate: _annotate, torch.jit.isinstance: _isinstance, isinstance: _isinstance, type: _type, warnings.warn: _warn, torch._assert: _assert, torch.Size: _same,
            _C._set_grad_enabled: lambda c, node: c.called("torch.set_grad_enabled", node), pow: lambda c, node: c.called("torch.pow", node),
            torch.manual_seed: lambda c, node: c.called("torch.manual_seed", node),
            typing.cast: lambda c, node: c.expr(node.args[1]), torch.jit.fork: _fork, dict: _dict, collections.OrderedDict: _dict, torch.jit.wait: lambda c, node: c.called("torch.wait", node),
            torch.device: lambda c, node: c.called("torch.device", node), getattr: _getattr,
            torch.functional.stft: _stft, torch.functional.tensordot: _tensordot, torch.functional.norm: _norm,
            **{f: _by_flags(f, "return_inverse", "return_counts") for f in (torch.functional.unique, torch.functional.unique_consecutive)},
            **{f: _by_flags(f, "return_indices") for f in (getattr(torch.nn.functional, f"{kind}max_pool{n}d") for kind in ("", "adaptive_") for n in (1, 2, 3))}}
