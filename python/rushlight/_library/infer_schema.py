"""The schema of a Python function, from its annotations."""
import inspect
import types
import typing

import rushlight as torch


def _base_types():
    return {torch.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
            torch.types.Number: "Scalar", torch.dtype: "ScalarType", torch.device: "Device",
            torch.layout: "Layout", torch.memory_format: "MemoryFormat", torch.Generator: "Generator"}


def _name_of(annotation):
    """The schema's name of a type, or None."""
    base = _base_types()
    try:
        if annotation in base:
            return base[annotation]
    except TypeError:
        return None
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        inner = [a for a in args if a is not type(None)]
        name = "Scalar" if set(inner) == {int, float, bool} else _name_of(inner[0]) if len(inner) == 1 else None
        return name + "?" if name is not None and len(inner) < len(args) else name
    if origin is not None and origin in (list, typing.get_origin(typing.Sequence[int])) and len(args) == 1:
        name = _name_of(args[0])
        return None if name is None else name + "[]"
    return None


def infer_schema(prototype_function, /, *, mutates_args, op_name=None, tags=None):
    """"(Tensor x, float a=1.0) -> Tensor" for a function with annotations."""
    signature = inspect.signature(prototype_function)
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError("mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. ")
    try:
        hints = typing.get_type_hints(prototype_function)
    except (NameError, TypeError):
        hints = {name: p.annotation for name, p in signature.parameters.items()}
        hints["return"] = signature.return_annotation

    def fail(what):
        raise ValueError("infer_schema(func): %s Got func with signature %s)" % (what, signature))

    parts, kwarg_only, seen = [], False, set()
    for name, parameter in signature.parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not kwarg_only:
            parts.append("*")
            kwarg_only = True
        if parameter.annotation is inspect.Parameter.empty:
            fail("Parameter %s must have a type annotation." % name)
        kind = _name_of(hints.get(name, parameter.annotation))
        if kind is None:
            fail("Parameter %s has unsupported type %s. The valid types are tensors, numbers, text, dtypes, devices, and "
                 "optionals and sequences of them." % (name, parameter.annotation))
        if mutates_args == "unknown":
            mutated = "Tensor" in kind
        else:
            mutated = name in mutates_args
        if mutated:
            if not kind.startswith("Tensor"):
                fail("Parameter %s is in mutable_args but only Tensors or collections of Tensors can be mutated" % name)
            kind = "Tensor(a%d!)%s" % (len(seen), kind[6:])
        seen.add(name)
        if parameter.default is inspect.Parameter.empty:
            parts.append("%s %s" % (kind, name))
        else:
            default = parameter.default
            if default is None or isinstance(default, (int, float, bool)):
                shown = str(default)
            elif isinstance(default, (str, torch.device)):
                shown = '"%s"' % default
            elif isinstance(default, torch.dtype):
                shown = str(default).split(".")[-1]
            else:
                fail("Parameter %s has an unsupported default value type %s. Please file an issue on GitHub so we can "
                     "prioritize this." % (name, type(default)))
            parts.append("%s %s=%s" % (kind, name, shown))
    if mutates_args != "unknown":
        unknown = set(mutates_args) - seen
        if unknown:
            fail("%s in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all args that the custom op mutates, "
                 "or just the string 'unknown' if you don't know." % unknown)
    result = hints.get("return", signature.return_annotation)
    text = "(%s) -> %s" % (", ".join(parts), _result(result, fail))
    return (op_name or "") + text


def _result(annotation, fail):
    if annotation is inspect.Signature.empty:
        fail("No return type annotation was provided. Please add one.")
    if annotation is None or annotation is type(None):
        return "()"
    if typing.get_origin(annotation) is tuple:
        names = [_name_of(a) for a in typing.get_args(annotation)]
        if any(n is None for n in names):
            fail("Return has unsupported type %s." % (annotation,))
        return "(%s)" % ", ".join(names) if len(names) != 1 else "(%s)" % names[0]
    name = _name_of(annotation)
    if name is None:
        fail("Return has unsupported type %s." % (annotation,))
    return name
