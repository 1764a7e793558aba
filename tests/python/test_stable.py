"""PyTorch's stable C symbols: an extension that knows nothing else of the library, and a compiled program."""
import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest
import rushlight as torch
from test_cpp import BUILD, ROOT, STRICT, sanitizers
from test_ghost import ghost

if not (BUILD / "libtorch_cpu.so").exists() or sanitizers():
    pytest.skip("this build has no libtorch_cpu.so, or one with sanitizers, which the extension would need", allow_module_level=True)


def built(path, *flags, source="stable.cpp"):
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    flags = [*flags, *STRICT, "-std=c++17", "-shared", "-fPIC", "-L" + str(BUILD), "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", str(ROOT / "tests" / "cpp" / source), "-o", str(path), *flags], check=True)
    return path


def test_an_extension(tmp_path):
    torch.ops.load_library(str(built(tmp_path / "stable.so")))       # no path to the library is in it: it is found by its name
    mix = torch.ops.stable_test.mix
    x = torch.arange(6.).reshape(2, 3)
    assert mix(x, 2., None, [1], "none").tolist() == [2, 5]
    assert mix(x, 2., torch.ones(3), [0, 1], "sub").item() == 3
    filled = x.clone()
    assert mix(filled, 7., None, [1], "fill").tolist() == [7, 7] and (filled == 7).all()
    for bad, why in ((x.double(), "takes float32"), (x, "Dimension out of range")):
        with pytest.raises(RuntimeError, match=why):
            mix(bad, 1., x, [7], "none")
    assert mix(x, 2., None, [0], "none").tolist() == [3, 4, 5]       # an error leaves nothing behind


def test_an_extension_in_cpp(tmp_path):
    """By torch::stable; it names none of the library's own symbols, so PyTorch loads it as well."""
    path = built(tmp_path / "ops.so", *["-I%s/%s" % (top, folder) for top in (ROOT, BUILD) for folder in ("include", "include/rushlight/cpp")], source="stable_ops.cpp")
    missing = subprocess.run(["nm", "-D", "--undefined-only", str(path)], capture_output=True, text=True).stdout
    assert "aoti_torch_" in missing and " rush" not in missing
    torch.ops.load_library(str(path))
    ops, x = torch.ops.stable_ops, torch.arange(6.).reshape(2, 3)
    assert ops.passed(x, True, 0.5, "some", "view", [4, 5], None, None, [x, x, x], [False, True]) == (["some", "view", "2", "3"], 110, True, 0.5)
    assert ops.passed(x, True, 0.5, "", "\u00e9", [-4], -7, None, [], [False, True]) == (["", "\u00e9", "1", "0"], -5, True, 0.5)
    zeros, blank, full, most, _, *rest = ops.made(x, torch.device("cpu"), torch.int16, torch.channels_last)
    assert torch.equal(zeros, torch.zeros(2, 3, dtype=torch.int16)) and blank.tolist() == [2.5] * 4 and full.tolist() == [7, 7] and most.stride() == (8, 1, 4, 2)
    expected = [torch.nn.functional.pad(x, (1, 0), value=9), x.t(), x[:, 1:], x[1], x[None], x, x.flatten(), x.amax(0), x.amax(), x @ x.t(), x.sum(1, True), x * 0.75, x.t(), x.reshape(3, 2),
                x.flatten(), x.double(), x]
    assert len(rest) == len(expected) and all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(rest, expected))
    for dtype in (torch.float32, torch.int64, torch.complex64):
        assert ops.product(x.to(dtype), torch.tensor([1, 2, 3]).to(dtype)).tolist() == [8, 26]
    assert ops.told(x[1]) == (3, 4, True, True, 1, -1) and ops.told(x.t())[2:5] == (False, True, 1)
    grown = x.clone()
    assert ops.grow(grown, 1) is None and torch.equal(grown, x * x) and torch.equal(ops.half(x), x / 2)
    memory = torch.ones(4)
    borrowed = ops.borrowed(memory.data_ptr(), [3])
    borrowed[0] = 5
    assert memory.tolist() == [5, 1, 1, 1] and ops.ends() == 0
    del borrowed
    assert ops.ends() == 1
    for call, why in ((lambda: ops.grow(x, 0), r"grow, .*stable_ops.cpp:\d+, by is 0"), (lambda: ops.product(x.bool(), x[0].bool()), "\"product\" not implemented for 'Bool'"),
                      (lambda: ops.product(x, torch.ones(3).double()), "expected scalar type Float but found Double")):
        with pytest.raises(RuntimeError, match=why):
            call()
    if not torch.accelerator.is_available():
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available."):
            ops.devices(0, 0)
    done = ghost("torch.ops.load_library(%r)\nstream = torch.Stream('ghost:1')\ntorch.accelerator.set_stream(stream)\n"
                 "print(torch.ops.stable_ops.devices(1, 0), torch.ops.stable_ops.devices(0, 1)[3] == stream.stream_id)\n"
                 "torch.ops.stable_ops.devices(9, 0)" % str(path))
    assert done.stdout == "[1, 0, 1, 0] True\n" and "RuntimeError" in done.stderr, done


