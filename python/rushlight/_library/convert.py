"""Values as the types of a schema have them: what a program passes to an operator, and what a kernel returns."""
import functools
import re

import rushlight as torch


class Refused(Exception):
    """A value that is not of the type; the text says why."""


def _unable(value):
    return Refused("Cast error details: Unable to cast Python instance of type %s to C++ type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug "
                   "mode for details)" % type(value))


def _tensor(value):
    if value is None or isinstance(value, torch.Tensor):
        return value
    raise Refused("Cast error details: Unable to cast %s to Tensor" % (value,))


def _number(value):
    if isinstance(value, (bool, int, float, complex)):
        return value
    raise Refused("Cast error details: Cannot cast %s to number" % (value,))


def _through(made, method, *kinds):
    """Values of a Python type: of objects with its method, tensors and NumPy's numbers among them, but not of these kinds."""
    def take(value):
        if type(value) is made:
            return value
        if isinstance(value, kinds) or not hasattr(type(value), method):
            raise _unable(value)
        try:
            return made(value)
        except (TypeError, ValueError, RuntimeError):
            raise _unable(value) from None
    return take


def _one_of(*kinds):
    def take(value):
        if isinstance(value, kinds):
            return value
        raise _unable(value)
    return take


def _bool(value):
    return False if value is None else _to_bool(value)


def _device(value):
    return torch.device(value) if isinstance(value, str) else _one_of(torch.device)(value)


def _object(path):
    """Objects of a registered class."""
    def take(value):
        if not isinstance(value, torch._classes.ScriptObject) or value._path != path:
            raise _unable(value)
        return value
    return take


_to_bool = _through(bool, "__bool__")
_TAKE = {"Tensor": _tensor, "int": _through(int, "__int__", float), "SymInt": _through(int, "__int__", float), "float": _through(float, "__float__"), "bool": _bool,
         "str": _one_of(str), "Scalar": _number, "ScalarType": _one_of(torch.dtype, int), "Layout": _one_of(torch.layout, int),
         "MemoryFormat": _one_of(torch.memory_format, int), "Device": _device, "Generator": _one_of(torch.Generator)}


@functools.cache
def converter(kind, size=None):
    """A function from a value to one of this type, which raises Refused. Types of which nothing is known take everything."""
    text = str(kind)
    if text.endswith("?"):
        inner = converter(text[:-1], size)
        return lambda value: None if value is None else inner(value)
    if not re.fullmatch(r"[\w.]+\??\[\d*\]", text):
        return _object(text) if torch._classes.find(text) else _TAKE.get(text, lambda value: value)
    each = converter(text[:text.rindex("[")])

    def take(value):
        if size is not None and not hasattr(value, "__len__"):     # int[2]: one number stands for two
            return [each(value)] * size
        if not hasattr(value, "__len__") or isinstance(value, (torch.Tensor, str)):
            raise _unable(value)
        try:
            return [each(x) for x in value]
        except Refused as why:
            raise why if "Tensor?" in text else _unable(value) from None
    return take
