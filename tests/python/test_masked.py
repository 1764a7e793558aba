"""MaskedTensor: what PyTorch answers (masked.tsv, read as nested.tsv is), and gradients against those of what the mask has."""
import pathlib

import pytest

import rushlight as torch
from rushlight.masked import as_masked_tensor, masked_tensor
from test_nested import compare

ROWS = [line.split("\t") for line in (pathlib.Path(__file__).parent / "masked.tsv").read_text().splitlines() if not line.startswith("#")]
SETUP = '''
import copy, pickle, io
import rushlight as torch
from rushlight.masked import masked_tensor, MaskedTensor, as_masked_tensor, is_masked_tensor
d = torch.tensor([[1., 2., 3.], [4., 5., 6.]])
k = torch.tensor([[True, False, True], [False, False, True]])
m = masked_tensor(d, k)
e, f = d * k, torch.tensor([[0., 2., 3.], [4., 0., 0.]])
s, c = masked_tensor(e.to_sparse(), k.to_sparse()), masked_tensor(e.to_sparse_csr(), k.to_sparse_csr())
other, other2 = masked_tensor(f.to_sparse(), (f != 0).to_sparse()), masked_tensor(f.to_sparse_csr(), (f != 0).to_sparse_csr())
d3, d4, t2 = torch.tensor([[[0., 1.], [2., 0.]], [[3., 0.], [0., 4.]]]), torch.eye(4).flip(0), torch.ones(2, 3)


def grad_of(f, x, leaf):
    y = f(x)
    (y.sum() if y.dim() else y).backward()
    return leaf.grad


def G(f):
    x = masked_tensor(d.clone(), k, requires_grad=True)
    return grad_of(f, x, x)


def H(f):
    x = d.clone().requires_grad_()
    return grad_of(f, as_masked_tensor(x, k), x)
'''


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("snippet,wanted", ROWS)
def test_answer(snippet, wanted):
    names = {}
    exec(SETUP, names)
    compare(snippet, wanted, names)


def data():
    torch.manual_seed(0)
    return torch.randn(3, 4, dtype=torch.float64), torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)


# Of a masked tensor, and of its row of what the mask has.
SAME = {"exp": lambda x: x.exp(), "square": lambda x: x * x / (x * x + 1), "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1) ** 2,
        "softmax": lambda x: x.softmax(-1).log(), "var": lambda x: x.var(-1), "std": lambda x: x.std(-1), "prod": lambda x: x.prod(-1),
        "amax": lambda x: x.amax(-1), "chain": lambda x: (x * 2 + 1).tanh().sum(-1).exp(), "moved": lambda x: x.unsqueeze(0).sin().squeeze(0)}


@pytest.mark.parametrize("name", SAME)
def test_rows_and_their_gradients(name):
    numbers, mask = data()
    x = masked_tensor(numbers, mask, requires_grad=True)
    y = SAME[name](x)
    (y * y).sum().backward()
    assert torch.equal(x.grad.get_mask(), mask)
    for row, there, grad, result, has in zip(numbers, mask, x.grad.get_data(), y.get_data(), y.get_mask()):
        t = row[there].requires_grad_()
        wanted = SAME[name](t)
        (wanted * wanted).sum().backward()
        torch.testing.assert_close(result[has if has.dim() else ...], wanted.detach(), equal_nan=True)
        torch.testing.assert_close(grad[there], t.grad, equal_nan=True)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_gradients_of_sparse_layouts(layout):
    numbers, mask = data()
    dense = masked_tensor(numbers, mask, requires_grad=True)
    x = masked_tensor(numbers.to_sparse(layout=layout), mask.to_sparse(layout=layout), requires_grad=True)
    f = lambda x: (x.sin() * x + 2).sum()
    f(dense).backward()
    f(x).backward()
    assert x.grad.layout == layout
    torch.testing.assert_close(x.grad.to_tensor(0.), dense.grad.to_tensor(0.))
    x.grad = None
    f(x.to_dense()).backward()
    torch.testing.assert_close(x.grad.to_tensor(0.), dense.grad.to_tensor(0.))
    y = masked_tensor(numbers, mask, requires_grad=True)
    f(y.to_sparse_coo() if layout == torch.sparse_coo else y.to_sparse_csr()).backward()
    torch.testing.assert_close(y.grad.to_tensor(0.), dense.grad.to_tensor(0.))
    assert x.detach().clone().add_(1).sum().item() == (masked_tensor(numbers, mask) + 1).sum().item()


