"""torch.backends.opt_einsum: the order of products in einsum."""
import contextlib
import sys

from rushlight.backends import FreeProp, PropModule, _state, switch

_found = None


def is_available():
    """Whether the opt_einsum package is installed."""
    global _found
    if _found is None:
        import importlib.util
        _found = importlib.util.find_spec("opt_einsum") is not None
    return _found


def get_opt_einsum():
    if not is_available():
        return None
    import opt_einsum
    return opt_einsum


def _set_enabled(_enabled):
    if not is_available() and _enabled:
        raise ValueError("opt_einsum is not available, so setting `enabled` to True will not reap the benefits of "
                         "calculating an optimal path for einsum.")
    _state["opt_einsum.enabled"] = _enabled


def set_flags(_enabled=None, _strategy=None):
    before = (_state["opt_einsum.enabled"], _state["opt_einsum.strategy"])
    if _enabled is not None:
        _set_enabled(_enabled)
    if _strategy is not None:
        if _strategy not in ("auto", "greedy", "optimal"):
            raise ValueError("`strategy` must be one of the following: [auto, greedy, optimal] but is %s" % _strategy)
        _state["opt_einsum.strategy"] = _strategy
    return before


@contextlib.contextmanager
def flags(enabled=None, strategy=None):
    before = set_flags(enabled, strategy)
    try:
        yield
    finally:
        set_flags(*before)


class OptEinsumModule(PropModule):
    enabled = switch("opt_einsum.enabled", is_available(), FreeProp)
    strategy = switch("opt_einsum.strategy", "auto" if is_available() else None, FreeProp)


_module = OptEinsumModule(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
