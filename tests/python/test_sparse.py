"""Sparse tensors: made, shown, converted, computed with, and their gradients, against dense tensors and PyTorch's text."""
import copy
import io
import pickle
import warnings

import pytest
import rushlight as torch

F64 = torch.float64
INDICES, VALUES = [[0, 1, 1, 1], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 6.0]
LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def coo(coalesced=False, grad=False, dtype=F64):
    t = torch.sparse_coo_tensor(INDICES, VALUES, (2, 3), dtype=dtype)
    return (t.coalesce() if coalesced else t).detach().requires_grad_(grad)


def hybrid(grad=False):
    return torch.sparse_coo_tensor([[0, 1, 1]], torch.arange(1.0, 10, dtype=F64).reshape(3, 3), (2, 3)).requires_grad_(grad)


def random(*size, seed=0, density=0.5):
    torch.manual_seed(seed)
    t = torch.randn(*size, dtype=F64)
    return t * (torch.rand(*size) < density)


def in_layout(t, layout):
    return t.to_sparse(layout=layout, blocksize=(2, 2) if layout in LAYOUTS[3:] else None)


def same(a, b):
    a, b = (x.to_dense() if isinstance(x, torch.Tensor) else x for x in (a, b))
    return torch.allclose(a, b, rtol=1e-9, atol=1e-12)


# ---- making and telling

def test_text():
    assert repr(coo(dtype=torch.float32)) == (
        "tensor(indices=tensor([[0, 1, 1, 1],\n                       [2, 0, 2, 2]]),\n       values=tensor([3., 4., 5., 6.]),\n"
        "       size=(2, 3), nnz=4, layout=torch.sparse_coo)")
    assert repr(coo(True, dtype=torch.float32).to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([ 3.,  4., 11.]), size=(2, 3), nnz=3,\n       layout=torch.sparse_csr)")
    assert repr(torch.sparse_coo_tensor((2, 3))) == (
        "tensor(indices=tensor([], size=(2, 0)),\n       values=tensor([], size=(0,)),\n"
        "       size=(2, 3), nnz=0, layout=torch.sparse_coo)")
    assert repr(coo(grad=True)).endswith("size=(2, 3), nnz=4, dtype=torch.float64, layout=torch.sparse_coo,\n       requires_grad=True)")


def test_what_it_tells():
    s = coo()
    assert (s.layout, s.is_sparse, s.is_sparse_csr, s.numel(), s.dim(), s._nnz()) == (torch.sparse_coo, True, False, 6, 2, 4)
    assert (s.sparse_dim(), s.dense_dim(), s.is_coalesced(), s.stride(), s.is_contiguous()) == (2, 0, False, (0, 0), False)
    assert s._indices().tolist() == INDICES and s._values().tolist() == VALUES
    with pytest.raises(RuntimeError, match="uncoalesced tensor, please call .coalesce"):
        s.indices()
    c = s.coalesce()
    assert c.indices().tolist() == [[0, 1, 1], [2, 0, 2]] and c.values().tolist() == [3, 4, 11] and c.is_coalesced()
    assert (hybrid().sparse_dim(), hybrid().dense_dim()) == (1, 1)
    assert torch.ones(2).sparse_dim() == 0 and torch.ones(2).dense_dim() == 1
    r = c.to_sparse_csr()
    assert r.is_sparse_csr and not r.is_sparse and r.crow_indices().tolist() == [0, 1, 3] and r.col_indices().tolist() == [2, 0, 2]
    with pytest.raises(RuntimeError, match="ccol_indices expected sparse column compressed tensor layout but got SparseCsr"):
        r.ccol_indices()


