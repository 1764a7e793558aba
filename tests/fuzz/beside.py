#!/usr/bin/env python3
"""The calls of the fuzzer of operations under PyTorch and under rushlight: do the same numbers come out?

    tests/fuzz/beside.py --torch PYTHON [--package python] [--calls N] [--seed S] [--refused] [--odd] [NAME...]

rushlight draws the calls (drawing.py) and makes them, each from a seed of its own; PYTHON, which has PyTorch, makes the same ones.
Compared are results, what the call left in its arguments, their gradients; with --refused also calls that only PyTorch takes.
Printed are three differences of an operation at most, with the line that repeats them (operations.py --line). Calls with
infinities or NaN among the elements are compared with --odd only: there PyTorch's own loops differ from each other.
Ends with 1 if numbers differ. To be judged by somebody: not all that PyTorch computes is right.
"""
import argparse
import collections
import json
import math
import mmap
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 20  # of a call
BLOCK = 60    # calls of one operation in a row
MOST = 3000   # elements of a result that are looked at
# What is uninitialised, or of an implementation: storages, addresses, the words of conversions.
OTHERS = re.compile(r"empty|resize|py\.(stale|storage|wrapper|convert|format|keep)|rrelu_with_noise|_unsafe_view|from_file|_lu|slogdet|eig|svd|qr|get_device")
NEAR = {"float64": 1e-7, "complex128": 1e-7, "float32": 2e-3, "complex64": 2e-3, "float16": 3e-2, "bfloat16": 1e-1, "complex32": 5e-2}


# ---- in a process of either library ----

def numbers(torch, x):
    if x.is_complex():
        x = torch.view_as_real(x.resolve_conj().to(torch.complex128))
    return x.to(torch.float64).reshape(-1).tolist()


