"""Arguments of calls by the signature of what is called."""
import inspect
import numbers
import types
import typing
from typing import Any, Dict, NamedTuple, Tuple

import rushlight as torch

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op", "create_type_hint",
           "type_matches", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]


def _normalized(signature, args, kwargs, only_kwargs):
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    positional, named = [], {}
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif not only_kwargs and i < len(args):
            positional.append(value)
        else:
            named[name] = value
    return ArgsKwargsPair(tuple(positional), named)


_TYPES = {"Tensor": torch.Tensor, "int": int, "SymInt": int, "float": float, "bool": bool, "str": str, "Scalar": numbers.Number, "Device": torch.device, "ScalarType": int, "Layout": int,
          "MemoryFormat": int, "Generator": torch.Generator}


def _annotation(kind):
    """The type of Python that a schema's is, Any where none is known."""
    if kind.kind() == "OptionalType":
        return typing.Optional[_annotation(kind.getElementType())]
    if kind.kind() == "ListType":
        return typing.List[_annotation(kind.getElementType())]
    return _TYPES.get(str(kind), Any)


def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures of the overloads of an operation, None when it has none."""
    name = getattr(op, "__name__", None)
    own = (getattr(op, "__module__", None) or "torch").split(".")[0] in ("torch", "rushlight")
    packet = getattr(torch.ops.aten, name, None) if name and own else None
    if packet is None:
        return (None, None) if return_schemas else None
    signatures, schemas = [], []
    for overload in packet.overloads():
        schema = getattr(packet, overload)._schema
        parameters = []
        for argument in schema.arguments:
            kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
            label = "input" if argument.name == "self" else argument.name
            label = "from_" if label == "from" else label
            default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
            parameters.append(inspect.Parameter(label, kind, default=default, annotation=_annotation(argument.written)))
        try:
            signatures.append(inspect.Signature(parameters))
            schemas.append(schema)
        except ValueError:
            continue
    return (signatures, schemas) if return_schemas else signatures


def _bound_by(signatures, args, kwargs):
    for signature in signatures:
        try:
            yield signature, signature.bind(*args, **kwargs).arguments
        except TypeError:
            continue


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    """The arguments of a call by their names, defaults filled in; types decide between overloads that take as many. None: target has no signature."""
    kwargs = kwargs or {}
    try:
        signatures = [inspect.signature(target)] if inspect.isfunction(target) else get_signature_for_torch_op(target) or []
    except (ValueError, TypeError):
        signatures = []
    fitting = [signature for signature, _ in _bound_by(signatures, args, kwargs)]
    if len(fitting) > 1 and arg_types is not None:
        fitting = [signature for signature, given in _bound_by(fitting, arg_types, kwarg_types or {}) if all(type_matches(signature.parameters[name].annotation, kind) for name, kind in given.items())]
    return _normalized(fitting[0], args, kwargs, normalize_to_only_use_kwargs) if fitting else None


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    module = root.get_submodule(target)
    try:
        return _normalized(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)
    except TypeError:
        return None


def create_type_hint(x):
    """The type of a list or tuple of types, whose items' is the widest of theirs; another thing as it is."""
    if not isinstance(x, (list, tuple)) or not all(map(inspect.isclass, x)):
        return x
    widest = next((kind for kind in x if all(issubclass(other, kind) for other in x)), Any)
    return list[widest] if isinstance(x, list) else tuple[widest, ...]


def type_matches(signature_type, argument_type):
    """Whether an argument of a type may be given for a parameter of another."""
    if signature_type is argument_type or signature_type is inspect.Signature.empty or signature_type == argument_type:
        return True
    origin, inner = typing.get_origin(signature_type), typing.get_args(signature_type)
    if origin in (typing.Union, types.UnionType):
        return any(type_matches(kind, argument_type) for kind in inner)
    if origin is list:
        if typing.get_origin(argument_type) in (list, tuple):
            return all(kind is Ellipsis or type_matches(inner[0], kind) for kind in typing.get_args(argument_type))
        return inner == (int,) and argument_type is int
    if signature_type is int and argument_type is torch.dtype:
        return True
    return inspect.isclass(signature_type) and inspect.isclass(argument_type) and issubclass(argument_type, signature_type)


def check_for_mutable_operation(target, args, kwargs):
    return None