@pytest.mark.parametrize("build, message", [
    (lambda: torch.sparse_coo_tensor([0, 1], [1.0, 2.0], (2, 2)), r"indices must be sparse_dim x nnz, but got: \[2\]"),
    (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (2,)), "must have same nnz, but got nnz from indices: 2, nnz from values: 3"),
    (lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 2)), r"len\(size\) = 2, sparse_dim = 1, dense_dim = 0"),
    (lambda: torch.sparse_coo_tensor([[0, 1]], [[1.0, 2], [1, 2]], (2, 3)), r"values has incorrect size, expected \[2, 3\], got \[2, 2\]"),
    (lambda: torch.sparse_coo_tensor([[0, -1]], [1.0, 2.0]), "found negative index -1 for dim 0"),
    (lambda: torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (2,), check_invariants=True), "for dim 0, size is 2 but found index 2"),
    (lambda: torch.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True, check_invariants=True), "cannot set is_coalesced to true"),
    (lambda: torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (2,)).to_dense(), "size is 2 but found index 2"),
    (lambda: torch.sparse_csr_tensor([0, 1, 2], [0, 2], [1.0, 2.0], (2, 2), check_invariants=True), "`0 <= col_indices < ncols` is not satisfied"),
    (lambda: torch.sparse_csr_tensor([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True), r"`crow_indices\[..., 0\] == 0`"),
    (lambda: torch.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True), r"`crow_indices\[..., -1\] == nnz`"),
    (lambda: torch.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2), check_invariants=True), "sorted and distinct"),
    (lambda: torch.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2.0], (2, 2), check_invariants=True), r"number of rows \+ 1 \(=3\), but got 2"),
    (lambda: torch.sparse_csr_tensor([0, 5, 2], [0, 1], [1.0, 2.0], (2, 2)).to_dense(), "do not count from 0 to nnz"),
    (lambda: torch.sparse_bsr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (4, 4), check_invariants=True), "sum of batch and block dimensionalities"),
    (lambda: torch.sparse_compressed_tensor([0, 1], [0], [1.0], (1, 1)), "expected sparse compressed tensor layout but got none"),
    (lambda: torch.ones(2, 3).to_sparse_bsr((2, 2)), r"tensor sparse size \(2,3\) must be divisible by given blocksize \(2,2\)"),
    (lambda: torch.tensor([[[1.0, 0], [0, 1]], [[0, 0], [0, 0]]]).to_sparse_csr(), "the same number of specified elements per batch"),
])
def test_wrong_parts(build, message):
    with pytest.raises(RuntimeError, match=message):
        build()


def test_invariants_switch():
    check = torch.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    with check(), pytest.raises(RuntimeError, match="found index 5"):
        torch.sparse_coo_tensor([[5]], [1.0], (2,))
    assert not check.is_enabled() and torch.sparse_coo_tensor([[5]], [1.0], (2,))._nnz() == 1


# ---- between layouts

@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.complex64, torch.float16, torch.bfloat16])
def test_there_and_back(layout, dtype):
    d = random(4, 6).mul(4).to(dtype)
    s = in_layout(d, layout)
    assert s.layout is layout and s.dtype is dtype and torch.equal(s.to_dense(), d)
    assert torch.equal(s.to_sparse().to_dense(), d)
    if layout in LAYOUTS[:3]:
        for other in LAYOUTS:
            assert torch.equal(in_layout(s, other).to_dense(), d)


def test_batches_and_dense_dimensions():
    d = torch.tensor([[[1.0, 0], [0, 2]], [[0, 3], [4, 0]]])
    s = d.to_sparse_csr()
    assert s.crow_indices().tolist() == [[0, 1, 2], [0, 1, 2]] and s.col_indices().tolist() == [[0, 1], [1, 0]]
    assert torch.equal(s.to_dense(), d) and torch.equal(s[1].to_dense(), d[1]) and torch.equal(s.mT.to_dense(), d.mT)
    h = d.to_sparse_csr(dense_dim=1)
    assert h.dense_dim() == 1 and torch.equal(h.to_dense(), d)
    assert torch.equal(d.to_sparse(1).to_dense(), d) and d.to_sparse(1).dense_dim() == 2
    assert torch.tensor(3.0).to_sparse()._nnz() == 1 and torch.tensor(0.0).to_sparse()._nnz() == 0
    assert torch.ones(0, 2).to_sparse().to_dense().shape == (0, 2)


def test_values_that_share_a_place_add_up():
    s = coo()
    assert s.to_dense().tolist() == [[0, 0, 3], [4, 0, 11]]
    b = torch.sparse_coo_tensor([[0, 0]], [True, True], (2,))
    assert b.coalesce().values().tolist() == [True] and b.to_dense().tolist() == [True, False]
    assert torch.sparse_coo_tensor(torch.zeros(0, 2), torch.tensor([5.0, 6]), ()).coalesce().values().tolist() == [11]


