"""Snippets of Python and what they answer, under rushlight or PyTorch: tables of "snippet, tab, PyTorch's answer".

@@ is a new line; r is the result of several statements; A, Z, O and I are tensors.
"""
import copy
import gc
import pathlib
import pickle
import re
import warnings
import weakref

import numpy as np

FOLDER = pathlib.Path(__file__).parent


def rows(*tables):
    return [line.split("\t") for table in tables for line in (FOLDER / (table + ".tsv")).read_text().splitlines() if not line.startswith("#")]


def describe(torch, v):
    if isinstance(v, torch.Tensor) and v.layout != torch.strided:
        return ("S", str(v.layout), str(v.dtype), tuple(v.shape), repr(v.to_dense().tolist()))
    if isinstance(v, torch.Tensor):
        return ("T", str(v.dtype), tuple(v.shape), tuple(v.stride()), v.requires_grad, repr(v.detach().tolist()), type(v).__name__)
    if isinstance(v, torch.Size):
        return repr(v)
    if isinstance(v, (list, tuple)):
        return (type(v).__name__, [describe(torch, i) for i in v])
    if isinstance(v, dict):
        return {k: describe(torch, x) for k, x in v.items()}
    if isinstance(v, np.ndarray):
        return ("A", str(v.dtype), v.tolist())
    return repr(v)


def answer(torch, snippet, before=lambda: None, after=lambda: None):
    """What a snippet answers, in one line; before() and after() stand around its run."""
    names = {"__name__": __name__, "torch": torch, "np": np, "gc": gc, "weakref": weakref, "copy": copy, "pickle": pickle,
             "A": torch.arange(24).view(2, 3, 4), "Z": torch.zeros(3, 3), "O": torch.ones(2), "I": torch.tensor([1, 2, 4])}
    text = re.sub(r"\b(from |import |import_module\(')torch\b", r"\1" + torch.__name__, snippet.replace("@@", "\n"))
    code = compile(text, snippet, "exec" if ";" in snippet else "eval")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        before()
        try:
            result = eval(code, names)
        except Exception as error:
            return _line("!! %s: %s" % (type(error).__name__, error))
        finally:
            after()
            if "set_printoptions" in snippet:
                torch.set_printoptions(profile="default", sci_mode=None)
        return _line(str(describe(torch, names.get("r") if ";" in snippet else result)))


def _line(text):
    return text.replace("\n", "|").replace("\t", " ").replace("rushlight", "torch")


def kind(text):
    """Of an error, its class; of another answer, None."""
    return text.partition(": ")[0] if text.startswith("!! ") else None


def agrees(got, wanted):
    """Equal, or an error of the same kind with PyTorch's words in it."""
    return got == wanted or (kind(wanted) is not None and kind(got) == kind(wanted) and wanted.partition(": ")[2] in got)
