"""`rushlight compile`: a program as one C file, which the system's compiler builds without a warning and which gives the same numbers."""
import pathlib
import shutil
import subprocess

import numpy as np
import places
import pytest

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "programs"


def command(*args):
    here = places.command()
    if not shutil.which("cc"):
        pytest.skip("a compiler is not there")
    return subprocess.run([here, "compile", *args], capture_output=True, text=True)


def built(folder, name):
    subprocess.run(["cc", "-O1", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", name + ".c", "-o", name + ".so", "-lm"], cwd=folder, check=True)
    import ctypes
    return ctypes.CDLL(str(folder / f"{name}.so"))


@pytest.mark.parametrize("name, options, bound", [("cnn", [], 1e-5), ("mlp", [], 1e-5), ("pictures", [], 1e-5), ("cnn", ["--int8"], 0.1)])
def test_the_c_file_gives_the_programs_numbers(tmp_path, name, options, bound):
    x, want = (list(np.load(DATA / f"{name}_{end}.npz").values()) for end in ("in", "out"))
    told = command(DATA / f"{name}.pt2", "-o", tmp_path / "net.c", "--size", str(x[0].shape[0]), *options)
    assert told.returncode == 0, told.stderr
    run = built(tmp_path, "net").net_run
    out = [np.zeros(np.shape(y), y.dtype) for y in want]
    import ctypes
    for _ in range(2):  # nothing is left of the first run
        run(*(ctypes.c_void_p(a.ctypes.data) for a in (*map(np.ascontiguousarray, x), *out)))
    for y, o in zip(want, out):
        assert np.abs(y - o).max() <= bound * max(1, np.abs(y).max())


@pytest.mark.parametrize("name, optimizer", [("mlp", "sgd"), ("mlp", "adam"), ("cnn", "sgd")])
def test_the_c_file_learns_as_the_program_does(tmp_path, name, optimizer):
    import ctypes

    import rushlight as torch
    x = np.ascontiguousarray(np.load(DATA / f"{name}_in.npz")[np.load(DATA / f"{name}_in.npz").files[0]])
    told = command(DATA / f"{name}.pt2", "-o", tmp_path / "net.c", "--size", str(x.shape[0]), "--train", optimizer, "--loss", "mse")
    assert told.returncode == 0, told.stderr
    train = built(tmp_path, "net").net_train
    train.restype = ctypes.c_float
    net = torch.export.load(DATA / f"{name}.pt2").module()
    step = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer](net.parameters(), lr=0.01)
    for _ in range(4):
        step.zero_grad()
        y = net(torch.from_numpy(x))
        loss = torch.nn.functional.mse_loss(y, torch.ones_like(y))
        loss.backward()
        step.step()
        target = np.ones(y.shape, np.float32)
        got = train(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(target.ctypes.data), ctypes.c_float(0.01))
        assert abs(got - loss.item()) <= 1e-4 * max(1, abs(loss.item()))


def test_conversions_that_change_nothing(tmp_path):
    import ctypes

    import rushlight as torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return (x.float() * 2).to("cpu") + (x > 1).float()
    torch.export.save(torch.export.export(Net(), (torch.ones(3),)), tmp_path / "net.pt2")
    told = command(tmp_path / "net.pt2", "-o", tmp_path / "net.c")
    assert told.returncode == 0, told.stderr
    x, y = np.array([0.5, 1.5, 3], np.float32), np.zeros(3, np.float32)
    built(tmp_path, "net").net_run(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
    assert y.tolist() == [1, 4, 7]


def test_what_cannot_be_written_is_told(tmp_path):
    told = command(DATA / "mlp.pt2", "-o", tmp_path / "net.txt")
    assert told.returncode and "no name of a C file" in told.stderr
    told = command(DATA / "mlp.pt2", "-o", tmp_path / "net.c", "--train", "nothing")
    assert told.returncode and "there are sgd and adam" in told.stderr


@pytest.mark.parametrize("name, what", [("while", "while_loop (data decide how often it runs)"), ("control", "cond (data decide which block runs)")])
def test_what_depends_on_data_is_refused(tmp_path, name, what):
    """With all of its names and where they stand in the source."""
    told = command(DATA / f"{name}.pt2", "-o", tmp_path / "net.c")
    assert told.returncode == 1 and what in told.stderr and "called by" in told.stderr and not (tmp_path / "net.c").exists()


def test_all_that_cannot_be_written_is_told_at_once(tmp_path):
    import rushlight as torch

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.nonzero(x).float().sum(), torch.linalg.qr(x)[0], x[x > 0], x[torch.tensor([0, 1])]
    torch.export.save(torch.export.export(Net(), (torch.eye(3),)), tmp_path / "net.pt2")
    told = command(tmp_path / "net.pt2", "-o", tmp_path / "net.c")
    assert told.returncode == 1 and "calls 4 operations" in told.stderr and "test_compile_c.py" in told.stderr
    assert "nonzero (what it gives depends on data)" in told.stderr and "\n  linalg_qr, called by" in told.stderr and "index.Tensor (what it gives" in told.stderr


def test_pictures(tmp_path):
    here = places.command()
    svg, dot = (subprocess.run([here, "inspect", DATA / "cnn.pt2", how], capture_output=True, text=True, check=True).stdout for how in ("--svg", "--dot"))
    import xml.etree.ElementTree
    root = xml.etree.ElementTree.fromstring(svg)
    assert root.tag.endswith("svg") and len(root.findall(".//{*}rect")) == dot.count("[label=") and "conv2d" in svg and dot.startswith("digraph") and " -> " in dot


@pytest.mark.parametrize("name, node", [("scan", b"Scan"), ("map", b"Scan"), ("while", b"Loop")])
def test_loops_are_written_for_onnx(tmp_path, name, node):
    """They are not read back: as all that is missing, with their names."""
    here = places.command()
    subprocess.run([here, "convert", DATA / f"{name}.pt2", tmp_path / "net.onnx"], check=True)
    written = (tmp_path / "net.onnx").read_bytes()
    assert node in written and b"body" in written and (b"num_scan_inputs" in written) == (node == b"Scan")
    told = subprocess.run([here, "inspect", tmp_path / "net.onnx"], capture_output=True, text=True)
    assert told.returncode and "calls 1 operation that the library does not have" in told.stderr and node.decode() in told.stderr


def test_an_onnx_file_with_an_attribute_without_a_proper_name_is_an_error(tmp_path):
    command("--help")  # skips where the command is not there
    whole = (DATA.parent / "onnx" / "cnn_old.onnx").read_bytes()
    at = whole.index(b"kernel_shape")
    (tmp_path / "net.onnx").write_bytes(whole[:at] + b"kernel\0shape" + whole[at + 12:])
    told = command(tmp_path / "net.onnx", "-o", tmp_path / "net.c")
    assert told.returncode == 1 and "a name is long, or holds a zero" in told.stderr


def test_frozen_weights_that_share_memory(tmp_path):
    """Parts of one parameter, of the same sizes: what the engine keeps of one is not taken for the other."""
    import rushlight as torch
    here = places.command()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(32, 16, 3, 3) / 12)

        def forward(self, x):
            return torch.conv2d(torch.conv2d(x, self.w[:16], padding=1), self.w[16:], padding=1)
    torch.manual_seed(0)
    net, x = Net(), torch.randn(2, 16, 9, 9)
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    np.savez(tmp_path / "in.npz", in0=x.numpy())
    subprocess.run([here, "run", tmp_path / "net.pt2", tmp_path / "in.npz", "--frozen", "-o", tmp_path / "out.npz"], check=True)
    with torch.no_grad():
        assert np.abs(np.load(tmp_path / "out.npz")["out0"] - net(x).numpy()).max() < 1e-5


def test_elementwise_results_take_the_place_of_what_ends(tmp_path):
    """The C file needs no more memory than a program that works in place, and nothing that is read later is overwritten."""
    import ctypes
    import re

    import rushlight as torch

    class Chain(torch.nn.Module):
        def forward(self, x):
            y = x @ x
            return ((y.relu() * 2 + x).sigmoid() @ x).tanh() + 1

    class Later(torch.nn.Module):
        def forward(self, x):
            y = x @ x
            z = y * 2
            t = z + z.t()          # an element of another place
            u = y.narrow(0, 0, 8) - t[8:]
            return t.exp() * z, u.neg() + y[0], (t + t).view(-1).cos()
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32) / 8
    for name, net in (("chain", Chain()), ("later", Later())):
        torch.export.save(torch.export.export(net, (torch.from_numpy(x),)), tmp_path / "net.pt2")
        told = command(tmp_path / "net.pt2", "-o", tmp_path / f"{name}.c")
        assert told.returncode == 0, told.stderr
        want = net(torch.from_numpy(x))
        want = want if isinstance(want, tuple) else (want,)
        out = [np.zeros(tuple(y.shape), np.float32) for y in want]
        getattr(built(tmp_path, name), name + "_run")(ctypes.c_void_p(x.ctypes.data), *(ctypes.c_void_p(o.ctypes.data) for o in out))
        for y, o in zip(want, out):
            np.testing.assert_allclose(o, y.numpy(), rtol=1e-5, atol=1e-6)
        if name == "chain":
            assert re.findall(r"work_float\[(\d+)\]", (tmp_path / "chain.c").read_text())[0] == str(2 * x.size)