# ---- arithmetic

def test_sums():
    s, c, d = coo(), coo(True), torch.ones(2, 3, dtype=F64)
    assert (s + s)._values().tolist() == [6, 8, 10, 12]
    assert (s + c)._values().tolist() == [6, 8, 16, 6] and not (s + c).is_coalesced() and (c + c).is_coalesced()
    assert torch.equal(d + s, d + s.to_dense()) and torch.equal(torch.add(d, s, alpha=2), d + 2 * s.to_dense())
    assert torch.equal(d - s, d - s.to_dense())
    e = d.clone()
    e.add_(s, alpha=-1)
    assert torch.equal(e, d - s.to_dense())
    w = torch.ones(3, 2, dtype=F64).t()    # not contiguous
    assert torch.equal(w.add_(s), d + s.to_dense())
    with pytest.raises(RuntimeError, match=r"Use add\(dense, sparse\) instead"):
        s + d
    assert same(torch.add(c, hybrid().to_dense().to_sparse(), alpha=3), c.to_dense() + 3 * hybrid().to_dense())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_elementwise(layout):
    a, b = random(4, 6), random(4, 6, seed=1)
    s, t = in_layout(a, layout), in_layout(b, layout)
    assert same(s * t, a * b) and same(s * 2, a * 2) and same(2 * s, a * 2) and same(s / 4, a / 4) and same(s * b, a * b)
    assert (s * t).layout is layout and same(s + t, a + b) and same(s - t, a - b) and same(-s, -a)
    u = s.clone()
    u.mul_(3)
    assert same(u, a * 3) and u._version == 1
    assert s.clone().zero_()._nnz() == 0


def test_broadcast_product():
    s = coo()
    assert same(s * torch.tensor([1.0, 2, 3]), s.to_dense() * torch.tensor([1.0, 2, 3]))
    assert same(s * torch.ones(2, 1, 3, dtype=F64) * 2, s.to_dense() * 2 * torch.ones(2, 1, 3))
    with pytest.raises(RuntimeError, match="requires a scalar or zero-dim dense tensor divisor"):
        s / s


@pytest.mark.parametrize("name", "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac log1p neg rad2deg relu "
                                 "round sgn sign sin sinh sqrt tan tanh trunc square nan_to_num isnan signbit".split())
@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_that_keep_zero(name, layout):
    d = random(4, 6).abs().div(4)
    f = getattr(torch, name)
    assert torch.allclose(f(in_layout(d, layout)).to_dense().double(), f(d).double(), rtol=1e-12, atol=0)   # an ulp between loops
    if layout is torch.sparse_coo:
        assert torch.allclose(f(hybrid() / 20).to_dense(), f(hybrid().to_dense() / 20))


def test_functions_without_sparse_form():
    for f in (torch.exp, torch.cos, lambda t: t.view(-1), lambda t: t[0:1], lambda t: t > 0, torch.sort, lambda t: t.fill_(1), lambda t: t.tril()):
        with pytest.raises(NotImplementedError, match="SparseCPU"):
            f(coo())
    for f in (lambda t: t.reshape(6), lambda t: t.expand(2, 2, 3), lambda t: t ** 0):
        with pytest.raises(RuntimeError):
            f(coo())


# ---- shapes

def test_shapes():
    s, d = coo(), coo().to_dense()
    assert same(s.t(), d.t()) and same(s.transpose(0, 1), d.t()) and same(s.permute(1, 0), d.t()) and same(s.T, d.T) and same(s.mT, d.mT)
    assert same(s[1], d[1]) and same(s[:, 2], d[:, 2]) and s[1, 2].item() == 11 and same(s[None], d[None])
    assert same(s.unsqueeze(1), d.unsqueeze(1)) and same(s.unsqueeze(-1), d.unsqueeze(-1))
    i = torch.tensor([2, 0, 2])
    assert same(s.index_select(1, i), d.index_select(1, i)) and same(s.narrow_copy(1, 1, 2), d[:, 1:])
    assert same(torch.cat([s, s], 1), torch.cat([d, d], 1)) and same(torch.stack([s, s]), torch.stack([d, d]))
    assert [same(x, y) for x, y in zip(s, d)] == [True, True]
    h = hybrid()
    e = h.to_dense()
    assert same(h[1], e[1]) and same(h.select(1, 2), e[:, 2]) and same(h.index_select(1, i), e[:, i]) and same(torch.cat([h, h], 1), torch.cat([e, e], 1))
    x = s.clone()
    assert same(x.t_(), d.t()) and x.shape == (3, 2)
    assert x.sparse_resize_((4, 4), 2, 0).shape == (4, 4) and x._nnz() == 4 and x.sparse_resize_and_clear_((1,), 1, 0)._nnz() == 0


