#!/usr/bin/env python3
"""The docstrings of public names: parameters, shapes and an example each, and are the examples true?

    tests/docstrings.py [ORACLE] [NAME...]

A name's docstring says every parameter of its signature (but those of COMMON, which the docstrings of the packages tell of once), names the
shapes of tensors where its package is of SHAPES, and has an example: lines of >>> and what they print. Each docstring's examples are one program, run
from seed 0 with torch, nn, F and data. Prints what is missing or false. ORACLE, a Python that has PyTorch, runs the same examples: what they print must be
what PyTorch prints. NAME: only names that contain it.
"""
import doctest
import enum
import importlib
import inspect
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = ("nn", "nn.functional", "linalg", "fft")
SPACES = SHAPES + ("nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.parametrizations", "nn.utils.parametrize", "optim", "optim.lr_scheduler", "optim.swa_utils", "utils.data")
COMMON = {"nn": ("device", "dtype", "inplace", "size_average", "reduce"), "nn.functional": ("inplace", "size_average", "reduce", "out"),
          "linalg": ("out",), "fft": ("out", "dtype", "layout", "device", "pin_memory", "requires_grad"), "nn.init": ("generator",), "nn.utils": ("foreach",),
          "optim": ("foreach", "maximize", "capturable", "differentiable", "fused"), "optim.lr_scheduler": ("last_epoch",)}
ABSENT = {"nn.functional.grouped_mm", "nn.functional.scaled_grouped_mm"}  # docs/not-supported.md: products of several groups
HIDDEN = ("args", "kwargs")  # of signatures that are told otherwise
WITHOUT_SHAPE = {"Module", "ModuleDict", "ModuleList", "Sequential", "Container", "ParameterDict", "ParameterList", "Buffer", "Parameter", "UninitializedBuffer",
                 "UninitializedParameter", "RNNBase", "RNNCellBase", "LinearCrossEntropyOptions", "factory_kwargs", "has_torch_function", "handle_torch_function",
                 "assert_int_or_pair", "ScalingType", "SwizzleType"}  # take no tensor, or any


def names():
    """(space, name, thing) of each public class and function of SPACES, without old names of others."""
    for space in SPACES:
        module = importlib.import_module("rushlight." + space)
        for name in sorted(getattr(module, "__all__", None) or dir(module)):
            thing = getattr(module, name, None)
            home = (getattr(thing, "__module__", None) or "torch").partition(".")[0]
            if name.startswith("_") or name in ("Tensor", "Module", "Parameter") and space not in ("nn",) or not callable(thing) or inspect.ismodule(thing) or inspect.isbuiltin(thing) or home not in ("torch", "rushlight"):
                continue
            if not (inspect.getdoc(thing) or "").startswith("The old name of "):
                yield space, name, thing


def parameters(thing):
    if isinstance(thing, enum.EnumMeta):  # members, not parameters
        return []
    try:
        return [p for p in inspect.signature(thing).parameters if not p.startswith("_") and p not in HIDDEN]
    except (ValueError, TypeError):
        return []


def untold():
    """Which of COMMON the packages' docstrings do not tell of."""
    for space, common in COMMON.items():
        words = re.findall(r"\w+", importlib.import_module("rushlight." + space).__doc__)
        yield from ("%s: its docstring lacks %s" % (space, name) for name in common if name not in words)


def examples(doc):
    return doctest.DocTestParser().get_examples(doc)


def missing(space, name, thing):
    """What a docstring lacks, as texts."""
    if space + "." + name in ABSENT or isinstance(thing, type) and issubclass(thing, Exception):
        return []
    doc = inspect.getdoc(thing) or ""
    told = doc.partition("\n\n")[2] if type(thing).__name__ == "function" and not inspect.isfunction(thing) else doc   # an operation's begins with its signatures
    words = set(re.findall(r"\w+", told.partition(">>>")[0])) | set(COMMON.get(space, ()))
    lacks = ["parameter " + p for p in parameters(thing) if p not in words]
    if space in SHAPES and name not in WITHOUT_SHAPE and not re.search(r"\bShapes?: ", told):
        lacks.append("shapes")
    if not any(e.want for e in examples(told)):
        lacks.append("an example")
    return lacks


def run(torch, key, doc):
    """What is false in a docstring's examples, as text."""
    torch.manual_seed(0)
    test = doctest.DocTestParser().get_doctest(doc, {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "data": torch.utils.data}, key, None, 0)
    said = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS).run(test, out=said.append)
    return "".join(said)


def main():
    if sys.argv[1:] == ["--run"]:    # under PyTorch
        import torch
        wrong = {key: text for key, text in ((key, run(torch, key, doc)) for key, doc in json.load(sys.stdin).items()) if text}
        return json.dump(wrong, sys.stdout)
    oracle = next((a for a in sys.argv[1:] if "/" in a), None)
    wanted = [a for a in sys.argv[1:] if "/" not in a]
    sys.path.insert(0, str(ROOT / "python"))
    import rushlight.as_torch
    import torch
    docs, lacking, false = {}, 0, 0
    for text in untold():
        lacking += 1
        print(text)
    for space, name, thing in names():
        key = space + "." + name
        if wanted and not any(w in key for w in wanted):
            continue
        lacks = missing(space, name, thing)
        lacking += bool(lacks)
        if lacks:
            print("%s lacks %s" % (key, ", ".join(lacks)))
        docs[key] = inspect.getdoc(thing) or ""
        wrong = run(torch, key, docs[key])
        false += bool(wrong)
        print(wrong, end="")
    print("%d names, %d lack something, %d have examples that are not true" % (len(docs), lacking, false))
    if oracle:
        done = subprocess.run([oracle, __file__, "--run"], input=json.dumps(docs), stdout=subprocess.PIPE, text=True, check=True).stdout
        wrong = json.loads(done)
        print("".join(wrong.values()) + "under PyTorch %d are not true" % len(wrong))
        false += len(wrong)
    return bool(lacking or false)


if __name__ == "__main__":
    sys.exit(main())
