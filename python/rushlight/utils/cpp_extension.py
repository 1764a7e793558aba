"""Extensions in C and C++: compiled against the library's headers, loaded here or built by a setup script.

C++ sources see PyTorch's headers (torch/extension.h, ATen/ATen.h, ...), which here are thin ones over rushlight.h. A C file either
registers operators (register_operations; is_python_module=False) or is a CPython module. CUDA's files (.cu) are compiled by nvcc; where devices
are emulated (RUSHLIGHT_CUDA=emulated) by the C++ compiler, whose launches are calls then.
"""
import concurrent.futures
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig

CUDA_HOME = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
if CUDA_HOME is None and shutil.which("nvcc"):
    CUDA_HOME = os.path.dirname(os.path.dirname(shutil.which("nvcc")))
if CUDA_HOME is None and os.path.exists("/usr/local/cuda/bin/nvcc"):
    CUDA_HOME = "/usr/local/cuda"
ROCM_HOME = None
ROCM_VERSION = None
SYCL_HOME = None
IS_HIP_EXTENSION = False
CUDNN_HOME = None
EXEC_EXT = ""
LIB_EXT = ".so"
COMMON_NVCC_FLAGS = []

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_WHY = "extensions with SYCL sources need a compiler and a backend for such a device, which rushlight does not have"


def _build_folder():
    """Of a source tree: where its extension, which python/rushlight links to, was built."""
    from rushlight import _C
    return os.path.dirname(os.path.dirname(os.path.realpath(_C.__file__)))


def include_paths(device_type="cpu", torch_include_dirs=True):
    """The folders of rushlight.h, of PyTorch's C++ headers and, where that package is installed, of pybind11."""
    installed = os.path.join(_PACKAGE, "include")
    tops = [installed] if os.path.isdir(installed) else \
        [os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "include"), os.path.join(_build_folder(), "include")]
    paths = [path for top in tops for path in (top, os.path.join(top, "rushlight", "cpp"))]
    found = importlib.util.find_spec("pybind11")
    if found is not None and found.submodule_search_locations:
        paths.append(os.path.join(found.submodule_search_locations[0], "include"))
    return paths


def library_paths(device_type="cpu", torch_include_dirs=True, cross_target_platform=None):
    """The folder of librushlight.so."""
    installed = os.path.join(_PACKAGE, "lib")
    return [installed if os.path.isdir(installed) else _build_folder()]


def _stable_library():
    """What a linker takes for PyTorch's stable C symbols, which are in a library of their own; it is needed by those alone that call them."""
    for folder in (os.path.join(library_paths()[0], "stable"), library_paths()[0]):
        if os.path.exists(os.path.join(folder, "libtorch_cpu.so")):
            return ["-L" + folder, "-Wl,-rpath," + folder, "-Wl,--push-state,--as-needed", "-ltorch_cpu", "-Wl,--pop-state"]
    return []


def _cmake_folder():
    """What CMAKE_PREFIX_PATH takes, so that find_package(Torch) finds this package."""
    installed = os.path.join(_PACKAGE, "share", "cmake")
    return installed if os.path.isdir(installed) else os.path.join(_build_folder(), "tools", "cmake")


TORCH_LIB_PATH = os.path.join(_PACKAGE, "lib")


def _refuse(what):
    raise RuntimeError("torch.utils.cpp_extension.%s: %s" % (what, _WHY))


def _is_c(source):
    return str(source).endswith(".c")


def _is_cuda(source):
    return str(source).endswith(".cu")


def _emulated():
    return os.environ.get("RUSHLIGHT_CUDA") == "emulated"


def _check(what, sources, *others):
    if any(others) or any(str(source).endswith(".sycl") for source in sources):
        _refuse(what)
    if any(map(_is_cuda, sources)) and not _emulated() and _nvcc() is None:
        raise RuntimeError("torch.utils.cpp_extension.%s: CUDA sources need nvcc, which was not found (CUDA_HOME says where the toolkit is), or emulated devices "
                           "(RUSHLIGHT_CUDA=emulated)" % what)


def _nvcc():
    found = os.path.join(CUDA_HOME, "bin", "nvcc") if CUDA_HOME else None
    return found if found and os.path.exists(found) else None


