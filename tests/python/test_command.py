"""The command `rushlight` with arguments that make no sense, files that are others, disks that are full: a message, a status, nothing half written."""
import os
import stat
import subprocess
import sys

import numpy
import places
import pytest
import rushlight as torch

PARTS = ["archive", "chat", "compile", "convert", "generate", "info", "inspect", "launch", "ops", "perplexity", "run", "serve"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Programs and files that are none."""
    path = tmp_path_factory.mktemp("command")
    net, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    torch.export.save(torch.export.export(net, (x,)), path / "net.pt2")
    torch.jit.trace(net, x).save(path / "traced.pt")
    torch.save(net.state_dict(), path / "state.pt")
    numpy.save(path / "x.npy", x.numpy())
    (path / "t.safetensors").write_bytes(b"\x02" + bytes(7) + b"{}")
    (path / "labels.txt").write_text("a\nb\n")
    (path / "empty").mkdir()
    return path


def run(folder, *args, **how):
    return subprocess.run([places.command(), *args], cwd=folder, capture_output=True, text=True, timeout=60, **how)


@pytest.mark.parametrize("args, status, words", [
    (["nosuch"], 2, "there is no command nosuch"), (["info", "more"], 2, "usage"), (["run"], 2, "usage"), (["run", "net.pt2", "-o"], 2, "-o needs a value"),
    (["run", "net.pt2"], 1, "takes 1 tensor, not 0"), (["run", "labels.txt"], 1, "'labels.txt': the ONNX file is damaged"), (["run", "x.npy"], 1, "is an array of NumPy's (.npy), not a program"),
    (["run", "t.safetensors"], 1, "is a safetensors file, not a program"), (["inspect", "state.pt"], 1, "is a checkpoint"),
    (["inspect", "empty"], 1, "no regular file"), (["run", "traced.pt", "--frozen"], 1, "of TorchScript, which has no graph"),
    (["convert", "traced.pt", "out.onnx"], 1, "of TorchScript, which has no graph"), (["inspect", "traced.pt", "--svg"], 1, "of TorchScript, which has no graph"),
    (["compile", "traced.pt", "-o", "out.c"], 1, "of TorchScript, which has no graph"), (["compile", "net.pt2", "-o"], 2, "-o needs a value"),
    (["compile", "net.pt2", "-o", "out.c", "--size", "4x"], 2, "--size takes"), (["compile", "net.pt2", "-o", "out.c", "--size", "0"], 2, "takes a"),
    (["compile", "net.pt2", "-o", "out.c", "--loss", "mse"], 1, "by which optimizer"), (["compile", "net.pt2", "-o", "no/out.c"], 1, "can't write"),
    (["archive", "net.pt2", "-o", "out.pt2", "--mean", "1"], 1, "is of pictures"), (["archive", "net.pt2", "-o", "out.pt2", "--length", "4"], 1, "is of texts"),
    (["archive", "net.pt2", "-o", "out.pt2", "--labels", "labels.txt"], 1, "of how many"), (["archive", "net.pt2", "-o", "out.pt2", "--picture", "--std", "0"], 1, "a deviation of 0"),
    (["serve", "nosuch"], 1, "is no folder"), (["serve", "net.pt2"], 1, "is no folder"), (["serve", ".", "--what"], 2, "does not know --what"),
    (["serve", ".", "--port", "70000"], 2, "--port takes"), (["serve", ".", "--instances", "0"], 2, "takes a"), (["serve", ".", "--host", "999.1.1.1"], 1, "no address"), (["serve", ".", "--host", ""], 1, "no address"), (["serve", ".", "--port"], 2, "needs a value"),
    (["serve", ".", "--port", ""], 2, "--port takes a whole number from 0 to 65535, not \'\'"), (["serve", ".", "--queue=99999999999999999999"], 2, "takes a"), (["serve", ".", "."], 2, "does not know ."),
    (["serve", ".", "--log=1"], 2, "--log takes no value"), (["serve", ".", "--por=1"], 2, "does not know --por=1"), (["serve", "--", "--log"], 1, "'--log' is no folder"),
    (["archive", "net.pt2", "-o", "out.pt2", "--mean", "1,,2"], 2, "--mean takes"), (["archive", "net.pt2", "-o", "out.pt2", "--mean=nan"], 2, "takes numbers"),
    (["archive", "net.pt2", "-o", "out.pt2", "--picture", "--size", "8"], 2, "--size takes HEIGHT,WIDTH"), (["archive", "net.pt2", "-o", "out.pt2", "--picture", "--size", "8,2.5"], 2, "HEIGHT,WIDTH"),
    (["generate", "net.pt2", "-p", "a", "--seed", "-1"], 2, "takes a"), (["chat", "net.pt2", "-p", "a"], 2, "chat does not know -p"), (["perplexity", "net.pt2", "x.npy", "--top-k", "3"], 2, "perplexity does not know --top-k"),
    (["perplexity", "net.pt2", "x.npy", "--context", "3"], 2, "from 4 to"), (["launch", "-n", "0", "true"], 2, "-n takes"), (["launch", "--nnodes", "2", "--node-rank", "2", "true"], 2, "counted from 0"),
    (["launch", "-n", "1"], 2, "usage"), (["inspect", "net.pt2", "--dot", "--svg"], 2, "usage"),
    (["perplexity", "net.pt2", "empty"], 1, "directory"), (["perplexity", "net.pt2", "nosuch"], 1, "No such file"),
], ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_what_makes_no_sense(folder, args, status, words):
    before = sorted(os.listdir(folder))
    done = run(folder, *args)
    assert (done.returncode, words in done.stderr) == (status, True), done.stderr
    assert ("usage: " in done.stderr) == (status == 2) and sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("part", PARTS)
def test_each_part_tells_its_usage(folder, part):
    done = run(folder, part, "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: rushlight " + part) and not done.stderr


def test_options_stand_anywhere(folder):
    assert run(folder, "run", "--bench", "-h").stdout.startswith("usage: rushlight run")
    assert run(folder, "inspect", "--dot", "net.pt2").stdout.startswith("digraph")
    done = run(folder, "launch", "-n", "1", "sh", "-c", "echo $0 $@", "-x", "--", "--help")
    assert (done.returncode, done.stdout) == (0, "-x -- --help\n"), done.stderr


def test_a_full_disk(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run([places.command(), "info"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "cannot be written" in done.stderr


def test_a_device_is_no_place_for_an_archive(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run(folder, "archive", "net.pt2", "-o", tmp_path / "pipe")
    assert done.returncode == 1 and "no regular file" in done.stderr and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    (tmp_path / "link.pt2").symlink_to("there.pt2")
    (tmp_path / "there.pt2").write_bytes(b"")
    assert run(folder, "archive", "net.pt2", "-o", tmp_path / "link.pt2").returncode == 0
    assert (tmp_path / "link.pt2").is_symlink() and sorted(os.listdir(tmp_path)) == ["link.pt2", "pipe", "there.pt2"]


def test_python_hands_programs_on(monkeypatch):
    """The installed command gives what is no Python program to the one of C."""
    from rushlight import _command

    def started(program, args):
        raise SystemExit("Python" if program == sys.executable else "C")

    monkeypatch.setattr(os, "execv", started)
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    for name, by in (("net.pt2", "C"), ("net.onnx", "C"), ("net.pt", "C"), ("train.py", "Python")):
        monkeypatch.setattr(sys, "argv", ["rushlight", "run", name])
        with pytest.raises(SystemExit, match=by):
            _command.main()


def test_the_library_stays_after_dlclose():
    """A thread that used it ends after it was closed: what it left to do at its end is still there."""
    library = places.BUILD / "librushlight.so.0"
    if not library.is_file():
        pytest.skip(f"there is no {library}")
    code = """if 1:
        import _ctypes, ctypes, threading
        def use():
            library = ctypes.CDLL(%r)
            library.rush_scope_open.restype = ctypes.c_size_t
            library.rush_scope_close(ctypes.c_size_t(library.rush_scope_open()))
            library.rush_op_find.restype = ctypes.c_void_p
            assert library.rush_op_find(b"add.Tensor")
            _ctypes.dlclose(library._handle)
        for i in range(3):
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
        print("done")""" % str(library)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", (done.returncode, done.stderr)
