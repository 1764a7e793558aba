"""Arguments that are broken on purpose: an error or a result, never a crash. What the fuzzers found stands here, one case for each cause."""
import pytest

import rushlight as torch


class Changing:
    """A number whose conversion changes the list that it is in."""
    def __init__(self, target, change):
        self.target, self.change = target, change

    def __index__(self):
        self.change(self.target)
        return 1

    def __float__(self):
        return float(self.__index__())


CHANGES = [lambda x: x.clear(), lambda x: x.extend([1] * 10000), lambda x: x.__setitem__(slice(None), [object() for _ in x])]
ONES = torch.ones(1, 1, 1, 1)
READERS = [
    lambda x: ONES.view(x), lambda x: torch.zeros(x), lambda x: ONES.sum(x), lambda x: ONES.permute(x), lambda x: ONES.expand(size=x),
    lambda x: torch.tensor(x), lambda x: torch.tensor(x, dtype=torch.float32), lambda x: torch.tensor([x, [1, 1, 1, 1]]), lambda x: torch.FloatTensor(x),
    lambda x: ONES.new_tensor(x), lambda x: torch.Size(x), lambda x: torch.zeros(3).index_add(0, torch.tensor([0]), torch.ones(1)).tile(x),
    lambda x: torch._foreach_add([torch.ones(1)] * 4, x), lambda x: torch.histogramdd(torch.rand(3, 2), [2, 2], range=x), lambda x: ONES[[None, *x[:0], x]],
    lambda x: torch.nn.functional.pad(ONES, x), lambda x: torch.nn.functional.interpolate(ONES, x), lambda x: torch.randn(x), lambda x: torch.as_strided(ONES, x, x),
    lambda x: torch.set_default_dtype(torch.float32) or torch.empty(x, names=None), lambda x: ONES[x], lambda x: ONES.__setitem__(x, 1),
]


@pytest.mark.parametrize("n", range(len(READERS)))
@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_lists_that_change_while_they_are_read(n, change):
    for length in (1, 2, 4, 40):
        items = []
        items.extend(Changing(items, CHANGES[change]) for _ in range(length))
        try:
            READERS[n](items)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            pass


def test_in_place_forms_that_do_not_exist():
    for name in ("where_", "item_", "polygamma_", "zeros_", "sum_", "_foreach_add__"):
        with pytest.raises(AttributeError):
            getattr(torch.ops.aten, name)
