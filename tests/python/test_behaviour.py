"""Snippets of Python and what PyTorch answers to them: values, dtypes, strides, printing, classes and texts of errors.

Each line of behaviour.tsv, autograd.tsv and callers.tsv (what programs by others were seen to do) is a test. Another one is a snippet
whose answer PyTorch gave.
"""
import copy
import gc
import pathlib
import pickle
import re
import warnings
import weakref

import numpy as np
import pytest

import rushlight as torch

ROWS = [line.split("\t") for table in ("behaviour.tsv", "autograd.tsv", "callers.tsv")
        for line in (pathlib.Path(__file__).parent / table).read_text().splitlines() if not line.startswith("#")]


def describe(v):
    if isinstance(v, torch.Tensor) and v.layout != torch.strided:
        return ("S", str(v.layout), str(v.dtype), tuple(v.shape), repr(v.to_dense().tolist()))
    if isinstance(v, torch.Tensor):
        return ("T", str(v.dtype), tuple(v.shape), tuple(v.stride()), v.requires_grad, repr(v.detach().tolist()), type(v).__name__)
    if isinstance(v, torch.Size):
        return repr(v)
    if isinstance(v, (list, tuple)):
        return (type(v).__name__, [describe(i) for i in v])
    if isinstance(v, dict):
        return {k: describe(x) for k, x in v.items()}
    if isinstance(v, np.ndarray):
        return ("A", str(v.dtype), v.tolist())
    return repr(v)


def answer(snippet, before=lambda: None, after=lambda: None):
    """What a snippet answers; before() and after() stand around its run."""
    names = {"torch": torch, "np": np, "gc": gc, "weakref": weakref, "copy": copy, "pickle": pickle,
             "A": torch.arange(24).view(2, 3, 4), "Z": torch.zeros(3, 3), "O": torch.ones(2), "I": torch.tensor([1, 2, 4])}
    text = re.sub(r"\b(from |import |import_module\(')torch\b", r"\1rushlight", snippet.replace("@@", "\n"))
    code = compile(text, snippet, "exec" if ";" in snippet else "eval")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before()
        try:
            result = eval(code, names)
        except Exception as error:
            return "!! %s: %s" % (type(error).__name__, error)
        finally:
            after()
            if "set_printoptions" in snippet:
                torch.set_printoptions(profile="default", sci_mode=None)
        return describe(names.get("r") if ";" in snippet else result)


@pytest.mark.parametrize("snippet,wanted", ROWS)
def test_answer(snippet, wanted):
    got = str(answer(snippet)).replace("\n", "|").replace("\t", " ").replace("rushlight", "torch")
    if got != wanted and wanted.startswith("!! "):  # PyTorch's words, behind the operation's name
        kind, _, text = wanted.partition(": ")
        assert got.startswith(kind + ": ") and text in got
    else:
        assert got == wanted
