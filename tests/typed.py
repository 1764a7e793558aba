#!/usr/bin/env python3
"""The programs of tests/python/typed under mypy --strict and pyright: no complaint, and mistakes put into them are found.

    tests/typed.py PYTHON

PYTHON has the installed package and mypy; pyright is asked where PYTHON has it. Each program is checked as it is, `import torch` meaning
what `rushlight stubs` writes, and with `import rushlight as torch`.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).resolve().parent / "python" / "typed"
MISTAKES = [  # program, what stands there, what is written instead
    ("regression", "torch.linspace(", "torch.linspaec("), ("regression", "lr=0.5", "learning_rate=0.5"), ("mlp", "nn.Linear(2, hidden)", "nn.Linaer(2, hidden)"),
    ("mlp", "F.cross_entropy", "F.crossentropy"), ("mlp", "betas=(0.9, 0.99)", "beta=(0.9, 0.99)"), ("cnn", "kernel_size=3", "kernal_size=3"),
    ("cnn", "nn.MaxPool2d(2)", 'nn.MaxPool2d("two")'), ("lstm", "bidirectional=True", "bidirectionnal=True"), ("transformer", "nhead=4", "heads=4"),
    ("attention", "is_causal=True", "causal=True"), ("dataset", "batch_size=4", "batchsize=4"), ("schedules", "T_max=5", "t_max=5"),
    ("linalg", "torch.linalg.solve(a, b)", 'torch.linalg.solve(a, "b")'), ("fft", 'n=64, norm="ortho"', 'length=64, norm="ortho"'), ("losses", 'reduction="sum"', 'reductoin="sum"'),
    ("reductions", "keepdim=True", "keepdims=True"), ("reductions", ".indices", ".indexes"), ("containers", "numel()", "nummel()"), ("averages", "anneal_epochs=2", "epochs=2"),
    ("weights", "kaiming_uniform_", "kaiming_unifrom_"), ("distributions", "Categorical(logits=", "Categorical(logit="), ("checkpoint", "alpha=0.9", "alfa=0.9")]


def renamed(text):
    """The same program with rushlight by its own name."""
    text = re.sub(r"^import torch$", "import rushlight as torch", text, flags=re.M)
    return re.sub(r"^(import|from) torch\b", r"\1 rushlight", text, flags=re.M)


def mypy(python, folder, names):
    done = subprocess.run([python, "-m", "mypy", "--strict", "--cache-dir", str(pathlib.Path(python).parent.parent / "mypy-typed"), *names], stdout=subprocess.PIPE, text=True,
                          cwd=folder, env={**os.environ, "MYPYPATH": str(folder / "typings")})
    return done.stdout


def pyright(python, folder, names):
    """Its complaints, or None where it is not installed."""
    if subprocess.run([python, "-c", "import pyright"], stderr=subprocess.DEVNULL).returncode:
        return None
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard", "reportMissingModuleSource": False}))
    done = subprocess.run([python, "-m", "pyright", "--pythonpath", python, "--outputjson", *names], stdout=subprocess.PIPE, text=True, cwd=folder)
    return "".join("%s:%d: %s\n" % (pathlib.Path(d["file"]).name, d["range"]["start"]["line"] + 1, d["message"]) for d in json.loads(done.stdout)["generalDiagnostics"])


def write(folder, name, text):
    (folder / (name + "_as_torch.py")).write_text(text)
    (folder / (name + "_by_name.py")).write_text(renamed(text))
    return [name + "_as_torch.py", name + "_by_name.py"]


def check(python):
    """What is wrong, as texts: complaints about the programs, and mistakes that are not found."""
    wrong = []
    with tempfile.TemporaryDirectory() as home:
        folder, files, bad = pathlib.Path(home), [], []
        subprocess.run([python, "-m", "rushlight._command", "stubs", str(folder / "typings")], check=True)
        for path in sorted(PROGRAMS.glob("*.py")):
            files += write(folder, path.stem, path.read_text())
        for i, (name, right, mistake) in enumerate(MISTAKES):
            text = (PROGRAMS / (name + ".py")).read_text()
            assert right in text, (name, right)
            bad += write(folder, "mistake%d" % i, text.replace(right, mistake))
        for ask in (mypy, pyright):
            said = ask(python, folder, files + bad)
            if said is None:
                print("pyright is not installed beside %s" % python)
                continue
            lines = [line for line in said.splitlines() if ": note:" not in line and re.match(r"\w+\.py:", line)]
            wrong += ["%s: %s" % (ask.__name__, line) for line in lines if not line.startswith("mistake")]
            found = {line.partition(":")[0] for line in lines}
            wrong += ["%s did not find %s in %s" % (ask.__name__, MISTAKES[int(re.search(r"\d+", name)[0])][2], name) for name in bad if name not in found]
            if not lines:
                wrong.append(said)
            print("%s: %d programs, %d of %d mistakes found" % (ask.__name__, len(files), len(found.intersection(bad)), len(bad)))
    return wrong


if __name__ == "__main__":
    sys.exit("\n".join(check(sys.argv[1])) or None)
