"""Sobol sequences of more dimensions than are stored here: their direction numbers are SciPy's. Sums are PyTorch's."""
import importlib.util

import pytest

import rushlight as torch
from rushlight import _sobol


def test_all_dimensions():
    if importlib.util.find_spec("scipy") is None:
        pytest.skip("needs SciPy, which has the direction numbers")
    assert torch.quasirandom.SobolEngine(21201).sobolstate.sum().item() == 341565579072477
    engine = torch.quasirandom.SobolEngine(5000, scramble=True, seed=3)
    assert engine.sobolstate.sum().item() == 82394633536386
    assert [round(x, 4) for x in engine.draw(1)[0, 4900:4904].tolist()] == [0.6109, 0.7593, 0.9926, 0.7028]


def test_both_tables_agree():
    if importlib.util.find_spec("scipy") is None:
        pytest.skip("needs SciPy, which has the direction numbers")
    stored, all_known = _sobol._stored(), _sobol._all_known()
    for here, there in zip(stored, all_known):
        assert torch.equal(here[1:], there[1:len(here)])


def test_without_scipy_it_says_what_is_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _sobol._all_known.cache_clear()
    with pytest.raises(NotImplementedError, match="SciPy"):
        torch.quasirandom.SobolEngine(1112)
    assert torch.quasirandom.SobolEngine(1111).draw(2).shape == (2, 1111)
