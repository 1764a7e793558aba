"""Schemas of operators: "ns::name.overload(Tensor x, int[] n=[1], *, bool flag=False) -> Tensor(a!)" read into objects."""
import re

import rushlight as torch

# Defaults that are names in a schema and numbers in what is printed
_NUMBERS = {torch.contiguous_format: 0, torch.int64: 4}
_REDUCTIONS = {"Mean": 1, "Sum": 2}

_TOKEN = re.compile(r"\s*(->|::|[$A-Za-z_][\w.]*|-?\d+\.?\d*(?:e[+-]?\d+)?|\"[^\"]*\"|'[^']*'|[()\[\],=*?!|&])")


class AliasInfo:
    """(a) or (a!) behind a type: the value shares memory; with ! it is written to, (a -> *): and may go into a list. A ! alone: under no other's name."""

    def __init__(self, names, is_write, after=None):
        self.before_set, self.after_set = frozenset(names), frozenset(names if after is None else after)
        self.is_write = is_write


class Type:
    """A type by its name: Tensor, int, int[], Tensor?, ..."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    __repr__ = __str__

    def kind(self):
        if self.text.endswith("?"):
            return "OptionalType"
        if self.text.endswith("]"):
            return "ListType"
        return {"Tensor": "TensorType", "str": "StringType"}.get(self.text, self.text.capitalize() + "Type")

    def getElementType(self):
        return Type(self.text[:-1] if self.text.endswith("?") else self.text[:self.text.rindex("[")])

    def annotation(self):
        """As Python writes it: List[int], Optional[Tensor]."""
        if self.text.endswith("?"):
            return "Optional[%s]" % self.getElementType().annotation()
        if self.text.endswith("]"):
            return "List[%s]" % self.getElementType().annotation()
        return {"Scalar": "number", **dict.fromkeys(("SymInt", "ScalarType", "Layout", "MemoryFormat"), "int")}.get(self.text, self.text)

    def check(self):
        """An error for words that are no type; classes of a program have a path."""
        for word in re.findall(r"[A-Za-z_][\w.]*", self.text):
            if word not in _KINDS and word not in _AS_INT and word not in ("Dict", "Storage", "QScheme") and "." not in word:
                raise RuntimeError("unknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; for a full list, please see "
                                   "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func : %s" % word)

    def isSubtypeOf(self, other):
        return self.text == str(other)

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(self.text)


# Words that are numbers to a program
_AS_INT = ("SymInt", "ScalarType", "Layout", "MemoryFormat", "DeviceIndex")
_KINDS = {"Tensor": "TensorType", "int": "IntType", "SymInt": "SymIntType", "float": "FloatType", "bool": "BoolType", "str": "StringType", "Scalar": "NumberType",
          "Device": "DeviceObjType", "Generator": "GeneratorType", "Stream": "StreamObjType", "Any": "AnyType", "complex": "ComplexType", "SymBool": "SymBoolType",
          "NoneType": "NoneType"}


def _type_of_program(text, real):
    """The type of torch._C that a schema's type is to programs; real: numbers that stand for a dtype, a layout ... are told apart."""
    from rushlight.jit import _graph
    if text.endswith("?"):
        return _graph.OptionalType(_type_of_program(text[:-1], real))
    if text.endswith("]"):
        return _graph.ListType(_type_of_program(text[:text.rindex("[")], real))
    if text.startswith("Dict("):
        return _graph.DictType(*(_type_of_program(part, real) for part in text[5:-1].split(", ", 1)))
    if text.startswith("("):
        return _graph.TupleType([_type_of_program(part, real) for part in text[1:-1].split(", ")])
    kind = _KINDS.get(text) if real else _KINDS.get("int" if text in _AS_INT else text)
    return getattr(_graph, kind)() if kind else _graph.ClassType(text)


