"""Python's annotations as types of TorchScript, written as its files write them."""
import enum
import functools
import inspect
import types
import typing

import rushlight as torch

from .frontend import NotSupportedError

_PLAIN = {int: "int", float: "float", bool: "bool", str: "str", complex: "complex", type(None): "NoneType", None: "NoneType", torch.Tensor: "Tensor",
          torch.nn.Parameter: "Tensor", torch.device: "Device", torch.dtype: "int", torch.layout: "int", torch.memory_format: "int", torch.Size: "List[int]",
          torch.Generator: "Generator", typing.Any: "Any", list: "List[Tensor]", tuple: "Tuple[Tensor]", dict: "Dict[str, Tensor]", object: "Any"}
_BARE = {typing.List: "List", typing.Dict: "Dict", typing.Tuple: "Tuple", typing.Optional: "Optional"}


class Unknown(Exception):
    """A type that the language does not have."""


def is_named_tuple(cls):
    return inspect.isclass(cls) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def text(kind, classes):
    """The text of a type; `classes(cls)` gives the path of a class of the program."""
    if isinstance(kind, typing.ForwardRef):
        raise Unknown(f"Unknown type name '{kind.__forward_arg__}'")
    try:
        if kind in _PLAIN:
            return _PLAIN[kind]
        if kind in _BARE:
            raise Unknown(f"Attempted to use {_BARE[kind]} without a contained type. Please add a contained type, e.g. {_BARE[kind]}[int]")
    except TypeError:
        raise Unknown(f"Unknown type annotation: '{kind}'") from None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is list:
        return f"List[{text(args[0], classes)}]"
    if origin is dict:
        return f"Dict[{text(args[0], classes)}, {text(args[1], classes)}]"
    if origin is tuple:
        if args == ((),) or not args:
            return "Tuple[()]"
        if args[-1] is Ellipsis:
            raise Unknown(f"Unknown type annotation: '{kind}'")
        return f"Tuple[{', '.join(text(a, classes) for a in args)}]"
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        kinds = list(dict.fromkeys(text(a, classes) for a in rest))
        inner = kinds[0] if len(kinds) == 1 else f"Union[{', '.join(kinds)}]"
        return f"Optional[{inner}]" if len(rest) < len(args) else inner
    if origin in (typing.Final, typing.Annotated):
        return text(args[0], classes)
    if origin is torch.futures.Future:
        return f"Future[{text(args[0], classes)}]"
    if kind is torch.futures.Future:
        return "Future[Tensor]"
    if isinstance(kind, torch._classes.ScriptClass):
        return kind._path
    if inspect.isclass(kind):
        if issubclass(kind, torch.nn.Module) or kind.__module__ in ("builtins", "typing", "collections.abc"):
            raise Unknown(f"Unknown type annotation: '{kind.__name__}'")
        if issubclass(kind, torch.Tensor):
            return "Tensor"
        if issubclass(kind, enum.Enum):  # its members are written as their values
            return _common([of_value(m.value, classes) for m in kind])
        return classes(kind)
    raise Unknown(f"Unknown type annotation: '{kind}'")


def of_value(x, classes):
    """The type of an attribute, from its value."""
    if isinstance(x, torch.Tensor):
        return "Tensor"
    if isinstance(x, (bool, int, float, complex, str, torch.device, torch.dtype, torch.layout, torch.memory_format, torch.Generator)) and not isinstance(x, enum.Enum) or x is None:
        kind = next(k for k in type(x).__mro__ if k in _PLAIN)
        return _PLAIN[kind]
    if isinstance(x, torch.Size):
        return "List[int]"
    if isinstance(x, torch._classes.ScriptObject):
        return x._path
    if isinstance(x, tuple):
        if is_named_tuple(type(x)):
            return classes(type(x))
        return f"Tuple[{', '.join(of_value(v, classes) for v in x)}]" if tuple.__len__(x) else "Tuple[()]"
    if isinstance(x, list):
        return f"List[{_common([of_value(v, classes) for v in x])}]"
    if isinstance(x, dict) and x:
        return f"Dict[{_common([of_value(k, classes) for k in x])}, {_common([of_value(v, classes) for v in x.values()])}]"
    if isinstance(x, dict):
        return "Dict[str, Tensor]"
    if is_scriptable(type(x)):
        try:
            return classes(type(x))
        except (NotSupportedError, RuntimeError, Unknown) as error:
            if isinstance(error, NotImplementedError):
                raise
            why = f" {error}"
    else:
        why = ""
    raise Unknown(f"(This attribute exists on the Python module, but we failed to convert Python type: '{type(x).__module__}.{type(x).__qualname__}' to a TorchScript type.{why})")


def is_scriptable(cls):
    """Whether a class is all Python, so that its methods may be compiled."""
    return not issubclass(cls, (torch.nn.Module, tuple, list, Exception, enum.Enum)) and all(hasattr(fn, "__code__") for fn in map(functools.partial(getattr, cls), vars(cls)) if inspect.isroutine(fn))


def _common(kinds):
    """One type of all items: of lists without any, tensors."""
    plain = sorted(set(kinds) - {"NoneType"})
    if not plain:
        return "Tensor"
    if len(plain) > 1:
        raise Unknown(f"a list of {' and '.join(plain)}")
    return plain[0] if "NoneType" not in kinds else f"Optional[{plain[0]}]"
