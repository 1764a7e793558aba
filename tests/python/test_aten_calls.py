"""What a TorchDispatchMode sees of whole networks is what PyTorch's sees: aten_calls.txt, which aten_calls.py prints."""
import aten_calls
import pytest

import rushlight as torch

NETWORKS, GOLDEN = aten_calls.networks(torch), aten_calls.golden()


@pytest.mark.parametrize("name", GOLDEN)
def test_calls(name):
    assert aten_calls.text(torch, name, NETWORKS[name]).split() == GOLDEN[name].split()
