"""Small functions of the main namespace: what is a tensor, defaults, determinism, symbolic numbers, checks."""
import math
import os
import sys
import warnings

from rushlight import _C
from rushlight._tensor import Tensor

__all__ = ["typename", "is_tensor", "is_storage", "get_default_device", "set_default_device", "set_default_dtype",
           "set_default_tensor_type", "use_deterministic_algorithms", "are_deterministic_algorithms_enabled",
           "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode",
           "get_deterministic_debug_mode", "get_float32_matmul_precision", "set_float32_matmul_precision",
           "set_warn_always", "is_warn_always_enabled", "set_flush_denormal", "compiled_with_cxx11_abi",
           "get_device_module", "_register_device_module", "is_autocast_cpu_enabled", "get_autocast_cpu_dtype", "get_autocast_gpu_dtype",
           "set_autocast_cpu_enabled", "set_autocast_cpu_dtype", "set_autocast_gpu_dtype", "SymInt", "SymFloat",
           "SymBool", "sym_constrain_range", "sym_constrain_range_for_size", "sym_fresh_size", "cudnn_is_acceptable", "sym_int", "sym_float", "sym_not", "sym_max", "sym_min", "sym_sqrt", "sym_ite", "sym_sum",
           "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with", "_assert_async",
           "_check_type",
           "_check_value", "_check_with", "_assert", "_is_functional_tensor", "_is_device_backend_autoload_enabled", "_sync", "_has_compatible_shallow_copy_type", "AcceleratorError", "_cast_Byte", "_cast_Char", "_cast_Short", "_cast_Int", "_cast_Long",
           "_cast_Half", "_cast_Float", "_cast_Double"]


def _cast(name, dtype):
    def cast(input, non_blocking=False):
        return input.to(dtype, non_blocking)
    cast.__name__ = cast.__qualname__ = name
    return cast


for _name, _dtype in (("Byte", "uint8"), ("Char", "int8"), ("Short", "int16"), ("Int", "int32"), ("Long", "int64"), ("Half", "float16"),
                      ("Float", "float32"), ("Double", "float64")):
    globals()["_cast_" + _name] = _cast("_cast_" + _name, _C._dtypes[_dtype])


class AcceleratorError(RuntimeError):
    """Raised when something fails on an accelerator."""
    __module__ = "rushlight"



def typename(obj, /):
    """The name of an object's type, with its module; of a tensor what type() says."""
    if isinstance(obj, Tensor):
        return obj.type()
    cls = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(cls, "__module__", None) or ""
    name = getattr(cls, "__qualname__", type(obj).__name__)
    return name if module in ("", "builtins") else module + "." + name


def _signature(parameters):
    """An inspect.Signature of a parameter list as text."""
    import inspect
    import rushlight
    plain = parameters.replace("from=", "from_=")       # a word of Python's: uniform_(from=0, to=1)
    try:
        return inspect.signature(eval("lambda %s: None" % plain, {"torch": rushlight}))
    except SyntaxError:
        raise AttributeError("__signature__") from None     # a description that is no parameter list: f(dim) or f(sizes)


def is_tensor(obj, /):
    """Is the object a Tensor?"""
    return isinstance(obj, Tensor)


def is_storage(obj, /):
    """Is the object a storage?"""
    import rushlight.storage as storage
    return isinstance(obj, (storage.UntypedStorage, storage.TypedStorage))


def get_default_device():
    """The device that factories use."""
    return _C._default_device()


def set_default_device(device):
    """Set the device that factories use; None goes back to the CPU."""
    _C._set_default_device(device)


def set_default_dtype(d, /):
    """Set the dtype of floating point tensors that are made without saying one."""
    _C._set_default_dtype(d)


def set_default_tensor_type(t, /):
    """Of old: set dtype and device by a tensor type such as torch.DoubleTensor."""
    warnings.warn("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and torch.set_default_device() as "
                  "alternatives.", stacklevel=2)
    if isinstance(t, str):
        t = _C._make_tensortype(t)
    if not hasattr(t, "dtype"):
        raise TypeError("invalid type object")
    _C._set_default_dtype(t.dtype)