class Argument:
    """One argument or result; `written` is its type as the schema has it, `type` what that is to programs."""

    def __init__(self, name, type, default_value=None, has_default=False, kwarg_only=False, alias_info=None, N=None):
        self.name, self.written = name, type
        self.default_value, self._has_default = default_value, has_default
        self.kwarg_only, self.alias_info, self.N = kwarg_only, alias_info, N

    @property
    def type(self):
        return _type_of_program(self.written.text, False)

    @property
    def real_type(self):
        return _type_of_program(self.written.text, True)

    def has_default_value(self):
        return self._has_default

    @property
    def is_write(self):
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self):
        return self.is_write and self.kwarg_only

    def __str__(self):
        text = _typed(self)
        if self.name:
            text += " " + self.name
        if self._has_default:
            value = self.default_value
            alike = str(self.written).startswith("int[") and isinstance(value, list) and len(value) == self.N > 1 and all(v == value[0] for v in value)
            text += "=" + _default_text(value[0] if alike else value)
        return text

    __repr__ = __str__


def _typed(argument):
    text = str(argument.written)
    if argument.alias_info is not None:
        alias = argument.alias_info
        mark = "|".join(sorted(alias.before_set)) + ("!" if alias.is_write else "")
        mark = "(%s)" % (mark if alias.before_set == alias.after_set else mark + " -> " + "|".join(sorted(alias.after_set)))
        cut = len(re.match(r"\w+", text).group(0))
        text = text[:cut] + mark + text[cut:]
    return text


def _default_text(value):
    if isinstance(value, str):
        return '"%s"' % value
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return str(_NUMBERS.get(value, value))
    if isinstance(value, float):
        return "%d." % value if value.is_integer() else "%.17g" % value
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_default_text(v) for v in value)
    return str(value)


class FunctionSchema:
    """Name, arguments and results of an operator."""

    def __init__(self, name, overload_name, arguments, returns, is_vararg=False, is_varret=False):
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = list(arguments), list(returns)
        self.is_vararg, self.is_varret = is_vararg, is_varret

    @property
    def is_mutable(self):
        return any(a.is_write for a in self.arguments)

    def __str__(self):
        parts, starred = [], False
        for argument in self.arguments:
            if argument.kwarg_only and not starred:
                parts.append("*")
                starred = True
            parts.append(str(argument))
        results = [str(r) for r in self.returns]
        result = results[0] if len(results) == 1 else "(%s)" % ", ".join(results)
        name = self.name + ("." + self.overload_name if self.overload_name else "")
        return "%s(%s) -> %s" % (name, ", ".join(parts), result)

    __repr__ = __str__

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


class _Reader:
    def __init__(self, text):
        self.text, self.tokens, at = text, [], 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise RuntimeError("%s: unexpected text at %r" % (self.text, text[at:at + 20]))
            self.tokens.append(match.group(1))
            at = match.end()
        self.at = self.unnamed = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def next(self, expected=None):
        token = self.peek()
        if token is None or (expected is not None and token != expected):
            raise RuntimeError("schema %r: expected %s, but found %s" % (self.text, expected or "more", token))
        self.at += 1
        return token

    def label(self):
        """The name of an argument or result."""
        if self.peek() is not None and not self.peek().isidentifier():
            raise RuntimeError("schema %r: expected ident, but found %s" % (self.text, self.peek()))
        return self.next()

    def alias(self):
        """What (a!) or ! says, None where neither stands."""
        if self.peek() == "!":
            self.next()
            self.unnamed += 1
            return AliasInfo(["$%d" % (self.unnamed - 1)], True, [])
        if self.peek() != "(":
            return None
        self.next()
        names, write, after = [], False, None
        while self.peek() != ")":
            token = self.next()
            if token == "!":
                write = True
            elif token == "->":
                after = []
            elif token not in ("|", ","):
                (names if after is None else after).append(token)
        self.next(")")
        return AliasInfo(names, write, after)

    def type(self):
        """(Type, alias, N)"""
        name, size = self.next(), None
        if name == "(":
            parts = []
            while self.peek() != ")":
                parts.append(str(self.type()[0]))
                if self.peek() == ",":
                    self.next()
            self.next(")")
            name = "(%s)" % ", ".join(parts)
        if name == "Dict":
            self.next("(")
            key = self.type()[0]
            self.next(",")
            name = "Dict(%s, %s)" % (key, self.type()[0])
            self.next(")")
        alias = self.alias()
        while self.peek() in ("[", "?"):
            if self.next() == "?":
                name += "?"
            else:
                inner = ""
                if self.peek() != "]":
                    inner = self.next()
                    size = int(inner)
                self.next("]")
                name += "[%s]" % inner
                alias = alias or self.alias()
        return Type(name), alias, size

    def value(self):
        token = self.next()
        if token == "[":
            items = []
            while self.peek() != "]":
                items.append(self.value())
                if self.peek() == ",":
                    self.next()
            self.next("]")
            return items
        if token in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[token]
        if token[0] in "\"'":
            return token[1:-1]
        if re.match(r"-?\d", token):
            return float(token) if any(c in token for c in ".e") else int(token)
        return {"inf": float("inf"), "nan": float("nan")}.get(token, _REDUCTIONS.get(token, token))


