"""Backends by name: functions of (GraphModule, example inputs) that return what runs in the graph's place."""
import functools
import importlib.metadata

from ..exc import InvalidBackend

_backends, _tags = {}, {}


def register_backend(compiler_fn=None, name=None, tags=()):
    """Gives a backend a name (its own, if none is given). A decorator when called without a function."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError("compiler_fn must be callable, but %s is not" % (compiler_fn,))
    name = name or compiler_fn.__name__
    if name in _backends:
        raise AssertionError("duplicate name: %s" % name)
    _backends[name], _tags[name] = compiler_fn, frozenset(tags)
    return compiler_fn


register_debug_backend = functools.partial(register_backend, tags=("debug",))
register_experimental_backend = functools.partial(register_backend, tags=("experimental",))


@functools.lru_cache(None)
def _installed():
    """Backends that packages bring: entry points of the group torch_dynamo_backends."""
    points = importlib.metadata.entry_points()
    found = points.select(group="torch_dynamo_backends") if hasattr(points, "select") else points.get("torch_dynamo_backends", ())
    return {point.name: point for point in found}


def lookup_backend(compiler_fn):
    """The function of a backend that is given by its name; functions are themselves."""
    if not isinstance(compiler_fn, str):
        return compiler_fn
    from . import debugging, inductor  # noqa: F401
    if compiler_fn not in _backends:
        if compiler_fn not in _installed():
            raise InvalidBackend(compiler_fn)
        register_backend(_installed()[compiler_fn].load(), name=compiler_fn)
    return _backends[compiler_fn]


def list_backends(exclude_tags=("debug", "experimental")):
    """Names that torch.compile takes; without tags to exclude those for looking for errors, too."""
    from . import debugging, inductor  # noqa: F401
    hidden = set(exclude_tags or ())
    return sorted(name for name in {*_backends, *_installed()} if not hidden & _tags.get(name, frozenset()))