def _cuda_includes():
    """The toolkit's headers, or, of emulated devices, those that stand for them."""
    if not _emulated():
        return [os.path.join(CUDA_HOME, "include")] if CUDA_HOME else []
    own = [os.path.join(path, "emulated") for path in include_paths() if os.path.isdir(os.path.join(path, "emulated"))]
    source = os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "src")    # cuda/emulate.h, which is installed beside the headers
    return own + [source] * os.path.exists(os.path.join(source, "cuda", "emulate.h"))


def _cuda_flags(own):
    """What nvcc takes beside `own`: for the architectures of TORCH_CUDA_ARCH_LIST ("8.0;9.0+PTX"), or those of the devices here."""
    if any(flag.startswith(("-gencode", "-arch")) for flag in own):
        return []
    wanted = os.environ.get("TORCH_CUDA_ARCH_LIST", "").replace(" ", ";").split(";")
    if not any(wanted):
        import rushlight
        if not rushlight.cuda.is_available():
            raise RuntimeError("There is no CUDA device here to compile CUDA sources for; TORCH_CUDA_ARCH_LIST (\"8.0;9.0+PTX\") says for which architectures otherwise")
        wanted = sorted({"%d.%d" % rushlight.cuda.get_device_capability(i) for i in range(rushlight.cuda.device_count())})
    made = []
    for word in filter(None, wanted):
        number = word.replace("+PTX", "").replace(".", "")
        made.append("-gencode=arch=compute_%s,code=sm_%s" % (number, number))
        made += ["-gencode=arch=compute_%s,code=compute_%s" % (number, number)] * word.endswith("+PTX")
    return made


_KERNEL_NAME = re.compile(r"[\w:]*[A-Za-z_]\w*\s*$")


def _launches_as_calls(text):
    """The text of a .cu file for a C++ compiler: kernel<<<grid, block>>>(arguments) is emulated::start(shape(grid, block), kernel, arguments)."""
    text = re.sub(r"extern\s+__shared__\s+(?:__align__\(\w+\)\s*|alignas\(\w+\)\s*)?([\w:<>\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;", r"\1 *const \2 = (\1 *)::emulated::shared_memory;", text)
    text = re.sub(r"(?<![\w(])__noinline__\b", "__attribute__((noinline))", text)
    at = 0
    while (opening := text.find("<<<", at)) >= 0:
        begin = end = len(text[:opening].rstrip())
        if text[end - 1] == ">":        # of a template: its name stands before the bracket that matches
            depth = inside = 0
            while begin and not (begin < end and depth == 0):
                begin -= 1
                inside += {")": 1, "(": -1}.get(text[begin], 0)
                depth += {">": 1, "<": -1}.get(text[begin], 0) * (inside == 0)
        name = _KERNEL_NAME.search(text[:begin])
        closing = text.find(">>>", opening)
        after = re.compile(r"\s*\(\s*(\))?").match(text, closing + 3) if closing > 0 else None
        if not name or not after:
            at = opening + 3
            continue
        call = "::emulated::start(::emulated::shape(%s), [&](auto... given) { %s(given...); }%s" % (
            text[opening + 3:closing], text[name.start():end], ")" if after[1] else ", ")
        text = text[:name.start()] + call + text[after.end():]
        at = name.start() + len(call)
    return text


def _cuda_command(source, made, name, own, search, folder):
    """What compiles a .cu file to an object; of emulated devices the changed text is written beside it first."""
    if not _emulated():
        host = [flag for option in ("-fPIC", "-O2") for flag in ("-Xcompiler", option)]
        return [_nvcc(), "-ccbin", get_cxx_compiler()] + _cxx_flags(name, own) + ["--expt-relaxed-constexpr", "--expt-extended-lambda"] + _cuda_flags(own) + list(own) + host + search + \
            ["-c", source, "-o", made]
    changed = os.path.join(folder, os.path.basename(made)[:-2] + ".emulated.cc")
    with open(source, encoding="utf-8") as file:
        text = '#include <cuda_runtime.h>\n#line 1 "%s"\n' % source + _launches_as_calls(file.read())
    if not os.path.exists(changed) or open(changed, encoding="utf-8").read() != text:
        with open(changed, "w", encoding="utf-8") as file:
            file.write(text)
    own = [flag for flag in own if flag.startswith(("-D", "-U", "-I"))]
    return [get_cxx_compiler()] + _cxx_flags(name, own) + ["-fPIC", "-O2", "-w", "-I" + os.path.dirname(source)] + own + search + ["-c", changed, "-o", made]


