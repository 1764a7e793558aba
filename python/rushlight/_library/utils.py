"""Shared by operators written in Python."""
from rushlight._library.schema import parse_schema  # noqa: F401


def parse_namespace(qualname):
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError("Expected `qualname` to be of the form \"namespace::name\", but got %s. The qualname passed to the "
                         "torch.library APIs must consist of a namespace and a name, e.g. aten::sin" % qualname)
    return parts[0], parts[1]


def is_functional_schema(schema):
    return not schema.is_mutable