def package(tmp_path, *flags):
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as file:
        file.write(built(tmp_path / "net.so", "-DPROGRAM", *flags), "net/data/aotinductor/model/net.wrapper.so")
        file.writestr("net/data/aotinductor/model/net_metadata.json", "{}")
    return str(tmp_path / "net.pt2")


def test_a_package_imports_its_extension(tmp_path):
    """`from . import _C`, as setuptools builds it: the linker looks for the libraries, and nothing has asked rushlight for them."""
    package = tmp_path / "mixing"
    package.mkdir()
    (package / "__init__.py").write_text("from . import _C\n")
    (tmp_path / "module.c").write_text('#include <Python.h>\nstatic struct PyModuleDef def = {PyModuleDef_HEAD_INIT, "_C"};\nPyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&def); }\n')
    module = [str(tmp_path / "module.c"), "-I" + sysconfig.get_path("include"), "-Wno-missing-field-initializers"]
    built(package / "_C.so", *module)
    foreign = tmp_path / "foreign.cpp"
    foreign.write_text("namespace c10 { void of_libtorch(int); }\n__attribute__((constructor)) static void first(void) { c10::of_libtorch(0); }\n")
    built(tmp_path / "foreign.so", *module, str(foreign))
    program = ("import rushlight as torch, mixing\n"
               "print(torch.ops.stable_test.mix(torch.arange(6.).reshape(2, 3), 2., None, [1], 'none').tolist())\n"
               "try:\n    import foreign\nexcept ImportError as error:\n    print(error.name, 'of_libtorch' in error.msg and 'build this one from its source' in error.msg)\n"
               "try:\n    import absent\nexcept ImportError as error:\n    print(error)\n")
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])})
    assert out.stdout == "[2.0, 5.0]\nforeign True\nNo module named 'absent'\n", out.stdout + out.stderr


def test_a_program_that_calls_sleef(tmp_path):
    a, b, path = torch.randn(3, 4), torch.randn(4, 5), package(tmp_path, "-DWITH_SLEEF")
    try:
        ctypes.CDLL("libsleef.so.3")
    except OSError:
        with pytest.raises(RuntimeError, match="Sleef_expf_u10.*libsleef3"):
            torch._inductor.aoti_load_package(path)
    else:
        assert torch.allclose(torch._inductor.aoti_load_package(path)(a, b), torch.relu(a @ b + 1).exp())


def test_a_compiled_program(tmp_path):
    net = torch._inductor.aoti_load_package(package(tmp_path))
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    assert torch.allclose(net(a, b), torch.relu(a @ b + 1))
    for call, why in ((lambda: net(a), "takes 2 tensors"), (lambda: net(a, a), "cannot be run.*cannot be multiplied"), (lambda: net(a, b, c=a), "keywords")):
        with pytest.raises((RuntimeError, TypeError), match=why):
            call()
    with zipfile.ZipFile(tmp_path / "none.pt2", "w") as file:
        file.writestr("x/archive_format", "pt2")
    with pytest.raises(RuntimeError, match="no program 'model'"):
        torch._inductor.aoti_load_package(str(tmp_path / "none.pt2"))


def test_a_package_made_here(tmp_path):
    """A program that was packaged by the library runs in it, and is a .pt2 file of its own."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(net, (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    with pytest.raises(AssertionError, match="ending in .pt2"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "net.so"))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "net.pt2"))
    x = torch.randn(5, 4)
    y = torch._inductor.aoti_load_package(path)(x)
    assert torch.equal(y, net(x)) and not y.requires_grad
    assert torch.equal(torch.export.load(path).module()(x), net(x))
