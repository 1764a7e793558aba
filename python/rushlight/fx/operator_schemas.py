"""Arguments of calls by the signature of what is called."""
import inspect
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


def get_signature_for_torch_op(op, return_schemas=False):
    """The signatures of the overloads of an operation, None when it has none."""
    name = getattr(op, "__name__", None)
    packet = getattr(torch.ops.aten, name, None) if name else None
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
            parameters.append(inspect.Parameter(label, kind, default=default))
        try:
            signatures.append(inspect.Signature(parameters))
            schemas.append(schema)
        except ValueError:
            continue
    return (signatures, schemas) if return_schemas else signatures


def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    kwargs = kwargs or {}
    try:
        signatures = [inspect.signature(target)] if inspect.isfunction(target) else get_signature_for_torch_op(target) or []
    except (ValueError, TypeError):
        signatures = []
    for signature in signatures:
        try:
            return _normalized(signature, args, kwargs, normalize_to_only_use_kwargs)
        except TypeError:
            continue
    return None


def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    module = root.get_submodule(target)
    try:
        return _normalized(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)
    except TypeError:
        return None


def create_type_hint(x):
    return type(x)


def type_matches(signature_type, argument_type):
    return signature_type is argument_type or signature_type is inspect.Signature.empty


def check_for_mutable_operation(target, args, kwargs):
    return None