def flags():
    """What a C compiler takes to build against the library."""
    lib = library_paths()[0]
    return ["-I" + folder for folder in include_paths() if os.path.basename(folder) != "cpp"] + ["-L" + lib, "-Wl,-rpath," + lib, "-lrushlight"]


def _cxx_flags(name, own):
    standard = [] if any(flag.startswith("-std=") for flag in own) else ["-std=c++17"]
    return standard + ["-DTORCH_EXTENSION_NAME=" + name, "-DTORCH_API_INCLUDE_EXTENSION_H"]


def _operator_headers(sources, folders, folder):
    """PyTorch has a header for each operator (ATen/ops/add.h), here one has all. Those that sources include, or headers beside them or in `folders`,
    are written to `folder`. Where the compiler is to search for them."""
    names, seen, left = set(), set(), list(sources)
    while left:
        path = os.path.abspath(left.pop())
        if path in seen or not os.path.isfile(path):
            continue
        seen.add(path)
        with open(path, encoding="utf-8", errors="replace") as file:
            included = re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', file.read(), re.M)
        names.update(found[1] for found in (re.fullmatch(r"ATen/ops/(\w+)\.h", name) for name in included) if found)
        left += [os.path.join(where, name) for name in included for where in (os.path.dirname(path), *folders)]
    if not names:
        return []
    os.makedirs(os.path.join(folder, "ATen", "ops"), exist_ok=True)
    for name in names:
        path = os.path.join(folder, "ATen", "ops", name + ".h")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write("#pragma once\n#include <rushlight/at/aten.hpp>\n")
    return [folder]


def _run(command, name, verbose):
    if verbose:
        print(" ".join(command), file=sys.stderr)
    done = subprocess.run(command, capture_output=True, text=True)
    if verbose and done.stderr:
        print(done.stderr, file=sys.stderr)
    if done.returncode:
        raise RuntimeError("Error building extension '%s': %s" % (name, done.stderr))


def _cuda_libraries():
    """What a linker takes for CUDA's runtime, which nothing that is emulated needs."""
    if _emulated():
        return ["-ldl"]
    folder = os.path.join(CUDA_HOME or "/usr/local/cuda", "lib64")
    return ["-L" + folder, "-Wl,-rpath," + folder, "-lcudart", "-ldl"]


def _workers():
    return concurrent.futures.ThreadPoolExecutor(max(1, int(os.environ.get("MAX_JOBS", 0)) or os.cpu_count() or 1))


def _compile(name, sources, folder, target, cflags, ldflags, includes, verbose, executable=False, cuda_flags=(), with_cuda=False):
    """Objects side by side, then one link; nothing is done where sources and commands are those of the last time."""
    os.makedirs(folder, exist_ok=True)
    sources = [os.path.abspath(source) for source in sources]
    with_cuda = with_cuda or any(map(_is_cuda, sources))
    search = list(includes or []) + include_paths() + [sysconfig.get_path("include")] + (_cuda_includes() if with_cuda else [])
    search = ["-I" + path for path in search + _operator_headers(sources, includes or [], os.path.join(folder, "include"))]
    ldflags = list(ldflags) + (_cuda_libraries() if with_cuda else [])
    commands = []
    for i, source in enumerate(sources):
        made = os.path.join(folder, "%s_%d.o" % (os.path.splitext(os.path.basename(source))[0], i))
        if _is_cuda(source):
            commands.append(_cuda_command(source, made, name, cuda_flags, search, folder))
            continue
        compiler = [get_c_compiler()] if _is_c(source) else [get_cxx_compiler()] + _cxx_flags(name, cflags)
        commands.append(compiler + ["-fPIC", "-O2"] + list(cflags) + search + ["-c", source, "-o", made])
    linker = get_c_compiler() if all(map(_is_c, sources)) else get_cxx_compiler()
    lib = library_paths()[0]
    link = [linker] + ([] if executable else ["-shared"]) + [command[-1] for command in commands] + \
        ["-L" + lib, "-Wl,-rpath," + lib, "-lrushlight"] + _stable_library() + list(ldflags) + ["-lm", "-o"]
    stamp = hashlib.sha256(repr(commands + [link]).encode())
    for source in sources:
        with open(source, "rb") as file:
            stamp.update(file.read())
    note = target + ".stamp"
    newest = max(os.path.getmtime(path) for path in [lib] + sources)
    if os.path.exists(target) and os.path.exists(note) and os.path.getmtime(note) >= newest:
        with open(note, encoding="ascii") as file:
            if file.read() == stamp.hexdigest():
                return
    with _workers() as pool:
        list(pool.map(lambda command: _run(command, name, verbose), commands))
    fresh = "%s.%d" % (target, os.getpid())     # another process may be loading the old one
    _run(link + [fresh], name, verbose)
    os.replace(fresh, target)
    with open(note, "w", encoding="ascii") as file:
        file.write(stamp.hexdigest())


