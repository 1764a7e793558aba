"""Symbolic sizes: sizes are always numbers here, but for those that follow from data while a program is exported (export/_symbols.py)."""

__all__ = ["GuardOnDataDependentSymNode", "free_symbols", "free_unbacked_symbols", "guard_size_oblivious",
           "statically_known_true", "guard_or_false", "guard_or_true", "definitely_true", "is_symbolic", "ShapeEnv", "DimDynamic"]


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision on a size that is not known."""


def free_symbols(val):
    return set()


def free_unbacked_symbols(val):
    return set()


def has_free_symbols(val):
    return False


def is_symbolic(val):
    return False


def _decided(x):
    """True, False, or None: it follows from data."""
    return x.decided() if hasattr(x, "decided") else bool(x)


def statically_known_true(x):
    return _decided(x) is True


guard_size_oblivious = guard_or_false = definitely_true = sym_and = statically_known_true


def guard_or_true(x):
    return _decided(x) is not False


def definitely_false(x):
    return _decided(x) is False


def guard_int(x):
    return int(x)


def guard_float(x):
    return float(x)


def guard_bool(x):
    return bool(x)


def guard_scalar(x):
    return x


def has_hint(x):
    return True


def hint_int(x, fallback=None):
    return int(x)


def is_concrete_int(x):
    return isinstance(x, int)


def sym_eq(a, b):
    return a == b


def constrain_range(a, *, min, max=None):
    if a < min or (max is not None and a > max):
        raise ValueError("%s is not in the range [%s, %s]" % (a, min, max))


def constrain_unify(a, b):
    if a != b:
        raise ValueError("%s and %s differ" % (a, b))


class ShapeEnv:
    def __init__(self, *args, **kwargs):
        self.args = args


class DimDynamic:
    DYNAMIC, DUCK, STATIC = 0, 1, 2