def told(torch, x, deep=0):
    """What a result is, as JSON can carry it."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        look = x.device.type != "meta" and x.numel() < MOST
        if look and x.layout != torch.strided:
            x, layout = x.to_dense(), str(x.layout)
        else:
            layout = str(x.layout)
        return {"tensor": [str(x.dtype)[6:], list(x.shape), layout, x.device.type], "values": numbers(torch, x.int_repr() if x.is_quantized else x) if look else None}
    if isinstance(x, (list, tuple)):
        return [told(torch, y, deep + 1) for y in x[:50]] if deep < 5 else None
    return {"number": float(x)} if isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < 1e300 else {"is": repr(x)[:200] if x is None or isinstance(x, (bool, str)) else type(x).__name__}


def outcome(torch, lines, i, line):
    torch.manual_seed(i)
    signal.alarm(SECONDS)
    try:
        result = told(torch, lines.run(line))
        left = [[told(torch, x), told(torch, x.grad) if x.is_leaf and x.grad is not None else None] for x in lines.seen]
        return {"result": result, "left": left}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    finally:
        signal.alarm(0)


def in_children(first, last, one):
    """one(i) for each, in a child; where that dies another goes on behind it."""
    board = mmap.mmap(-1, 8)
    while first < last:
        board[:] = first.to_bytes(8, "little")
        pid = os.fork()
        if not pid:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            for i in range(first, last):
                board[:] = i.to_bytes(8, "little")
                one(i)
            os._exit(0)
        if not os.waitpid(pid, 0)[1]:
            return
        first = int.from_bytes(board[:], "little") + 1


def library(name):
    if name == "torch":
        import torch
        sys.modules["rushlight"] = torch
    else:
        import rushlight as torch
    sys.path.insert(0, str(HERE))
    import lines
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    return torch, lines


def draw(to, calls, seed, names):
    torch, lines = library("rushlight")
    import drawing
    drawing.BLOCK = BLOCK
    caller = drawing.Caller(names, seed)
    caller.names = [n for n in caller.names if not OTHERS.search(n)]
    file = open(to, "a", buffering=1)

    def one(i):
        name, line, given = caller.draw(i, ())
        if "changing" in line or "object()" in line:  # no two runs of these are alike
            return
        what = outcome(torch, lines, i, line)
        if "result" in what:
            caller.remember(i, name, given)
        file.write(json.dumps([i, line, what]) + "\n")

    in_children(0, calls, one)


def repeat(path, to):
    torch, lines = library("torch")
    todo = [json.loads(row)[:2] for row in open(path)]
    file = open(to, "a", buffering=1)
    in_children(0, len(todo), lambda k: file.write(json.dumps([*todo[k], outcome(torch, lines, *todo[k])]) + "\n"))


# ---- comparing ----

def near(a, b, tolerance):
    if a == b or (a != a and b != b):
        return True
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance * (0.1 + max(abs(a), abs(b)))


def difference(a, b, where):
    """In words; None if there is none."""
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return f"{where}: {len(a)} instead of {len(b)}"
        return next((d for k, (x, y) in enumerate(zip(a, b)) if (d := difference(x, y, f"{where}[{k}]"))), None)
    if not isinstance(a, dict) or not isinstance(b, dict) or a.keys() != b.keys():
        return f"{where}: {a} instead of {b}"[:200] if a != b else None
    if "tensor" in a:
        if a["tensor"] != b["tensor"]:
            return f"{where}: {a['tensor']} instead of {b['tensor']}"
        for x, y in zip(a["values"] or (), b["values"] or ()):
            if not near(x, y, NEAR.get(a["tensor"][0], 0)):
                return f"{where}: {x} instead of {y}"
        return None
    if "number" in a:
        return None if near(a["number"], b["number"], 1e-3) else f"{where}: {a['number']} instead of {b['number']}"
    return f"{where}: {a['is']} instead of {b['is']}" if a != b else None


def compare(ours, theirs, refused, odd):
    mine = {i: what for i, _, what in map(json.loads, open(ours))}
    found, both = collections.defaultdict(list), 0
    for i, line, what in map(json.loads, open(theirs)):
        name = re.search(r'(?:op|call)\("([^"]*)"', line).group(1)
        if "result" not in what or (not odd and re.search(r'"(?:b?float|complex)\d+\w*", \d*0\b', line)):
            continue
        if "error" in mine[i]:
            if refused:
                found[name].append((f"refused: {mine[i]['error']}", line))
            continue
        both += 1
        words = difference(mine[i]["result"], what["result"], "result")
        if not words:
            words = difference([x for x, _ in mine[i]["left"]], [x for x, _ in what["left"]], "argument")
        if not words:  # a gradient of zeros need not be there
            words = next((d for k, (x, y) in enumerate(zip(mine[i]["left"], what["left"])) if x[1] and y[1] and (d := difference(x[1], y[1], f"gradient[{k}]"))), None)
        if words:
            found[name].append((words, line))
    for name, rows in sorted(found.items()):
        for words, line in rows[:3]:
            print(f"{name} ({len(rows)}): {words}\n    {line}")
    wrong = sum(not words.startswith("refused") for rows in found.values() for words, _ in rows)
    print(f"{len(mine)} calls, {both} of them answered by both, {wrong} differ, of {len(found)} operations")
    return wrong > 0


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--torch", required=True, help="a Python that has PyTorch")
    cli.add_argument("--package", type=pathlib.Path, default=HERE.parent.parent / "python", help="the folder of the package rushlight")
    cli.add_argument("--calls", type=int, default=20000)
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--refused", action="store_true")
    cli.add_argument("--odd", action="store_true")
    cli.add_argument("names", nargs="*")
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = pathlib.Path(folder, "ours"), pathlib.Path(folder, "theirs")
        work = pathlib.Path(folder, "work")  # what operations write comes here
        work.mkdir()
        start = f"import sys; sys.path.insert(0, {str(HERE)!r}); import beside; "
        subprocess.run([sys.executable, "-c", start + f"beside.draw({str(ours)!r}, {args.calls}, {args.seed}, {args.names})"], cwd=work, check=True,
                       env={**os.environ, "PYTHONPATH": str(args.package.resolve())})
        subprocess.run([args.torch, "-c", start + f"beside.repeat({str(ours)!r}, {str(theirs)!r})"], cwd=work, check=True, env={**os.environ, "PYTHONPATH": ""})
        return compare(ours, theirs, args.refused, args.odd)


if __name__ == "__main__":
    sys.exit(main())
