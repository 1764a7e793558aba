"""What dataclasses write for a class, as functions with a text that can be compiled."""
import dataclasses
import linecache
import sys
import typing

_ORDER = {"__lt__": ("<", False), "__le__": ("<=", True), "__gt__": (">", False), "__ge__": (">=", True)}


def refuse_factories(cls):
    if any(f.default_factory is not dataclasses.MISSING for f in dataclasses.fields(cls)):
        raise NotImplementedError("Default factory initializers are not supported in TorchScript dataclasses")


def written(cls, name, fn):
    """A method of a class as a program may have it: fn, one with a text in place of what a dataclass made, or None: it is left out."""
    if dataclasses.is_dataclass(cls) and fn.__module__ == "dataclasses":  # __replace__, since 3.13
        return None
    if not dataclasses.is_dataclass(cls) or fn.__code__.co_filename != "<string>" and not hasattr(fn, "__wrapped__"):
        return fn
    if name == "__init__":
        return _init(cls)
    compared = [f.name for f in dataclasses.fields(cls) if f.compare]
    if name == "__eq__":
        return _compiled(cls, name, "other: _cls", [line for n in compared for line in _unlike(cls, n)] + ["return True"], {})
    if name in _ORDER:
        operator, alike = _ORDER[name]
        lines = [line for n in compared for line in (f"if self.{n} != other.{n}:", f"    return self.{n} {operator} other.{n}")]
        return _compiled(cls, name, "other: _cls", [*lines, f"return {alike}"], {})
    return None


def _unlike(cls, field):
    """The lines that leave __eq__ where a field differs; two that may be None are compared as what they are once neither is."""
    if type(None) not in typing.get_args(typing.get_type_hints(cls)[field]):
        return [f"if self.{field} != other.{field}:", "    return False"]
    ours, theirs = f"ours_{field}", f"theirs_{field}"
    return [f"{ours} = self.{field}", f"{theirs} = other.{field}", f"if {ours} is not None and {theirs} is not None:", f"    if {ours} != {theirs}:", "        return False",
            f"elif ({ours} is None) != ({theirs} is None):", "    return False"]


def _init(cls):
    refuse_factories(cls)
    names, body, head = {}, [], {False: [], True: []}
    for f in cls.__dataclass_fields__.values():
        given = isinstance(f.type, dataclasses.InitVar)
        if given or f._field_type is dataclasses._FIELD:
            names["_type_" + f.name] = f.type.type if given else f.type
            names["_default_" + f.name] = f.default
            default = "" if f.default is dataclasses.MISSING else f" = _default_{f.name}"
            if f.init:
                head[bool(f.kw_only)].append(f"{f.name}: _type_{f.name}{default}")
            if not given and (f.init or default):
                body.append(f"self.{f.name} = {f.name if f.init else default[3:]}")
    if hasattr(cls, "__post_init__"):
        body.append(f"self.__post_init__({', '.join(f.name for f in cls.__dataclass_fields__.values() if isinstance(f.type, dataclasses.InitVar))})")
    return _compiled(cls, "__init__", ", ".join([*head[False], *["*"] * bool(head[True]), *head[True]]), body or ["pass"], names)


def _compiled(cls, name, arguments, body, names):
    text = "\n    ".join([f"def {name}(self{', ' if arguments else ''}{arguments}):", *body]) + "\n"
    file = f"<{name} of the dataclass {cls.__module__}.{cls.__qualname__}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {**vars(sys.modules.get(cls.__module__, object)), **names, "_cls": cls}
    exec(compile(text, file, "exec"), space)
    return space[name]
