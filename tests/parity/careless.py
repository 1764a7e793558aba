#!/usr/bin/env python3
"""Calls of careless programs beside PyTorch's: tests/parity/careless.py FOLDER [--seed S] [--calls N] [--show K] [NAME...]

FOLDER is that of opinfo.py, run by a Python that has PyTorch. Each sample of PyTorch's operator database is changed in one argument: another
dtype, rank, layout or value of a tensor, another number, None, a string. Both libraries are called, and what differs is printed in groups:
"other answer" (both compute), "refused" (only PyTorch computes), "other error" (the classes differ), "accepted" (only rushlight computes).
N is the number of calls per operator.
"""
import argparse
import collections
import os
import pathlib
import pickle
import random
import re
import resource
import signal
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
SECONDS = 60  # for the calls of one operator
DTYPES = "bool uint8 int32 int64 float16 bfloat16 float32 float64 complex64".split()


def numbers(torch, x, rng):
    return rng.choice([-1, 0, 1, 2, 7, True, 1.0, 2.5, -3, None, "a", float("nan"), float("inf"), torch.tensor(1), torch.tensor(1.5), (1,), 1j])


def tensors(torch, t, rng):
    def special(t):
        t = t.clone()
        if t.numel():
            t.view(-1)[rng.randrange(t.numel())] = rng.choice([float("nan"), float("inf"), -float("inf"), 0, -1, 100])
        return t
    n = t.dim()
    return rng.choice([
        lambda: t.to(getattr(torch, rng.choice(DTYPES))), lambda: t.to(getattr(torch, rng.choice(DTYPES))), lambda: t.to(getattr(torch, rng.choice(DTYPES))),
        lambda: t.sum() if n else t[None], lambda: t.narrow(rng.randrange(n), 0, 0), lambda: t.transpose(0, -1), lambda: t[None],
        lambda: t.select(rng.randrange(n), 0), lambda: special(t), lambda: special(t.float()), lambda: t.flatten(), lambda: rng.choice([1, 2.5, True, None, "a", [1, 2]]),
        lambda: t[:1].expand(t.shape), lambda: torch.cat([t, t], rng.randrange(n)), lambda: t.mT.contiguous().mT, lambda: t.clone().to(torch.complex64).conj(),
        lambda: t.new_zeros(()), lambda: t.new_ones(1), lambda: t.tolist()])()


def changed(torch, x, rng):
    if isinstance(x, torch.Tensor):
        return tensors(torch, x.detach(), rng)
    if isinstance(x, bool):
        return rng.choice([not x, 1, None, "a", 2.0])
    if isinstance(x, (int, float, complex)):
        return numbers(torch, x, rng)
    if isinstance(x, (list, tuple)) and x and rng.random() < .6:
        i = rng.randrange(len(x))
        return type(x)([*x[:i], changed(torch, x[i], rng), *x[i + 1:]])
    if isinstance(x, (list, tuple)):
        return rng.choice([[], list(x), tuple(x), list(x)[::-1], list(x) * 2, list(x)[:1], None, 1, "a", [1.5], [-1], [0, 0]])
    if isinstance(x, str):
        return rng.choice(["", "none", "mean", "bad", None, 1])
    if isinstance(x, torch.dtype):
        return getattr(torch, rng.choice(DTYPES))
    return rng.choice([None, 1, 1.5, "a", True, [1]])


def variants(torch, op, rng, n):
    """(input, args, kwargs) n times"""
    from torch.testing._internal.common_methods_invocations import SampleInput
    samples = []
    for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
        if dtype in op.supported_dtypes("cpu"):
            samples += rng.sample(found := list(op.sample_inputs("cpu", dtype)), min(len(found), 12))
    for _ in range(n if samples else 0):
        s = rng.choice(samples)
        args, kwargs = [s.input, *s.args], dict(s.kwargs)
        places = [*range(len(args)), *kwargs]
        where = rng.choice(places)
        of = args if isinstance(where, int) else kwargs
        try:
            of[where] = changed(torch, of[where], rng)
        except Exception:  # no such change of this argument: a dimension too few, say
            continue
        yield SampleInput(args[0], args=tuple(args[1:]), kwargs=kwargs)


