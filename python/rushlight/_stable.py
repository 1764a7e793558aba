"""PyTorch's stable C symbols: shared objects of the names that extensions and compiled programs were linked against."""
import ctypes
import os

_loaded = []


def load():
    """Makes libtorch_cpu.so and its companions part of the process, where what is loaded next finds them by name."""
    from rushlight.utils.cpp_extension import library_paths
    if _loaded:
        return
    for top in library_paths():
        for folder in (os.path.join(top, "stable"), top):
            paths = [os.path.join(folder, "lib%s.so" % name) for name in ("torch_cpu", "c10", "torch", "torch_python")]
            if all(map(os.path.exists, paths)):
                _loaded.extend(ctypes.CDLL(path, ctypes.RTLD_GLOBAL) for path in paths)
                return
