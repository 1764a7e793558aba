#!/usr/bin/env python3
"""Run examples/digits.c in ways that nobody watches: tests/demo.py BUILD threads|valgrind|torch

threads: three epochs on 1, 2 and 3 threads print the same losses, to six digits, and the same accuracies; the program is
    shorter than 120 lines and frees nothing.
valgrind: memcheck finds nothing in a whole run on few digits, with the kernels of the best instruction set that it knows;
    with oneDNN, but for what tests/valgrind.supp says of its generated code, and without.
torch: the first three losses equal those of the same network written in PyTorch.

What is not installed (valgrind, PyTorch) is skipped, with a word.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "data" / "digits.npy"
PLAIN = {"OMP_NUM_THREADS": "1", "RUSHLIGHT_ISA": "3"}


def few_rows(path, rows):
    """The first rows of the data as a file of its own."""
    whole = DATA.read_bytes()
    size = 10 + int.from_bytes(whole[8:10], "little")
    header = whole[10:size].decode().rstrip().replace("(1797, 65)", f"({rows}, 65)")
    path.write_bytes(whole[:10] + header.ljust(size - 11).encode() + b"\n" + whole[size:size + rows * 65])


def run(program, epochs, before=(), rows=0, **env):
    """What it prints, without the progress of epochs, and the bytes of the weights."""
    with tempfile.TemporaryDirectory() as folder:
        data = pathlib.Path(folder, "rows.npy") if rows else DATA
        if rows:
            few_rows(data, rows)
        done = subprocess.run([*before, program, data, str(epochs)], cwd=folder, env={**os.environ, **env},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        weights = pathlib.Path(folder, "digits.safetensors")
        assert done.returncode == 0, done.stdout[-4000:]
        assert "left out: digits.png; this build is without PNG" in done.stdout or pathlib.Path(folder, "digits.png").read_bytes().startswith(b"\x89PNG"), "no picture"
        lines = [line.rstrip() for line in done.stdout.splitlines()]
        return [line for line in lines if line and "digits/s" not in line and not line.startswith("trained in")], weights.read_bytes()


def threads(program):
    text = (ROOT / "examples" / "digits.c").read_text()
    assert len(text.splitlines()) < 120 and not re.search(r"\bfree\s*\(|rush_drop|rush_free", text)
    # Below AVX-512 oneDNN splits long sums among its threads, as few or many as they are, and their last bits differ.
    told = subprocess.run([program.parent.parent / "rushlight", "info"], capture_output=True, text=True, check=True).stdout
    engine = {} if "x86-64-v4" in told else {"RUSHLIGHT_ONEDNN": "0"}
    runs = {n: run(program, 3, OMP_NUM_THREADS=str(n), **engine) for n in (1, 2, 3)}
    for n in (2, 3):
        assert runs[n][0] == runs[1][0], f"{n} threads print other numbers:\n" + "\n".join(runs[n][0] + ["on one thread:"] + runs[1][0])
        assert runs[n][1] == runs[1][1], f"{n} threads learn other weights"
    accuracy = float(re.findall(r"test accuracy ([\d.]+)", "\n".join(runs[1][0]))[-1])
    assert accuracy >= 94, f"test accuracy {accuracy} after three epochs"
    print("1, 2 and 3 threads: the same numbers and weights;", f"test accuracy {accuracy} % after three epochs")


def valgrind(program):
    tool = shutil.which("valgrind")
    if not tool:
        return print("skipped: valgrind is not installed")
    told = subprocess.run([program.parent.parent / "rushlight", "info"], env={**os.environ, **PLAIN}, capture_output=True, text=True, check=True)
    if "instruction set: x86-64" not in told.stdout:
        return print("skipped: this build has no kernels that valgrind knows")
    for onednn in "1", "0":
        lines, _ = run(program, 1, rows=40, before=[tool, "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite",
                                           f"--suppressions={ROOT / 'tests' / 'valgrind.supp'}", "-q"], RUSHLIGHT_ONEDNN=onednn, **PLAIN)
        print(f"valgrind, oneDNN {'on' if onednn == '1' else 'off'}: nothing to say;", next(line for line in lines if line.startswith("loaded")))


def torch(program):
    if not importlib.util.find_spec("torch") or not importlib.util.find_spec("numpy"):
        return print("skipped: PyTorch is not installed")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, ROOT / "tests" / "digits_torch.py", "--data", DATA, "--run", program], cwd=folder, check=True)


if __name__ == "__main__":
    {"threads": threads, "valgrind": valgrind, "torch": torch}[sys.argv[2]](pathlib.Path(sys.argv[1]).resolve() / "examples" / "digits")
