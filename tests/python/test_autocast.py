"""Autocast on the CPU: which operations run in bfloat16, which in float32, which in the type they are given (autocast.tsv)."""
import pathlib
import warnings

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn

ROWS = [line.split("\t") for line in (pathlib.Path(__file__).parent / "autocast.tsv").read_text().splitlines() if not line.startswith("#")]
MAKE = {"bf16": lambda *size: torch.ones(*size, dtype=torch.bfloat16), "f32": lambda *size: torch.ones(*size)}


@pytest.mark.parametrize("given,expression,dtype", ROWS)
def test_dtype(given, expression, dtype):
    with warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.bfloat16):
        warnings.simplefilter("ignore")
        result = eval(expression, {"torch": torch, "F": F, "nn": nn, "X": MAKE[given], "f": MAKE["f32"]})
    assert str(result.dtype).replace("rushlight", "torch") == dtype