def parse_schema(text):
    """The FunctionSchema of a text."""
    reader = _Reader(text)
    name = reader.next()
    if reader.peek() == "::":
        reader.next()
        name += "::" + reader.next()
    space, _, base = name.rpartition("::")
    base, _, overload = base.partition(".")
    name = space + "::" + base if space else base
    reader.next("(")
    arguments, kwarg_only, vararg = [], False, False
    while reader.peek() != ")":
        if reader.peek() == "*":
            reader.next()
            kwarg_only = True
        else:
            kind, alias, size = reader.type()
            label = reader.label()
            if reader.peek() == "=":
                reader.next()
                default = reader.value()
                if str(kind) == "float" and default is not None:
                    default = float(default)
                if isinstance(default, str) and str(kind).rstrip("?") in ("ScalarType", "Layout", "MemoryFormat"):
                    default = getattr(torch, default)
                if isinstance(default, str) and str(kind).rstrip("?") == "Device":
                    default = torch.device(default)
                if size is not None and type(default) in (int, float, bool):     # int[2] stride=1 stands for [1, 1]
                    default = [default] * size
                arguments.append(Argument(label, kind, default, True, kwarg_only, alias, size))
            else:
                arguments.append(Argument(label, kind, None, False, kwarg_only, alias, size))
        if reader.peek() == ",":
            reader.next()
    reader.next(")")
    reader.next("->")
    returns = []
    if reader.peek() == "(":
        reader.next()
        while reader.peek() != ")":
            kind, alias, size = reader.type()
            label = "" if reader.peek() in (",", ")") else reader.label()
            returns.append(Argument(label, kind, alias_info=alias, N=size))
            if reader.peek() == ",":
                reader.next()
        reader.next(")")
    else:
        kind, alias, size = reader.type()
        label = reader.label() if reader.peek() is not None else ""
        returns.append(Argument(label, kind, alias_info=alias, N=size))
    if reader.peek() is not None:
        raise RuntimeError("schema %r: unexpected %s at the end" % (text, reader.peek()))
    if len(returns) == 1 and returns[0].alias_info and str(returns[0].written) == "Tensor[]" and not returns[0].is_write:
        for argument in arguments:      # views of it come in a list
            if argument.alias_info and argument.alias_info.before_set == returns[0].alias_info.before_set:
                argument.alias_info.after_set = frozenset("*")
    return FunctionSchema(name, overload, arguments, returns, vararg)


def parse_name(text):
    """"ns::name.overload" -> (ns, name, overload)"""
    space, sep, rest = text.partition("::")
    if not sep:
        raise ValueError("Expected `qualname` to be of the form \"namespace::name\", but got %s. The qualname passed to the torch.library APIs must consist of a "
                         "namespace and a name, e.g. aten::sin" % text)
    name, _, overload = rest.partition(".")
    return space, name, overload