# ---- matrix products

@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.complex64, torch.complex128, torch.int64, torch.int32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_matrix_products(layout, dtype):
    a, b = random(4, 6).mul(3).round().to(dtype), random(6, 5, seed=1).mul(3).round().to(dtype)
    s, want = in_layout(a, layout), a @ b
    assert torch.equal(torch.mm(s, b), want) and torch.equal(s @ b, want) and torch.equal(torch.sparse.mm(s, b), want)
    assert torch.equal(torch.mm(b.t(), s.t()), want.t())
    assert torch.equal(torch.addmm(want, s, b, beta=2, alpha=3), 2 * want + 3 * want)
    assert torch.equal(torch.mv(s, b[:, 0]), want[:, 0])
    if layout in LAYOUTS[:3]:
        t = in_layout(b, torch.sparse_coo if layout is torch.sparse_coo else torch.sparse_csr)
        assert torch.equal(torch.mm(s, t).to_dense(), want)
    out = torch.empty(4, 5, dtype=dtype)
    assert torch.mm(s, b, out=out) is out and torch.equal(out, want)


def test_more_products():
    s, d = coo(), torch.arange(6.0, dtype=F64).reshape(3, 2)
    want = s.to_dense() @ d
    assert same(torch.hspmm(s, d), want) and torch.hspmm(s, d).dense_dim() == 1 and same(torch.smm(s, d), want)
    assert same(torch.sspaddmm(want.to_sparse(), s, d, beta=2, alpha=3), 5 * want)
    b = random(3, 2, 4).to_sparse()
    e = random(3, 4, 5, seed=2)
    assert same(torch.bmm(b, e), torch.bmm(b.to_dense(), e))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.mm(s, d.t())
    assert same(torch.nn.functional.linear(s, torch.ones(4, 3, dtype=F64)), s.to_dense() @ torch.ones(3, 4, dtype=F64))
    for reduce in ("mean", "amax", "amin", "prod"):
        a = random(4, 3).to_sparse_csr()
        terms = [[a.to_dense()[i, k] * d[k] for k in range(3) if a.to_dense()[i, k]] for i in range(4)]
        f = {"mean": lambda x: torch.stack(x).mean(0), "amax": lambda x: torch.stack(x).amax(0), "amin": lambda x: torch.stack(x).amin(0),
             "prod": lambda x: torch.stack(x).prod(0)}[reduce]
        assert same(torch.sparse.mm(a, d, reduce), torch.stack([f(x) if x else torch.zeros(2, dtype=F64) for x in terms]))


# ---- sums and softmax

def test_reductions():
    for s in (coo(), hybrid()):
        d = s.to_dense()
        assert s.sum() == d.sum() and torch.sparse.sum(s) == d.sum() and s.norm() == d.norm() and bool(s.bool().any())
        for dim in (0, 1, -1, (0, 1)):
            assert same(torch.sparse.sum(s, dim), d.sum(dim)) and same(s.sum(dim), d.sum(dim)) and same(s.sum(dim, keepdim=True), d.sum(dim, keepdim=True))
        assert torch.sparse.sum(s, 0, dtype=torch.float32).dtype is torch.float32
    r = coo(True).to_sparse_csr()
    assert same(r.sum(1, keepdim=True), r.to_dense().sum(1, keepdim=True)) and r.sum() == 18


