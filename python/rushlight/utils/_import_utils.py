"""Questions about optional modules."""
import functools
import importlib.util


def _check_module_exists(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


@functools.lru_cache(None)
def dill_available():
    return _check_module_exists("dill")


@functools.lru_cache(None)
def import_dill():
    if not dill_available():
        return None
    import dill
    return dill
