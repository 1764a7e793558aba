"""PyTorch's stable C symbols: shared objects of the names that extensions and compiled programs were linked against."""
import importlib.machinery
import os

_NAMES = ["libtorch_cpu.so", "libc10.so", "libtorch.so", "libtorch_python.so"]
ONLY = "rushlight loads shared objects that were compiled against its own headers or PyTorch's stable ones, not against the rest of libtorch"
_loaded = []
_create_module = importlib.machinery.ExtensionFileLoader.create_module


def load():
    """Makes libtorch_cpu.so and its companions part of the process, where what is loaded next finds them by name."""
    import ctypes
    from rushlight.utils.cpp_extension import library_paths
    if _loaded:
        return
    for top in library_paths():
        for folder in (os.path.join(top, "stable"), top):
            paths = [os.path.join(folder, name) for name in _NAMES]
            if all(map(os.path.exists, paths)):
                _loaded.extend(ctypes.CDLL(path, ctypes.RTLD_GLOBAL) for path in paths)
                return


def _created(self, spec):
    """What imports a package's `_C`: the first that names one of the libraries makes them part of the process, so that no other program pays for them."""
    try:
        return _create_module(self, spec)
    except ImportError as error:
        if _loaded and "undefined symbol" in error.msg:
            raise ImportError("%s (%s: build this one from its source)" % (error.msg, ONLY), name=error.name, path=error.path) from None
        if _loaded or error.msg.partition(":")[0] not in _NAMES:
            raise
        load()
        if not _loaded:
            raise
    return _created(self, spec)


importlib.machinery.ExtensionFileLoader.create_module = _created