def test_softmax():
    for s, dims in ((coo(), (0, 1)), (hybrid(), (0, 1))):
        d = s.to_dense()
        empty = torch.sparse_coo_tensor(s._indices(), torch.ones_like(s._values()), s.shape).to_dense() == 0
        hidden = d.masked_fill(empty, -float("inf"))
        for dim in dims:
            assert same(torch.sparse.softmax(s, dim), torch.softmax(hidden, dim).nan_to_num())
            assert same(torch.sparse.log_softmax(s, dim).coalesce().values(), torch.log_softmax(hidden, dim)[~empty].reshape(s.coalesce().values().shape))


# ---- gradients

def test_gradient_layouts():
    def grads(f, *xs):
        return torch.autograd.grad(f(*xs), xs)
    w = torch.arange(1.0, 7, dtype=F64).reshape(2, 3)
    g, = grads(lambda x: (x.to_dense() * w).sum(), coo(grad=True))
    assert g.layout is torch.sparse_coo and g.is_coalesced() and g.values().tolist() == [3, 4, 6]
    g, = grads(lambda x: (x.to_dense(masked_grad=False) * w).sum(), coo(grad=True))
    assert g._nnz() == 6
    g, = grads(lambda x: (x.coalesce().values() * torch.tensor([1.0, 2, 3])).sum(), coo(grad=True))
    assert g.coalesce().values().tolist() == [1, 2, 3]
    g, h = grads(lambda x, y: torch.sparse.mm(x, y).sum(), coo(grad=True), torch.ones(3, 2, dtype=F64, requires_grad=True))
    assert g.layout is torch.sparse_coo and g.values().tolist() == [2, 2, 2] and h.tolist() == [[4, 4], [0, 0], [14, 14]]
    g, h = grads(lambda x, y: torch.mm(x, y).sum(), coo(grad=True), torch.ones(3, 2, dtype=F64, requires_grad=True))
    assert g.layout is torch.strided
    g, = grads(lambda x: x.sum(), coo(grad=True))
    assert g.layout is torch.strided and g.tolist() == [[1, 1, 1], [1, 1, 1]]
    g, = grads(lambda x: torch.sparse.sum(x), coo(grad=True))
    assert g.layout is torch.sparse_coo
    v = torch.tensor([1.0, 2], dtype=F64, requires_grad=True)
    g, = grads(lambda v: (torch.sparse_coo_tensor([[0, 0], [1, 2]], v, (2, 3)).to_dense() * w).sum(), v)
    assert g.tolist() == [2, 3]
    d = w.clone().requires_grad_()
    g, = grads(lambda d: (d.sparse_mask(coo()).to_dense()).sum(), d)
    assert g.tolist() == [[0, 0, 1], [1, 0, 2]]
    g, = grads(lambda d: d.to_sparse_csr().values().sum(), d)
    assert g.tolist() == [[1, 1, 1], [1, 1, 1]]


FUNCTIONS = {
    "to_dense": lambda x: x.to_dense(), "mm": lambda x: torch.sparse.mm(x, random(6, 2, seed=3)), "matmul": lambda x: (x * 2) @ random(6, 2, seed=3),
    "coalesce": lambda x: (x.coalesce() if x.layout is torch.sparse_coo else x).values(), "sin": lambda x: x.sin().to_dense(),
    "square": lambda x: (x * x).to_dense(), "tanh": lambda x: x.tanh().to_dense(), "log1p": lambda x: (x.abs()).log1p().to_dense(),
    "add": lambda x: (x + x).to_dense(), "dense": lambda x: torch.add(random(4, 6, seed=2), x, alpha=3), "div": lambda x: (x / 3).to_dense(),
    "t": lambda x: x.t().to_dense(), "sum": lambda x: torch.sparse.sum(x, 0).to_dense(), "softmax": lambda x: torch.sparse.softmax(x, 1).to_dense(),
    "log_softmax": lambda x: torch.sparse.log_softmax(x, 0).to_dense(), "select": lambda x: x[1].to_dense(), "unsqueeze": lambda x: x.unsqueeze(0).to_dense(),
    "narrow": lambda x: x.narrow_copy(1, 2, 3).to_dense(), "cat": lambda x: torch.cat([x, x * 2], 1).to_dense(), "norm": lambda x: x.norm(),
    "csr": lambda x: x.to_sparse_csr().to_dense(), "coo": lambda x: x.to_sparse().to_dense(), "pow": lambda x: (x ** 3).to_dense(),
}
ONLY_COO = {"sum", "softmax", "log_softmax", "unsqueeze", "narrow", "cat", "select"}  # select: gradcheck wants the gradient in the layout of the tensor, which it has not


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("layout", LAYOUTS[:3])
def test_gradients(name, layout):
    if name in ONLY_COO and layout is not torch.sparse_coo:
        pytest.skip("of COO tensors only")
    x = in_layout(random(4, 6), layout).requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.autograd.gradcheck(FUNCTIONS[name], (x,), masked=True, check_undefined_grad=False)


