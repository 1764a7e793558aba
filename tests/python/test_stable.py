"""PyTorch's stable C symbols: an extension that knows nothing else of the library, and a compiled program."""
import ctypes
import shutil
import subprocess
import zipfile

import pytest
import rushlight as torch
from test_cpp import BUILD, ROOT, STRICT, sanitizers

if not (BUILD / "libtorch_cpu.so").exists() or sanitizers():
    pytest.skip("this build has no libtorch_cpu.so, or one with sanitizers, which the extension would need", allow_module_level=True)


def built(path, *flags):
    if not shutil.which("g++"):
        pytest.skip("g++ is not installed")
    flags = [*flags, *STRICT, "-std=c++17", "-shared", "-fPIC", "-L" + str(BUILD), "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", str(ROOT / "tests" / "cpp" / "stable.cpp"), "-o", str(path), *flags], check=True)
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


def package(tmp_path, *flags):
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as file:
        file.write(built(tmp_path / "net.so", "-DPROGRAM", *flags), "net/data/aotinductor/model/net.wrapper.so")
        file.writestr("net/data/aotinductor/model/net_metadata.json", "{}")
    return str(tmp_path / "net.pt2")


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