def load(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_sycl_cflags=None, extra_ldflags=None,
         extra_include_paths=None, build_directory=None, verbose=False, with_cuda=None, with_sycl=None,
         is_python_module=True, is_standalone=False, keep_intermediates=True):
    """Compile C, C++ and CUDA files, unless that was done before, and load the result: a module, or (is_python_module=False) a
    library of operators, or (is_standalone=True) a program, whose path comes back.

    >>> my_module = torch.utils.cpp_extension.load("my_module", ["my_module.cpp"])   # doctest: +SKIP
    """
    sources = [sources] if isinstance(sources, str) else list(sources)
    _check("load(%r)" % name, sources, with_sycl)
    folder = build_directory or _get_build_directory(name, verbose)
    target = os.path.join(folder, name + (EXEC_EXT if is_standalone else LIB_EXT))
    _compile(name, sources, folder, target, list(extra_cflags or []), list(extra_ldflags or []), extra_include_paths, verbose, is_standalone,
             list(extra_cuda_cflags or []), with_cuda)
    if is_standalone:
        return target
    if not is_python_module:
        from rushlight._ops import ops
        ops.load_library(target)
        return target
    spec = importlib.util.spec_from_file_location(name, target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(name, sources):
    """`rushlight extension`: NAME.so in this folder; objects are where load() has them."""
    try:
        _check("build(%r)" % name, sources)
        _compile(name, sources, _get_build_directory(name), os.path.abspath(name + LIB_EXT), [], [], None, False)
    except (RuntimeError, OSError) as error:
        print("rushlight: %s" % error, file=sys.stderr)
        return 1
    print(os.path.abspath(name + LIB_EXT))
    return 0


def load_inline(name, cpp_sources, cuda_sources=None, sycl_sources=None, functions=None, extra_cflags=None, extra_cuda_cflags=None,
                extra_sycl_cflags=None, extra_ldflags=None, extra_include_paths=None, build_directory=None, verbose=False,
                with_cuda=None, with_sycl=None, is_python_module=True, with_pytorch_error_handling=True, keep_intermediates=True,
                use_pch=False, no_implicit_headers=False):
    """load() of C++ and CUDA source texts. functions: names, or names with their docstrings, that become the module's functions."""
    _check("load_inline(%r)" % name, ["cuda.cu"] if cuda_sources else [], sycl_sources, with_sycl)
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    lines = [] if no_implicit_headers else ["#include <torch/extension.h>"]
    lines += texts
    if functions is not None:
        docs = {functions: functions} if isinstance(functions, str) else \
            functions if isinstance(functions, dict) else {function: function for function in functions}
        lines.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {")
        lines += ['m.def("%s", torch::wrap_pybind_function(%s), R"doc(%s)doc");' % (function, function, doc) for function, doc in docs.items()]
        lines.append("}")
    folder = build_directory or _get_build_directory(name, verbose)
    os.makedirs(folder, exist_ok=True)
    files = {"main.cpp": lines}
    if cuda_sources:
        given = [cuda_sources] if isinstance(cuda_sources, str) else list(cuda_sources)
        files["cuda.cu"] = ([] if no_implicit_headers else ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]) + given
    paths = []
    for file, content in files.items():
        path, text = os.path.join(folder, file), "\n".join(content) + "\n"
        paths.append(path)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            with open(path, "w", encoding="utf-8") as written:
                written.write(text)
    return load(name, paths, extra_cflags=extra_cflags, extra_cuda_cflags=extra_cuda_cflags, extra_ldflags=extra_ldflags, extra_include_paths=extra_include_paths,
                build_directory=folder, verbose=verbose, with_cuda=with_cuda, is_python_module=is_python_module)


def CppExtension(name, sources, *args, **kwargs):
    """A setuptools.Extension of C and C++ files, for BuildExtension."""
    _check("CppExtension(%r)" % name, sources)
    import setuptools
    for key, paths in (("include_dirs", include_paths()), ("library_dirs", library_paths()),
                       ("runtime_library_dirs", library_paths()), ("libraries", ["rushlight"])):
        kwargs[key] = list(kwargs.get(key) or []) + paths
    kwargs["extra_link_args"] = list(kwargs.get("extra_link_args") or []) + _stable_library()
    kwargs.setdefault("language", "c" if all(map(_is_c, sources)) else "c++")
    return setuptools.Extension(name, sources, *args, **kwargs)


def CUDAExtension(name, sources, *args, **kwargs):
    """A CppExtension that may have .cu files; extra_compile_args may be a dict with the keys "cxx" and "nvcc"."""
    _check("CUDAExtension(%r)" % name, sources)
    kwargs["include_dirs"] = list(kwargs.get("include_dirs") or []) + _cuda_includes()
    kwargs["extra_link_args"] = list(kwargs.get("extra_link_args") or []) + _cuda_libraries()
    return CppExtension(name, sources, *args, **kwargs)


def SyclExtension(name, sources, *args, **kwargs):
    _refuse("SyclExtension(%r)" % name)


try:
    from setuptools.command.build_ext import build_ext as _build_ext
except ImportError:     # load() does not need it
    _build_ext = object


class BuildExtension(_build_ext):
    """The build_ext command of setup scripts: C++ files get the standard and the module's name and are compiled side by side, as many at
    a time as MAX_JOBS or the processors; extra_compile_args may be a dict with the key "cxx".
    """

    def __init__(self, *args, **kwargs):
        self.use_ninja = kwargs.pop("use_ninja", True)      # this class compiles, whatever it says
        self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options):
        class WithOptions(cls):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **{**options, **kwargs})
        return WithOptions

    def build_extensions(self):
        cuda_files = {}     # of each the module and its flags
        for extension in self.extensions:
            _check("BuildExtension: %s" % extension.name, extension.sources)
            own = extension.extra_compile_args
            cuda = list(own.get("nvcc", [])) if isinstance(own, dict) else []
            own = list(own.get("cxx", [])) if isinstance(own, dict) else list(own or [])
            for source in filter(_is_cuda, extension.sources):
                cuda_files[os.path.abspath(source)] = extension.name.split(".")[-1], cuda
            if not all(map(_is_c, extension.sources)):
                own += _cxx_flags(extension.name.split(".")[-1], own)
            extension.extra_compile_args = own
            folders = [path for path in extension.include_dirs if path not in include_paths()]
            extension.include_dirs = folders + include_paths() + _operator_headers(extension.sources, folders, os.path.join(os.path.abspath(self.build_temp), "include"))
        compiled = self.compiler.compile

        def side_by_side(sources, *args, **kwargs):
            with _workers() as pool:
                return [made for each in pool.map(lambda source: compiled([source], *args, **kwargs), sources) for made in each]
        one = self.compiler._compile

        def one_or_cuda(made, source, ext, cc_args, own, pp_opts):
            if not _is_cuda(source):
                return one(made, source, ext, cc_args, own, pp_opts)
            source = os.path.abspath(source)
            name, flags = cuda_files[source]
            command = _cuda_command(source, made, name, flags, [option for option in pp_opts if option.startswith(("-I", "-D"))], os.path.dirname(made))
            self.spawn(command)
        if cuda_files:
            self.compiler.src_extensions.append(".cu")
            self.compiler._compile = one_or_cuda
        self.compiler.compile = side_by_side
        super().build_extensions()

    def get_ext_filename(self, ext_name):
        name = super().get_ext_filename(ext_name)
        if not self.no_python_abi_suffix:
            return name
        parts = name.split(".")
        return ".".join(parts[:-2] + parts[-1:]) if len(parts) > 2 else name


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


def _get_build_directory(name, verbose=False):
    return os.path.join(get_default_build_root(), "py%d%d_cpu" % sys.version_info[:2], name)


def get_c_compiler():
    return os.environ.get("CC", "cc").split()[-1]


def get_cxx_compiler():
    return os.environ.get("CXX", "c++")


def check_compiler_ok_for_platform(compiler):
    return shutil.which(compiler) is not None


def get_compiler_abi_compatibility_and_version(compiler):
    from rushlight.torch_version import TorchVersion
    return shutil.which(compiler) is not None, TorchVersion("0.0.0")