def test_gradients_of_dense_operands():
    a, s = random(4, 6), random(6, 3, seed=4).to_sparse()
    for f in (lambda d: torch.sparse.mm(s.t(), d.t()), lambda d: d @ s, lambda d: torch.add(d, a.to_sparse()), lambda d: torch.sparse.sampled_addmm(a.to_sparse_csr(), d @ d.t(), d).to_dense()):
        assert torch.autograd.gradcheck(f, (a.clone().requires_grad_(),), check_undefined_grad=False)


def test_sparse_gradients_of_other_layouts():
    d = torch.ones(2, 2, requires_grad=True)
    g, = torch.autograd.grad((d * torch.tensor([[0., 1], [2, 0]]).to_sparse()).to_dense().sum(), d)
    assert g.layout is torch.sparse_coo and g.to_dense().tolist() == [[0, 1], [2, 0]]
    for layout in (torch.sparse_csr, torch.sparse_csc):
        x = torch.tensor([[0., 1, 2], [3, 0, 4]]).to_sparse(layout=layout).requires_grad_()
        g, = torch.autograd.grad((x[1].to_dense() * torch.tensor([5., 6, 7])).sum(), x)
        assert g.to_dense().tolist() == [[0, 0, 0], [5, 0, 7]]


def test_second_derivative():
    d = random(4, 6).requires_grad_()
    g, = torch.autograd.grad(torch.sparse.sum(d.to_sparse().sin() * 2), d, create_graph=True)
    h, = torch.autograd.grad(g.sum(), d)
    assert same(h, -2 * d.detach().sin())


# ---- embeddings and optimizers

def test_embedding_gradients():
    w = torch.nn.Embedding(5, 2, sparse=True)
    w(torch.tensor([1, 3, 1])).sum().backward()
    assert w.weight.grad._indices().tolist() == [[1, 3, 1]] and w.weight.grad.layout is torch.sparse_coo
    w(torch.tensor([1])).sum().backward()
    assert w.weight.grad._indices().tolist() == [[1, 3, 1, 1]]
    w.weight.sum().backward()
    assert w.weight.grad.layout is torch.strided and w.weight.grad[:, 0].tolist() == [1, 4, 1, 2, 1]
    p = torch.nn.Embedding(5, 2, sparse=True, padding_idx=1)
    p(torch.tensor([[1, 3], [2, 1]])).sum().backward()
    assert p.weight.grad._indices().tolist() == [[3, 2]]
    b = torch.nn.EmbeddingBag(5, 2, sparse=True, mode="mean")
    b(torch.tensor([1, 3, 1, 0]), torch.tensor([0, 2])).sum().backward()
    assert b.weight.grad._values().tolist() == [[0.5, 0.5]] * 4