def test_no_nan_from_behind_the_mask():
    x = torch.tensor([1., 1.], requires_grad=True)
    divisor = torch.tensor([0., 1.])
    as_masked_tensor(x / divisor, divisor != 0).sum().backward()
    assert x.grad.get_mask().tolist() == [False, True] and x.grad[1].item() == 1


def test_a_dense_operand_has_a_masked_gradient():
    numbers, mask = data()
    w = torch.ones(4, dtype=torch.float64, requires_grad=True)
    (masked_tensor(numbers, mask) * w).sum().backward()
    torch.testing.assert_close(w.grad.to_tensor(0.), (numbers * mask).sum(0))


def test_masked_functions_take_masked_tensors():
    numbers, mask = data()
    m = masked_tensor(numbers, mask)
    for name, args in (("sum", (1,)), ("mean", (1,)), ("amax", ()), ("softmax", (1,)), ("median", (1,)), ("var", (0,)), ("norm", (2., 1)), ("cumsum", (1,))):
        f = getattr(torch.masked, name)
        torch.testing.assert_close(f(m, *args), f(numbers, *args, mask=mask), equal_nan=True)
    half = torch.tensor([True, True, False, False]).expand(3, 4)
    torch.testing.assert_close(torch.masked.sum(m, 1, mask=half), (numbers * (mask & half)).sum(1))


def test_refusals():
    numbers, mask = data()
    with pytest.raises(TypeError, match="same layout"):
        masked_tensor(numbers.to_sparse(), mask)
    with pytest.raises(ValueError, match="masked out"):
        masked_tensor(torch.tensor(1.), torch.tensor(False)).item()
    with pytest.raises(ValueError, match="masks must match"):
        masked_tensor(numbers, mask) + masked_tensor(numbers, ~mask)
    with pytest.raises(TypeError, match="sort"):
        masked_tensor(numbers, mask).sort()


def test_sparse_data_and_masks_have_the_same_entries():
    here, there = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([[0, 1, 1], [2, 1, 2]])
    value, true = torch.tensor([3.0, 4.0, 5.0]), torch.tensor([True, True, True])
    with pytest.raises(ValueError, match="sparse COO tensors but do not have the same indices"):
        masked_tensor(torch.sparse_coo_tensor(here, value, (2, 4)), torch.sparse_coo_tensor(there, true, (2, 4)))
    x = masked_tensor(torch.sparse_coo_tensor(here.flip(1), value, (2, 4)), torch.sparse_coo_tensor(here, true, (2, 4)))
    assert x.get_data().to_dense().tolist() == [[0, 0, 5, 0], [4, 0, 3, 0]]
    for rows, columns in (([0, 1, 3], [0, 1, 2]), ([0, 2, 3], [1, 2, 3])):
        with pytest.raises(ValueError, match="do not share either crow or col indices"):
            masked_tensor(torch.sparse_csr_tensor([0, 2, 3], [0, 1, 2], value, (2, 4)), torch.sparse_csr_tensor(rows, columns, true, (2, 4)))
    for f in (x.is_contiguous, x.contiguous):
        with pytest.raises(ValueError, match="do not have is_contiguous"):
            f()


def test_windows_of_masked_tensors():
    data, mask = torch.arange(8.0).view(1, 2, 2, 2), torch.arange(8).view(1, 2, 2, 2) % 3 > 0
    for x in (masked_tensor(data, mask), masked_tensor(data, mask).transpose(2, 3).contiguous().transpose(2, 3)):
        y = torch.nn.functional.unfold(x, (1, 2))
        assert y.get_mask().tolist() == [[[False, True], [True, False], [True, False], [True, True]]]
        z = torch.nn.functional.fold(y, (2, 2), (1, 2))
        assert torch.equal(z.get_mask(), mask) and torch.equal(z.to_tensor(0), data * mask)
    x = masked_tensor(torch.ones(2, 3), torch.tensor([[True, False, True], [True, True, False]]), requires_grad=True)
    x.unfold(1, 2, 1).sum().backward()
    assert x.grad.to_tensor(0).tolist() == [[1, 0, 1], [1, 2, 0]]
    assert masked_tensor(torch.ones(2), torch.tensor([True, False])).clip_(2, 3).to_tensor(0).tolist() == [2, 0]