# ---- determinism: everything here is deterministic but for some sums of cuDNN's, which then choose others; the settings are kept for those who ask

_deterministic = {"mode": False, "warn_only": False, "fill": True}


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Ask for deterministic operations; all operations of this library are."""
    for name, x in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(x, bool):
            raise TypeError("_set_deterministic_algorithms(): argument '%s'%s must be bool, not %s" % (name, " (position 1)" * (name == "mode"), type(x).__name__))
    _deterministic.update(mode=mode, warn_only=warn_only)
    _C._cuda_switch("deterministic", _deterministic["mode"])
    _C._fresh_filled(mode and _deterministic["fill"])


def _fill_uninitialized_memory(mode):
    """Whether deterministic algorithms include that new memory is filled with a known value."""
    if not isinstance(mode, bool):
        raise RuntimeError("expected a bool, but got %s" % type(mode).__name__)
    _deterministic["fill"] = mode
    _C._fresh_filled(mode and _deterministic["mode"])


def are_deterministic_algorithms_enabled():
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled():
    return _deterministic["warn_only"]


def set_deterministic_debug_mode(debug_mode):
    """0 or "default", 1 or "warn", 2 or "error"."""
    levels = {"default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, (str, int)):
        raise TypeError("debug_mode must be str or int, but got %s" % type(debug_mode))
    level = levels.get(debug_mode, debug_mode)
    if level not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected %s, but got %s" % ("one of " + ", ".join("`%s`" % word for word in levels) if isinstance(debug_mode, str) else "0, 1, or 2", debug_mode))
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode():
    return 0 if not _deterministic["mode"] else 1 if _deterministic["warn_only"] else 2


_settings = {"matmul": "highest", "matmul_on_cuda": "none", "warn_always": False}


def get_float32_matmul_precision():
    return _settings["matmul"]


def set_float32_matmul_precision(precision):
    """"highest", or "high" or "medium", where products of a CUDA device may be of TF32; elsewhere they are computed in float32 in any case."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn("%s is not one of 'highest', 'high', or 'medium'; the current setting is left as it is" % (precision,))
        return
    _settings["matmul"] = precision
    _settings["matmul_on_cuda"] = "ieee" if precision == "highest" else "tf32"
    _C._cuda_switch("product_tf32", precision != "highest")


def set_warn_always(b, /):
    if not isinstance(b, bool):
        raise RuntimeError("setWarnOnlyOnce expects a bool, but got %s" % type(b).__name__)
    _settings["warn_always"] = b
    _C._warn_always(_settings["warn_always"])


def is_warn_always_enabled():
    return _settings["warn_always"]


def set_flush_denormal(mode):
    """Shall this thread's denormal results become 0?  Returns whether the processor can do that."""
    return _C._set_flush_denormal(mode)


def _is_device_backend_autoload_enabled():
    """Would extensions for other devices be loaded by themselves?  TORCH_DEVICE_BACKEND_AUTOLOAD=0 forbids it."""
    return os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1"


def compiled_with_cxx11_abi():
    return True


def get_device_module(device=None):
    """The module of a device type: torch.cpu, torch.cuda, ..."""
    import importlib
    kind = _C.device(device).type if device is not None else (_C._device_accelerator() or _C.device("cpu")).type
    return importlib.import_module("rushlight." + kind)


def is_autocast_cpu_enabled():
    return _C.is_autocast_enabled("cpu")


def get_autocast_cpu_dtype():
    return _C.get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    return _C.get_autocast_dtype("cuda")


def set_autocast_cpu_enabled(enabled):
    _C.set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype):
    _C.set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype):
    _C.set_autocast_dtype("cuda", dtype)


# ---- symbolic numbers: code that is ready for them gets plain numbers, but for the sizes of ragged dimensions and in exports