@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.Adagrad(p, 0.1)])
def test_optimizers_like_dense_ones(make):
    weights = []
    for sparse in (False, True):
        torch.manual_seed(0)
        w = torch.nn.Embedding(5, 2, sparse=sparse)
        optimizer = make(w.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            (w(torch.tensor([1, 3, 1])) ** 2).sum().backward()
            optimizer.step()
        weights.append(w.weight.detach())
    assert torch.allclose(*weights, atol=1e-6)


def test_sparse_adam():
    torch.manual_seed(0)
    w = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = torch.optim.SparseAdam(w.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (w(torch.tensor([1, 3, 1])) ** 2).sum().backward()
        optimizer.step()
    want = [[1.5409960746765137, -0.293428897857666], [-1.879349946975708, 0.27231621742248535], [-1.0845223665237427, -1.3985954523086548],
            [0.11062334477901459, 0.5400928258895874], [-0.7192575931549072, -0.40334352850914]]
    assert torch.allclose(w.weight, torch.tensor(want), atol=1e-6)
    with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"):
        torch.optim.Adam(w.parameters()).step()


# ---- copies, files, and what has no storage

@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_and_files(layout):
    s = in_layout(random(4, 6), layout)
    file = io.BytesIO()
    torch.save({"s": s}, file)
    file.seek(0)
    for t in (pickle.loads(pickle.dumps(s)), torch.load(file, weights_only=True)["s"], copy.deepcopy(s), s.clone(), s.to(torch.float32).to(F64)):
        assert t.layout is layout and t.dtype is F64 and torch.allclose(t.to_dense(), s.to_dense(), atol=1e-6)
    t = torch.zeros_like(s)
    assert t._nnz() == 0
    if layout is not torch.sparse_coo:      # these take only as many entries as they have
        with pytest.raises(RuntimeError, match="same number of specified elements"):
            t.copy_(s)
        t = s * 0
    assert same(t.copy_(s), s)
    assert s.detach()._nnz() == s._nnz() and s.half().dtype is torch.float16


def test_nothing_reads_what_is_not_there():
    for s in (coo(), coo(True).to_sparse_csr()):
        for f, error in ((lambda: s.numpy(), TypeError), (lambda: s.data_ptr(), RuntimeError), (lambda: s.untyped_storage(), NotImplementedError),
                         (lambda: s.tolist(), RuntimeError), (lambda: s.item(), RuntimeError), (lambda: s.__dlpack__(), BufferError),
                         (lambda: s.share_memory_(), NotImplementedError), (lambda: s.set_(), NotImplementedError), (lambda: s.apply_(abs), RuntimeError),
                         (lambda: s.view(-1), NotImplementedError), (lambda: s.as_strided((1,), (1,)), NotImplementedError), (lambda: memoryview(s), BufferError),
                         (lambda: s.__setitem__(0, 1), TypeError), (lambda: torch.neg(s, out=torch.empty(2, 3, dtype=F64)), RuntimeError),
                         (lambda: torch.ones(2, 3, dtype=F64).copy_(s), RuntimeError), (lambda: s.copy_(torch.ones(2, 3)), RuntimeError),
                         (lambda: torch.where(torch.ones(2, 3).bool(), s, s), NotImplementedError)):
            with pytest.raises(error):
                f()
    assert torch.sparse_coo_tensor([[0, 0]], [1.0, 2], (1,)).item() == 3


def test_diagonals():
    lines = torch.arange(9.0).reshape(3, 3)
    assert torch.sparse.spdiags(lines, torch.tensor([0, -1, 2]), (3, 4)).to_dense().tolist() == [[0, 0, 8, 0], [3, 1, 0, 0], [0, 4, 2, 0]]
    with pytest.raises(RuntimeError, match="duplicate values"):
        torch.sparse.spdiags(lines, torch.tensor([0, 0, 2]), (3, 4))


def test_every_slice_at_once():
    dense = torch.tensor([[0, 2.0, 0], [0, 0, 0], [3, 4, 0], [5, 0, 6]], dtype=F64)
    twice = torch.sparse_coo_tensor([[2, 0, 2, 3, 2, 3], [1, 1, 0, 0, 1, 2]], [1.0, 2, 3, 5, 3, 6], (4, 3), dtype=F64)
    for s in (dense.to_sparse(), twice, dense.to_sparse(1), dense.to_sparse_csr(), dense.to_sparse_csc(), dense.to_sparse_bsr((2, 3)), dense.to_sparse_bsc((2, 1))):
        for dim in (0, 1):
            leaf = s.detach().clone().requires_grad_()
            slices = leaf.unbind(dim)
            assert torch.equal(torch.stack([x.to_dense() if x.layout != torch.strided else x for x in slices], dim), dense)
            weight, loss = torch.arange(1, 8, dtype=F64), 0
            for k, x in enumerate(slices):
                loss = loss + (k != 1) * weight[k] * (x.sum() if x.layout == torch.strided else torch.sparse.sum(x))  # the second has no part in it
            loss.backward()
            want = (weight[:4, None] if dim == 0 else weight[:3]).expand(4, 3).clone()
            want.select(dim, 1).zero_()
            there = dense != 0  # what is not stored has no gradient
            assert torch.equal(leaf.grad.to_dense()[there], want[there]), (s.layout, dim)
    n = 20_000  # in one pass, not one for each slice
    assert len(torch.sparse_coo_tensor([list(range(n)), [0] * n], [1.0] * n, (n, 2)).unbind()) == n


def test_a_sum_over_all_dimensions_has_a_dense_gradient():
    for keep in (False, True):
        leaf = coo().requires_grad_()
        leaf.sum((0, 1), keep).sum().backward()
        assert leaf.grad.layout == torch.strided and leaf.grad.eq(1).all()


def test_matrices_in_rows_are_added_row_by_row():
    torch.manual_seed(0)
    a, b = (torch.randint(-9, 9, (30, 20)) * (torch.rand(30, 20) < p) for p in (0.2, 0.4))
    for x, y in ((a, b), (a, a * 0), (a * 0, b), (a * 0, b * 0)):
        for layout in ("to_sparse_csr", "to_sparse_csc"):
            p, q = getattr(x.double(), layout)(), getattr(y.float(), layout)()
            s = torch.add(p, q, alpha=3)
            assert s.layout == p.layout and s.dtype == F64 and torch.equal(s.to_dense(), (x + 3 * y).double())
            assert s.values().numel() == ((x != 0) | (y != 0)).sum(), "the entries of both"
            torch._validate_sparse_compressed_tensor_args(*(s.crow_indices(), s.col_indices()) if s.layout == torch.sparse_csr else (s.ccol_indices(), s.row_indices()),
                                                          s.values(), s.size(), s.layout)
    narrow = torch.sparse_csr_tensor(*(torch.tensor(i, dtype=torch.int32) for i in ([0, 1, 2], [0, 1])), torch.ones(2))
    assert (narrow + narrow).col_indices().dtype == torch.int32 and (narrow + narrow).values().tolist() == [2, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("depth", [0, 1, 15, 16, 53])
def test_products_sampled_at_entries(dtype, depth):
    # whole numbers: the sums are exact in any order
    a, b = torch.randint(-3, 4, (9, depth)).to(dtype), torch.randint(-3, 4, (depth, 7)).to(dtype)
    if dtype.is_complex:
        a, b = a * (1 + 2j), (b * (2 - 1j)).conj()
    pattern = (torch.arange(63).view(9, 7) % 3 == 1).to(dtype)
    a.requires_grad_(), b.requires_grad_()
    dense = 2 * (a @ b) * pattern + 3 * pattern
    sampled = torch.sparse.sampled_addmm(pattern.to_sparse_csr(), a, b, beta=3, alpha=2).to_dense()
    assert torch.equal(sampled, dense)
    weight = torch.randint(-3, 4, (9, 7)).to(dtype)
    for got, want in zip(torch.autograd.grad((sampled * weight).sum().real, (a, b)), torch.autograd.grad((dense * weight).sum().real, (a, b))):
        assert torch.equal(got, want)
    with pytest.raises(RuntimeError):
        torch.ops.aten._sampled_products(a.detach(), b.detach().t().contiguous(), torch.tensor([0]), torch.tensor([7]))


@pytest.mark.parametrize("height, width, columns", [(2, 4, 5), (3, 1, 1), (6, 8, 17), (1, 1, 3), (2, 2, 0)])
def test_blocks_times_dense(height, width, columns):
    there = (torch.arange(6 // height * (8 // width)).view(6 // height, 8 // width) % 3 != 1).repeat_interleave(height, 0).repeat_interleave(width, 1)
    a, b = torch.randint(-3, 4, (6, 8)).float() * there, torch.randint(-3, 4, (8, columns)).float()
    assert torch.equal(a.to_sparse_bsr((height, width)) @ b, a @ b)
    with pytest.raises(RuntimeError):
        torch.ops.aten._rows_dense(torch.tensor([0, 1]), torch.tensor([1]), torch.ones(1, 2, 4), torch.ones(4, 3))
    with pytest.raises(RuntimeError, match="blocks"):
        torch.ops.aten._rows_dense(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1, 2, 3), torch.ones(4, 3))
