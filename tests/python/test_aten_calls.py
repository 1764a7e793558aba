"""What a TorchDispatchMode sees of whole networks is what PyTorch's sees: aten_calls.txt, which aten_calls.py prints."""
import aten_calls
import pytest

import rushlight as torch

# Networks whose lists differ still, each by operations that are one here and several there or the other way round.
DIFFER = {"elman", "lstm", "gru", "fused_attention", "transformer_encoder"}
NETWORKS, GOLDEN = aten_calls.networks(torch), aten_calls.golden()


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.xfail(strict=True)) if n in DIFFER else n for n in GOLDEN])
def test_calls(name):
    assert aten_calls.text(torch, name, NETWORKS[name]).split() == GOLDEN[name].split()
