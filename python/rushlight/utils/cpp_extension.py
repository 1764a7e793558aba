"""Extensions: C files against rushlight.h are compiled and loaded here under PyTorch's names for that.

C++ extensions of PyTorch need libtorch (its headers and libraries), which rushlight has not: those say so.
A C file either registers operators (register_operations; is_python_module=False) or is a CPython module.
"""
import os
import shutil
import subprocess
import sys
import sysconfig

CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
if CUDA_HOME is None and shutil.which("nvcc"):
    CUDA_HOME = os.path.dirname(os.path.dirname(shutil.which("nvcc")))
ROCM_HOME = None
ROCM_VERSION = None
SYCL_HOME = None
IS_HIP_EXTENSION = False
CUDNN_HOME = None
EXEC_EXT = ""
LIB_EXT = ".so"
COMMON_NVCC_FLAGS = []

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_WHY = ("C++ extensions of PyTorch need libtorch (its headers and libraries), which rushlight does not have; "
        "write the extension in C against rushlight.h, or run without its compiled part")


def _build_folder():
    """Of a source tree: where its extension, which python/rushlight links to, was built."""
    from rushlight import _C
    return os.path.dirname(os.path.dirname(os.path.realpath(_C.__file__)))


def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folders of rushlight.h and of the headers that it includes."""
    installed = os.path.join(_PACKAGE, "include")
    if os.path.isdir(installed):
        return [installed]
    return [os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "include"), os.path.join(_build_folder(), "include")]


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """The folder of librushlight.so."""
    installed = os.path.join(_PACKAGE, "lib")
    return [installed if os.path.isdir(installed) else _build_folder()]


TORCH_LIB_PATH = os.path.join(_PACKAGE, "lib")


def _refuse(what):
    raise RuntimeError("torch.utils.cpp_extension.%s: %s" % (what, _WHY))


def _all_c(sources):
    return all(str(source).endswith(".c") for source in sources)


def flags():
    """What a C compiler takes to build against the library."""
    lib = library_paths()[0]
    return ["-I" + folder for folder in include_paths()] + ["-L" + lib, "-Wl,-rpath," + lib, "-lrushlight"]


def load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
         extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
         is_python_module=True, is_standalone=False, keep_intermediates=True):
    """Compile C files and load the result: a module, or (is_python_module=False) a library of operators."""
    sources = [sources] if isinstance(sources, str) else list(sources)
    if not _all_c(sources) or with_cuda or with_sycl or is_standalone:
        _refuse("load(%r)" % name)
    folder = build_directory or os.path.join(get_default_build_root(), "py%d%d" % sys.version_info[:2], name)
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(folder, name + LIB_EXT)
    newest = max(os.path.getmtime(source) for source in sources)
    if not os.path.exists(target) or os.path.getmtime(target) < newest:
        fresh = "%s.%d" % (target, os.getpid())     # another process may be loading the old one
        command = [get_c_compiler(), "-shared", "-fPIC", "-O2"] + [os.path.abspath(s) for s in sources] + list(extra_cflags or [])
        command += ["-I" + path for path in [sysconfig.get_path("include")] + list(extra_include_paths or [])]
        command += flags() + list(extra_ldflags or []) + ["-lm", "-o", fresh]
        done = subprocess.run(command, capture_output=not verbose, text=True)
        if done.returncode:
            raise RuntimeError("Error building extension '%s': %s" % (name, done.stderr or ""))
        os.replace(fresh, target)
    if not is_python_module:
        from rushlight._ops import ops
        ops.load_library(target)
        return target
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_inline(name, cpp_sources, *args, **kwargs):
    _refuse("load_inline(%r)" % name)


def CppExtension(name, sources, *args, **kwargs):
    """A setuptools.Extension of C files; C++ is refused."""
    if not _all_c(sources):
        _refuse("CppExtension(%r)" % name)
    import setuptools
    for key, paths in (("include_dirs", include_paths()), ("library_dirs", library_paths()),
                       ("runtime_library_dirs", library_paths()), ("libraries", ["rushlight"])):
        kwargs[key] = list(kwargs.get(key) or []) + paths
    return setuptools.Extension(name, sources, *args, **kwargs)


def CUDAExtension(name, sources, *args, **kwargs):
    _refuse("CUDAExtension(%r)" % name)


def SyclExtension(name, sources, *args, **kwargs):
    _refuse("SyclExtension(%r)" % name)


def _plain_build_ext():
    from setuptools.command.build_ext import build_ext
    return build_ext


class BuildExtension:
    """The build_ext command of setup scripts: setuptools' own, which is all that C takes."""

    def __new__(cls, *args, **kwargs):
        return _plain_build_ext()(*args, **{k: v for k, v in kwargs.items() if k not in ("use_ninja", "no_python_abi_suffix")})

    @classmethod
    def with_options(cls, **options):
        return _plain_build_ext()


def is_ninja_available():
    return shutil.which("ninja") is not None


def verify_ninja_availability():
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja to get it)")


def get_default_build_root():
    """Where load() builds: TORCH_EXTENSIONS_DIR, or a folder of the user's."""
    chosen = os.environ.get("TORCH_EXTENSIONS_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return chosen or os.path.join(cache, "rushlight_extensions")


def get_c_compiler():
    return os.environ.get("CC", "cc").split()[-1]


def get_cxx_compiler():
    return os.environ.get("CXX", "c++")


def check_compiler_ok_for_platform(compiler):
    return shutil.which(compiler) is not None


def get_compiler_abi_compatibility_and_version(compiler):
    from rushlight.torch_version import TorchVersion
    return shutil.which(compiler) is not None, TorchVersion("0.0.0")
