"""Page-locked memory is an accelerator's: without one the makers of tensors refuse it, as PyTorch does."""
import pytest

import rushlight as torch

MAKERS = {
    "empty": lambda **kw: torch.empty(2, **kw), "full": lambda **kw: torch.full((2,), 1.0, **kw), "arange": lambda **kw: torch.arange(3, **kw),
    "tensor": lambda **kw: torch.tensor([1.0], **kw), "new_zeros": lambda **kw: torch.ones(1).new_zeros(2, **kw),
    "rand": lambda **kw: torch.rand(2, **kw), "randn_like": lambda **kw: torch.randn_like(torch.ones(2), **kw),
    "randperm": lambda **kw: torch.randperm(3, **kw),
}


@pytest.mark.parametrize("name", MAKERS)
def test_makers_refuse_what_nobody_can_lock(name):
    assert not MAKERS[name](pin_memory=False).is_pinned()
    with pytest.raises(RuntimeError, match="accelerator"):
        MAKERS[name](pin_memory=True)
