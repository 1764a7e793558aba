"""rushlight: a small drop-in for PyTorch.

The extension rushlight._C does the work; the modules here give it PyTorch's names.  Submodules are imported when
they are first looked at, so that `import rushlight` stays fast.
"""
import importlib as _importlib

_SUBMODULES = frozenset((
    "accelerator", "amp", "ao", "as_torch", "autograd", "backends", "compiler", "cpu", "cuda", "distributed",
    "distributions", "export", "fft", "func", "functional", "futures", "fx", "hub", "jit", "library", "linalg",
    "masked", "monitor", "mps", "mtia", "multiprocessing", "nested", "nn", "numa", "onnx", "optim", "overrides",
    "package", "profiler", "quantization", "quasirandom", "random", "return_types", "serialization", "signal",
    "sparse", "special", "storage", "testing", "torch_version", "types", "utils", "version", "xpu", "_classes",
    "_compile", "_custom_ops", "_decomp", "_dynamo", "_export", "_functorch", "_guards", "_higher_order_ops",
    "_inductor", "_jit_internal", "_library", "_lowrank", "_ops", "_prims", "_prims_common", "_refs", "_subclasses",
    "_tensor", "_tensor_str", "_utils", "_utils_internal", "_VF", "_weights_only_unpickler", "__config__",
    "__future__",
))


def __getattr__(name):
    if name in _SUBMODULES:
        return _importlib.import_module("rushlight." + name)
    raise AttributeError("module 'torch' has no attribute '%s'" % name)
