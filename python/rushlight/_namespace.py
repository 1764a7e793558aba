"""What the package's namespace holds.

What is a function of an operation is there from the start; modules, and functions written in Python, are imported
when they are first looked at, so that the import stays fast.
"""
import importlib
import math
import operator
import warnings

import rushlight
from rushlight import _C, _modules, _stable

names = vars(rushlight)


def _c_name(name):
    """What torch._C has of plain Python."""
    from rushlight import _C_names
    try:
        return getattr(_C_names, name)
    except AttributeError:
        raise AttributeError("module 'torch._C' has no attribute '%s'" % name) from None


_C.__getattr__ = _c_name
vars(_C).update(has_lapack=True, has_openmp=True, has_spectral=True, has_mkl=False)
_C._nn.__getattr__ = lambda name: _absent.of_module("_C._nn", name)
_C.__path__ = []     # its parts can be imported under their dotted names
names.update({name: value for name, value in vars(_C).items() if not name.startswith("_")})
names.update(_C._dtypes, _C=_C, torch=rushlight)
names.update({name: f for name, f in vars(_C._VariableFunctions).items() if not name.startswith("__")})

from rushlight._tensor import Tensor  # noqa: E402

names["Tensor"] = Tensor
from rushlight import _absent  # noqa: E402

_absent.fill(Tensor)
from rushlight import _basics  # noqa: E402
from rushlight.version import __version__  # noqa: E402

names.update({name: getattr(_basics, name) for name in _basics.__all__}, __version__=__version__)
names.update(e=math.e, pi=math.pi, inf=math.inf, nan=math.nan, newaxis=None, legacy_contiguous_format=_C.contiguous_format)

_SUBMODULES = frozenset((
    "accelerator", "amp", "ao", "as_torch", "audio", "autograd", "backends", "compiler", "cpu", "cuda", "distributed",
    "distributions", "export", "fft", "func", "functional", "futures", "fx", "hub", "jit", "library", "linalg",
    "masked", "monitor", "mps", "mtia", "multiprocessing", "nested", "nn", "numa", "onnx", "optim", "overrides",
    "package", "profiler", "quantization", "quasirandom", "random", "return_types", "serialization", "signal",
    "sparse", "special", "storage", "testing", "torch_version", "types", "utils", "version", "vision", "xpu", "_classes",
    "_compile", "_custom_ops", "_lobpcg", "_decomp", "_dynamo", "_export", "_functorch", "_guards", "_higher_order_ops",
    "_inductor", "_jit_internal", "_library", "_logging", "_lowrank", "_ops", "_prims",
    "_prims_common", "_refs", "_subclasses", "_tensor", "_tensor_str", "_utils", "_utils_internal", "_VF",
    "_weights_only_unpickler", "__config__", "__future__",
))

# Names that live in modules of their own: module -> names.
_ELSEWHERE = {
    "functional": "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
                  "cartesian_prod cdist chain_matmul einsum istft lu meshgrid norm split stft tensordot unique "
                  "unique_consecutive unravel_index",
    "random": "get_rng_state initial_seed manual_seed seed set_rng_state thread_safe_generator",
    "serialization": "load save PyTorchFileReader",
    "_tensor_str": "set_printoptions",
    "_C_names": "DispatchKey DispatchKeySet LockingLogger LoggerBase NoopLogger Tag AnyType AwaitType Block BoolType ClassType ComplexType DeviceObjType DictType FloatType "
                "FutureType Graph IntType ListType Node NoneType NumberType OptionalType PyObjectType RRefType "
                "StreamObjType StringType SymBoolType SymIntType TensorType TracingState TupleType Type UnionType Use "
                "Value",
    "storage": "TypedStorage UntypedStorage BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage "
               "ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage QInt32Storage "
               "QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage ShortStorage",
    "_utils": "classproperty",
    "_quantized_ops": "quantized_lstm quantized_gru",
    "_lobpcg": "lobpcg",
    "_lowrank": "pca_lowrank svd_lowrank",
    "futures": "Future",
    "_summary": "summary",
    "monitor": "set_vital read_vitals",
    "_streams": "Stream Event",
    "_basics": "_shape_as_tensor",
    "func": "vmap",
    "utils.dlpack": "from_dlpack to_dlpack",
    "amp": "autocast GradScaler",
    "_higher_order_ops": "cond while_loop",
    "_compile": "_disable_dynamo",
    "compiler": "compile",
    "jit": "fork wait CompilationUnit ScriptFunction ScriptModule",
    "jit._loaded": "ScriptMethod ScriptObject",
    "_sobol": "_sobol_engine_draw _sobol_engine_ff_ _sobol_engine_initialize_state_ _sobol_engine_scramble_",
    "nested._internal.strided": "_nested_compute_contiguous_strides_offsets _nested_from_padded _nested_tensor_from_mask "
                                "_nested_tensor_from_mask_left_aligned _nested_tensor_from_tensor_list _nested_view_from_buffer "
                                "_nested_view_from_buffer_copy",
    "sparse._construct": "hsmm sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor "
                         "sparse_bsr_tensor sparse_bsc_tensor spmm dsmm saddmm",
}
_ELSEWHERE = {name: module for module, words in _ELSEWHERE.items() for name in words.split()}
_TENSOR_TYPES = frozenset(dtype._word + "Tensor" for dtype in _C._dtypes.values()
                          if dtype._storage and not dtype.is_complex and not dtype._word.startswith("Q"))
_BACKENDS = {"has_cuda": "cuda.is_built", "has_cudnn": "cudnn.is_available", "has_mps": "mps.is_built", "has_mkldnn": "mkldnn.is_available"}

for name in _ELSEWHERE:
    names.pop(name, None)  # written in Python over the operation of that name


def __getattr__(name):
    if name in _SUBMODULES:
        try:
            return importlib.import_module("rushlight." + name)
        except ModuleNotFoundError as error:
            if error.name != "rushlight." + name:
                raise
            raise AttributeError("torch.%s is not part of this build of rushlight" % name) from None
    if name in _ELSEWHERE:
        try:
            value = getattr(importlib.import_module("rushlight." + _ELSEWHERE[name]), name)
        except (ModuleNotFoundError, AttributeError):
            value = getattr(_C._VariableFunctions, name)
    elif name in _TENSOR_TYPES:
        value = _C._make_tensortype("torch." + name)
    elif name in ("ops", "classes"):
        value = getattr(importlib.import_module("rushlight._ops" if name == "ops" else "rushlight._classes"), name)
    elif name == "Storage":  # of the default dtype, whatever that is at the moment
        return getattr(importlib.import_module("rushlight.storage"), _C.get_default_dtype()._storage)
    elif name in _BACKENDS:
        warnings.warn("'%s' is deprecated, please use 'torch.backends.%s()'" % (name, _BACKENDS[name]), stacklevel=2)
        return operator.attrgetter(_BACKENDS[name])(rushlight.backends)()
    elif name == "default_generator":
        value = _C.default_generator
    elif name in ("PyTorchFileReader", "PyTorchFileWriter"):
        value = getattr(_C, name)
    elif name in vars(_C) and not name.startswith("__"):
        value = getattr(_C, name)
    else:
        value = _absent.of_torch(name)
        if value is None:
            raise AttributeError("module 'torch' has no attribute '%s'" % name)
    names[name] = value
    return value


def __dir__():
    return sorted(set(names) | _SUBMODULES | set(_ELSEWHERE) | _TENSOR_TYPES | {"ops", "classes"})


names.update(__getattr__=__getattr__, __dir__=__dir__)
