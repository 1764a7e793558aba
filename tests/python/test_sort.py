"""Equal elements of an unstable sort come in PyTorch's order: sums over the places, as PyTorch 2.13 has them."""
import pytest

import rushlight as torch

LENGTHS = [20, 129, 300, 2500, 70000]  # few, one block or several of a partition, and as many as threads share
PLACES = [  # dtype, how many values, descending, a number for each length
    ("float32", 2, False, [1747, 505959, 6389403, 297409408, 533674154]),
    ("float32", 2, True, [2027, 510182, 6400407, 501591955, 876150304]),
    ("float32", 100, False, [1968, 537977, 6738235, 378168850, 874441608]),
    ("float32", 100, True, [2032, 536327, 6749181, 414458807, 27296328]),
    ("float32", 30011, False, [1963, 508894, 6766153, 420118664, 57397204]),
    ("float32", 30011, True, [2027, 564386, 6733309, 413671455, 337081011]),
    ("int64", 7, False, [2090, 522296, 6636645, 370582496, 513672308]),
    ("int64", 7, True, [1903, 527059, 6617758, 255460770, 537770682]),
    ("int64", 5003, False, [2002, 543289, 6746265, 412372648, 14506809]),
    ("int64", 5003, True, [1988, 529991, 6753585, 427901271, 72952161]),
    ("bfloat16", 100, False, [1968, 537977, 6738235, 378168850, 874441608]),
    ("bfloat16", 100, True, [2032, 536327, 6749181, 414458807, 27296328]),
    ("uint8", 200, False, [2330, 541766, 6768415, 396443283, 910048146]),
    ("uint8", 200, True, [1650, 530674, 6734229, 489821560, 218953727]),
    ("float64", 30011, False, [1963, 508894, 6766153, 420118664, 57397204]),
    ("float64", 30011, True, [2027, 564386, 6733309, 413671455, 337081011]),
]


@pytest.mark.parametrize("dtype, span, descending, sums", PLACES)
def test_equal_elements_come_in_order(dtype, span, descending, sums):
    for n, expected in zip(LENGTHS, sums):
        at = torch.arange(n)
        x = (at * at % 1000003 * 7919 % span).to(getattr(torch, dtype))
        if x.is_floating_point():
            x[::97] = float("nan")
        places = x.reshape(1, -1).sort(descending=descending)[1][0]
        assert int((places * (at % 1009 + 1)).sum() % 1000000007) == expected, n


def test_bytes_are_counted():
    torch.manual_seed(0)
    for dtype, low, high in ((torch.bool, 0, 2), (torch.uint8, 0, 256), (torch.int8, -128, 128)):
        x = torch.randint(low, high, (3, 70, 5)).to(dtype)
        for dim in (1, -3):
            for t in (x, x.transpose(0, 1).contiguous().transpose(0, 1), x.repeat(20, 1, 1)):
                for descending in (False, True):
                    values, places = t.sort(stable=True, dim=dim, descending=descending)
                    wanted = t.int().sort(stable=True, dim=dim, descending=descending)
                    assert values.dtype == dtype and torch.equal(values.int(), wanted[0]) and torch.equal(places, wanted[1])
