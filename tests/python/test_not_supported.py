"""docs/not-supported.md is right: every line of it raises NotImplementedError with a reason, and nothing is missing there."""
import os
import re

import pytest

import rushlight as torch
from rushlight import _absent

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "not-supported.md")


def entries():
    """The code in backticks of the list lines above the last heading, which is about differences, and the names that are printed there."""
    with open(PAGE) as page:
        text = page.read().split("## What is there and differs")[0]
    text = re.sub(r"<!-- names: .+ -->(?:\n.+)*", "", text)
    return [code for line in text.splitlines() if line.startswith("- ") for code in re.findall("`([^`]+)`", line)] + _absent.listed()


@pytest.mark.parametrize("code", entries())
def test_entry_says_that_it_is_not_supported(code):
    call = code if code.endswith(")") else code.replace("Tensor.", "torch.ones(2).", 1) + "()"
    with pytest.raises(NotImplementedError) as raised:
        eval(call, {"torch": torch})
    assert len(str(raised.value)) > 20


def test_page_has_all_names():
    with open(PAGE) as page:
        text = page.read()
    assert _absent.page(text) == text, "run: python3 python/rushlight/_absent.py docs/not-supported.md"
    assert set(re.findall("<!-- names: (.+) -->", text)) == set(_absent._TABLE)


def test_names_unknown_to_pytorch_are_attribute_errors():
    for place, name in ((torch, "no_such_name"), (torch.Tensor, "no_such_name"), (torch._C._nn, "no_such_name")):
        assert not hasattr(place, name)


def test_every_kind_of_device_can_be_seeded():
    assert [torch.mps.manual_seed(1), torch.xpu.manual_seed_all(2), torch.cuda.manual_seed_all(3)] == [None] * 3
    with pytest.raises(RuntimeError, match=r"Cannot execute getDefaultGenerator\(\) without MPS backend."):
        torch.mps.get_rng_state()


def test_removed_functions_say_what_to_use():
    with pytest.raises(RuntimeError, match="torch.linalg.eigh"):
        torch.symeig(torch.eye(2))
    with pytest.raises(RuntimeError, match="removed"):
        torch.eye(2).solve(torch.eye(2))


def test_from_file(tmp_path):
    path = str(tmp_path / "numbers")
    torch.from_file(path, shared=True, size=3).copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert torch.from_file(path, size=3).tolist() == [1.0, 2.0, 3.0]
    own = torch.from_file(path, False, 12, dtype=torch.uint8)
    own.zero_()     # the memory of this process alone
    shared = torch.from_file(path, True, 4)
    assert shared.tolist() == [1.0, 2.0, 3.0, 0.0] and shared.is_shared() and torch.from_file(path).shape == (0,)
    for args, kwargs, message in (((path, False, 5), {}, r"file <.*> size <16> is smaller than the required mapping size <20>"), ((path, True, -1), {}, r"unable to mmap -4 bytes"),
                                  ((path + ".none", False, 1), {}, r"unable to open file <.*> in read-only mode: No such file or directory \(2\)"),
                                  ((path, False, 1), {"layout": torch.sparse_coo}, "sparse")):
        with pytest.raises(RuntimeError, match=message):
            torch.from_file(*args, **kwargs)
    with pytest.raises(RuntimeError, match="is smaller than the required"):
        torch.UntypedStorage.from_file(path, False, 17)
