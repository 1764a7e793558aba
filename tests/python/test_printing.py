"""What is printed: tensors, modules and what is around them, byte for byte as PyTorch prints it.

printed.tsv was written by PyTorch 2.13: arguments for set_printoptions, an expression, its text.
"""
import pathlib
import warnings

import pytest

import rushlight as torch

ROWS = [line.split("\t") for line in (pathlib.Path(__file__).parent / "printed.tsv").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")]
NAMES = {"torch": torch, "nn": torch.nn, "inf": float("inf"), "nan": float("nan")}


@pytest.fixture
def printing():
    yield
    torch.set_printoptions(profile="default")
    torch.set_printoptions(sci_mode=None)


@pytest.mark.parametrize("options,expression,text", ROWS)
def test_printed(options, expression, text, printing):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options:
            eval("torch.set_printoptions(%s)" % options, NAMES)
        value = eval(expression, NAMES)
    shown = value if expression.startswith(("f'", "str(", "'%")) else repr(value)
    assert shown.replace("rushlight", "torch") == text.replace("⏎", "\n")