def answer(side, op, sample):
    try:
        call = side.call(op, sample)
    except Exception as error:
        return "unmade", error
    try:
        return "result", side.take(call())
    except AssertionError as error:
        return "unmade", error
    except Exception as error:
        return "error", error


def kind(error):
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def one_operator(name, args, pipe):
    import torch
    import opinfo
    import rushlight
    from sides import Side
    torch.set_num_threads(1)
    op = next(op for op in opinfo.op_db if op.full_name == name)
    rng = random.Random(f"{args.seed} {name}")
    ref, cand = Side(torch), Side(rushlight)
    for sample in variants(torch, op, rng, args.calls):
        torch.manual_seed(0)
        rushlight.manual_seed(0)
        text = opinfo.describe("", sample).strip()
        pipe.write(pickle.dumps(("at", name, text, "", "")))
        pipe.flush()
        state = torch.get_rng_state()
        want = answer(ref, op, sample)
        draws = not torch.equal(state, torch.get_rng_state())
        got = answer(cand, op, sample)
        if "unmade" in (want[0], got[0]):
            continue
        told = None
        if want[0] == got[0] == "result":
            try:
                opinfo.compare(want[1], got[1], op, values=not draws and op.name not in opinfo.UNDEFINED and op.name not in opinfo.GAUGE and op.name not in opinfo.TIES)
            except Exception as error:
                told = "other answer", str(error)
        elif want[0] == "result":
            told = "refused", f"{type(got[1]).__name__}: {got[1]}"
        elif got[0] == "result":
            told = "accepted", f"{type(want[1]).__name__}: {want[1]}"
        elif kind(want[1]) != kind(got[1]):
            told = "other error", f"{type(got[1]).__name__}: {got[1]}  PyTorch: {type(want[1]).__name__}: {want[1]}"
        pipe.write(pickle.dumps(("did", name, text, *(told or ("", "")))))


def run_operator(name, args):
    """What one operator's child told, its end included."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
        signal.alarm(SECONDS)
        with os.fdopen(write, "wb") as pipe:
            one_operator(name, args, pipe)
            pipe.flush()
            os._exit(0)
    os.close(write)
    told, at = [], None
    with os.fdopen(read, "rb") as pipe:
        while True:
            try:
                row = pickle.load(pipe)
            except (EOFError, pickle.UnpicklingError):
                break
            at = row if row[0] == "at" else None
            if row[0] == "did":
                told.append(row[1:])
    status = os.waitpid(child, 0)[1]
    if status and at:
        told.append((name, at[2], "died", f"status {status}"))
    return told


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("folder")
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--calls", type=int, default=100)
    cli.add_argument("--show", type=int, default=400)
    cli.add_argument("--kinds", default="died,other answer,refused,other error,accepted")
    cli.add_argument("names", nargs="*")
    args = cli.parse_intermixed_args()
    warnings.simplefilter("ignore")
    sys.path.insert(0, args.folder)
    import opinfo
    import rushlight  # noqa: F401  (the children have both already)
    names = sorted(op.full_name for op in opinfo.op_db if op.name not in opinfo.UNSUPPORTED and (not args.names or op.name in args.names))
    counts, groups = collections.Counter(), collections.defaultdict(list)
    for name in names:
        for who, text, what, why in run_operator(name, args):
            counts[what] += 1
            if what:
                groups[what, who, re.sub(r"[0-9]+", "#", why)[:70]].append((text, why))
    for what in args.kinds.split(","):
        for (_, who, _), found in sorted((g for g in groups.items() if g[0][0] == what), key=lambda g: -len(g[1]))[:args.show]:
            print(f"{what}\t{who}\t{len(found)}\t{min(found, key=lambda f: len(f[0]))[0][:200]}\t" + " ".join(found[0][1].split())[:260])
    print(*(f"{what or 'the same'}: {n}" for what, n in sorted(counts.items())), sep=", ")


main()