class SymInt:
    """The size of a ragged dimension of a nested tensor (torch.nested), or what follows from data while a program is exported; all others are plain ints."""

    __slots__ = ()


class SymFloat:
    """A number that follows from data, while a program is exported; all others are plain floats."""

    __slots__ = ()


class SymBool:
    """What is said of such a number; other truth values are plain bools."""


def sym_int(a):
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a):
    return float(a)


def sym_not(a):
    return not a


def sym_constrain_range(size, *, min=None, max=None):
    """Says that size lies between min and max, and finds out whether it does."""
    low, high = -2**63 if min is None else min, 2**63 - 1 if max is None else max
    if low > high:
        raise RuntimeError("max must be greater than or equal to min, got min=%d max=%d" % (low, high))
    if isinstance(size, SymInt):
        _check(size >= low)
        return _check(size <= high) if max is not None else None
    if not low <= size <= high:
        raise RuntimeError("Invalid value range for %d between [%d, %d]." % (size, low, high))


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """The same of a number that is to be a size."""
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def sym_fresh_size(expr):
    return expr


def cudnn_is_acceptable(tensor):
    """Would cuDNN take it, if it is there?"""
    from rushlight.backends import cudnn
    return cudnn.is_acceptable(tensor)


def sym_max(a, b):
    return max(a, b)


def sym_min(a, b):
    return min(a, b)


def sym_sqrt(a):
    return math.sqrt(a)


def sym_ite(b, t, f):
    return t if b else f


def sym_sum(args):
    return sum(args)


# ---- checks that raise with a message made only when it is needed

def _check_with(error_type, cond, message=None):
    if not isinstance(cond, (bool, SymBool)):
        raise TypeError("cond must be a bool, but got " + ("a Tensor. For tensor conditions, use torch._check_tensor_all()" if isinstance(cond, Tensor) else str(type(cond))))
    if not (cond.assume() if isinstance(cond, SymBool) else cond):
        if message is not None and not callable(message):
            raise TypeError("message must be a callable")
        raise error_type("Expected cond to be True, but got False. (Could this error message be improved? If so, please "
                         "report an enhancement request to PyTorch.)" if message is None else str(message()))


def _check(cond, message=None):
    _check_with(RuntimeError, cond, message)


def _check_index(cond, message=None):
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type, cond, message=None):
    if not isinstance(cond, Tensor):
        raise TypeError("cond must be a tensor, but got %s" % type(cond))
    if cond.dtype != _C._dtypes["bool"]:
        raise TypeError("cond tensor must have dtype torch.bool, but got %s" % cond.dtype)
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond, message=None):
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input, assert_msg=None):
    """Raises unless the only element is not zero."""
    import rushlight as torch
    return torch.ops.aten._assert_async(input) if assert_msg is None else torch.ops.aten._assert_async(input, assert_msg)


def _check_is_size(i, message=None, *, max=None):
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _assert(condition, message):
    """Like assert, as a function."""
    if type(condition) is not Tensor and type(condition) is not bool and _C._has_torch_function((condition,)):
        return _C._handle_torch_function(_assert, (condition,), condition, message)
    if not condition:
        raise AssertionError(message)


def _is_functional_tensor(t):
    return False


def _shape_as_tensor(self):
    """The sizes of a tensor as a tensor."""
    import rushlight as torch
    return torch.tensor(list(self.shape), dtype=torch.int64)


def _sync(t):
    """Of functionalisation, which is not there: nothing to do."""


def _has_compatible_shallow_copy_type(tensor, other):
    """Can tensor.data = other keep the tensor object? When both are of one kind of device and layout."""
    return tensor.layout == other.layout and tensor.device.type == other.device.type


def _register_device_module(device_type, module):
    """Make a module torch.NAME, for a kind of device."""
    import rushlight as torch
    kind = torch.device(device_type).type
    if kind in vars(torch):
        raise RuntimeError("The runtime module of '%s' has already been registered with '%s'" % (kind, getattr(torch, kind)))
    setattr(torch, kind, module)
    sys.modules["rushlight." + kind] = module
