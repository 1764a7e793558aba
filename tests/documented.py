#!/usr/bin/env python3
"""The examples of PyTorch's documentation, under PyTorch and under rushlight: the same answers?

    tests/documented.py ORACLE [--show] [NAME...]

ORACLE is a Python that has PyTorch, whose docstrings are read while this runs: nothing of them is kept. The examples of one docstring
are one program, run statement by statement from one seed; each statement's answer is what it prints, the repr() of an expression, or
the class of its error. Numbers count as equal within 1e-3. A statement that fails under PyTorch, or answers otherwise when PyTorch
runs the program a second time, is not counted. NAME: only docstrings whose name contains it. --show prints what differs.
"""
import argparse
import ast
import contextlib
import doctest
import importlib
import inspect
import io
import json
import os
import pathlib
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import types
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[0:1] = []  # tensorboard is no file of this folder
SECONDS = 20  # for one docstring
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)(?![\w])", re.I)
ELSEWHERE = ("cuda", "xpu", "mps", "mtia", "distributed", "_inductor", "_dynamo", "onnx", "quantization", "quantized", "testing._internal", "utils.benchmark",
             "utils.tensorboard", "_export", "package", "utils.model_dump", "utils.bottleneck", "_numpy", "_refs", "_decomp", "_prims", "jit", "compiler", "contrib")


def modules(torch):
    yield torch
    for found in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        if any(("." + found.name[6:] + ".").startswith("." + e + ".") or "." + e + "." in found.name + "." for e in ELSEWHERE) or found.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except Exception as error:  # what this machine lacks: said, and left out
            print("not imported: %s: %s" % (found.name, type(error).__name__), file=sys.stderr)


def collect():
    """{name: [statements]} of all docstrings with examples."""
    import torch
    programs, seen = {}, set()

    def look(name, thing):
        text = inspect.getdoc(thing) if not isinstance(thing, (int, float, str, torch.Tensor, torch.dtype)) else None
        if not text or ">>>" not in text or text in seen:
            return
        seen.add(text)
        try:
            programs[name] = [e.source for e in doctest.DocTestParser().get_examples(text)]
        except ValueError:
            print("no examples to read: %s" % name, file=sys.stderr)
    for module in modules(torch):
        for name, thing in list(vars(module).items()):
            if isinstance(thing, types.ModuleType) or name.startswith("__"):
                continue
            look(module.__name__ + "." + name, thing)
            if isinstance(thing, type) and (thing.__module__ or "").startswith("torch"):
                for member in list(vars(thing)):
                    look("%s.%s.%s" % (module.__name__, name, member), getattr(thing, member, None))
    return programs


def statement(source, names):
    """What it answers."""
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            tree = ast.parse(source)
            if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
                value = eval(compile(source.strip(), "<example>", "eval"), names)
                if value is not None:
                    print(repr(value))
            else:
                exec(compile(tree, "<example>", "exec"), names)
    except BaseException as error:
        return "!! %s: %s" % (type(error).__name__, error)
    return text.getvalue()


def run(name, programs):
    """The answers of programs; one that ends its process has those it got to."""
    torch, done = importlib.import_module(name), {}
    sys.modules["torch"] = torch
    torch.set_num_threads(1)
    for key, sources in programs.items():
        with tempfile.TemporaryFile("w+") as f:
            child = os.fork()
            if not child:
                os.dup2(os.open(os.devnull, os.O_RDWR), 1)
                os.dup2(os.open(os.devnull, os.O_RDWR), 2)
                with tempfile.TemporaryDirectory() as home:
                    os.chdir(home)
                    signal.alarm(SECONDS)
                    warnings.simplefilter("ignore")
                    import numpy
                    names = {"__name__": "__main__", "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "np": numpy, "math": importlib.import_module("math")}
                    torch.manual_seed(0)
                    for source in sources:
                        f.write(json.dumps(statement(source, names)) + "\n")
                        f.flush()
                os._exit(0)
            os.waitpid(child, 0)
            f.seek(0)
            done[key] = [json.loads(line) for line in f]
    return done


def under(python, how, given=""):
    path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONHASHSEED": "0", **({"PYTHONPATH": path} if how == "rushlight" else {})}
    with tempfile.TemporaryFile("w+") as f:
        command = [python] + (["-m", "rushlight"] if how == "rushlight" else []) + [__file__, "--run", how]
        subprocess.run(command, input=given, stdout=f, stderr=subprocess.DEVNULL if given else None, text=True, check=True, env=env, cwd=str(ROOT))
        f.seek(0)
        return json.load(f)


def plain(text):
    text = re.sub(r"rushlight", "torch", re.sub(r"0x[0-9a-f]+", "0x", text))
    return re.sub(r"\s+", " ", text).strip()


def equal(a, b):
    if a.startswith("!!") or b.startswith("!!"):
        return a.partition(":")[0] == b.partition(":")[0]
    a, b = plain(a), plain(b)
    if a == b:
        return True
    x, y = NUMBER.findall(a), NUMBER.findall(b)
    if len(x) != len(y) or re.sub(r"\s", "", NUMBER.sub("#", a)) != re.sub(r"\s", "", NUMBER.sub("#", b)):
        return False
    return all(p == q or abs(p - q) <= 1e-3 * max(1, abs(p)) or (p != p and q != q) for p, q in zip(map(float, x), map(float, y)))


def main():
    if sys.argv[1:2] == ["--run"]:
        answers, sys.stdout = sys.stdout, sys.stderr  # what modules print when they are imported is no answer
        return json.dump(collect() if sys.argv[2] == "collect" else run(sys.argv[2], json.load(sys.stdin)), answers)
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("oracle")
    cli.add_argument("names", nargs="*")
    cli.add_argument("--show", action="store_true")
    args = cli.parse_intermixed_args()
    programs = {k: v for k, v in under(args.oracle, "collect").items() if not args.names or any(n in k for n in args.names)}
    given = json.dumps(programs)
    first, again, ours = under(args.oracle, "torch", given), under(args.oracle, "torch", given), under(args.oracle, "rushlight", given)
    counted = same = whole = runs = 0
    for key, sources in programs.items():
        wrong = []
        for i, source in enumerate(sources):
            theirs = first[key][i] if i < len(first[key]) else "!! the process ended"
            if theirs.startswith("!!") or i >= len(again[key]) or not equal(theirs, again[key][i]):
                continue
            answer = ours[key][i] if i < len(ours[key]) else "!! the process ended"
            counted += 1
            if equal(answer, theirs):
                same += 1
            else:
                wrong.append((source, theirs, answer))
        runs += 1
        whole += not wrong
        if wrong and args.show:
            print("== " + key)
            for source, theirs, answer in wrong[:3]:
                print("  %s\n    PyTorch:   %s\n    rushlight: %s" % (source.strip()[:300], plain(theirs)[:300], plain(answer)[:300]))
    print("%d docstrings, %d with all answers equal; %d statements, %d equal: %.1f %%" % (runs, whole, counted, same, 100 * same / max(1, counted)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
