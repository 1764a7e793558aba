"""Names for building C++ extensions of PyTorch. They need libtorch's headers and libraries, which rushlight has not;
C extensions of rushlight are written against rushlight.h instead."""
import os
import shutil

CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
if CUDA_HOME is None and shutil.which("nvcc"):
    CUDA_HOME = os.path.dirname(os.path.dirname(shutil.which("nvcc")))
ROCM_HOME = None
ROCM_VERSION = None
SYCL_HOME = None
IS_HIP_EXTENSION = False
CUDNN_HOME = None
TORCH_LIB_PATH = os.path.join(os.path.dirname(os.path.dirname(__file__)), "lib")
EXEC_EXT = ""
LIB_EXT = ".so"
COMMON_NVCC_FLAGS = []

_WHY = ("C++ extensions of PyTorch need libtorch (its headers and libraries), which rushlight does not have; "
        "write the extension in C against rushlight.h, or run without its compiled part")


def _refuse(what):
    raise RuntimeError("torch.utils.cpp_extension.%s: %s" % (what, _WHY))


def load(name, sources, *args, **kwargs):
    _refuse("load(%r)" % name)


def load_inline(name, cpp_sources, *args, **kwargs):
    _refuse("load_inline(%r)" % name)


def CppExtension(name, sources, *args, **kwargs):
    _refuse("CppExtension(%r)" % name)


def CUDAExtension(name, sources, *args, **kwargs):
    _refuse("CUDAExtension(%r)" % name)


def SyclExtension(name, sources, *args, **kwargs):
    _refuse("SyclExtension(%r)" % name)


class BuildExtension:
    """The build_ext command of setup scripts."""

    @classmethod
    def with_options(cls, **options):
        return cls

    def __init__(self, *args, **kwargs):
        _refuse("BuildExtension")


def include_paths(device_type="cpu", torch_include_dirs=True):
    return []


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    return []


def is_ninja_available():
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def get_default_build_root():
    import tempfile
    return os.path.join(tempfile.gettempdir(), "torch_extensions")


def get_cxx_compiler():
    return os.environ.get("CXX", "c++")


def check_compiler_ok_for_platform(compiler):
    return shutil.which(compiler) is not None


def get_compiler_abi_compatibility_and_version(compiler):
    from rushlight.torch_version import TorchVersion
    return shutil.which(compiler) is not None, TorchVersion("0.0.0")
