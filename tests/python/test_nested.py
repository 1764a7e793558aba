"""Nested tensors: what PyTorch answers (nested.tsv), gradients against those of the parts, files, and the operations in C.

A line of nested.tsv is a snippet (after ! of statements, whose answer is r; @@ is a new line) and PyTorch's answer as JSON, or after ! the error's class.
"""
import copy
import io
import json
import pathlib
import re

import pytest

import rushlight as torch

ROWS = [line.split("\t") for line in (pathlib.Path(__file__).parent / "nested.tsv").read_text().splitlines() if not line.startswith("#")]
SETUP = '''
import torch, copy, io, pickle
N, F = torch.nested, torch.nn.functional
a, b = torch.arange(6.).view(2, 3), torch.arange(9.).view(3, 3)
s, x, x2 = N.nested_tensor([a, b]), N.nested_tensor([a, b], layout=torch.jagged), N.nested_tensor([a, b], layout=torch.jagged)
p, j = x.transpose(1, 2), x.size(1)
z = N.nested_tensor([torch.ones(2, 3, 4), torch.ones(3, 3, 4)], layout=torch.jagged)
v, o = torch.arange(10.).view(5, 2), torch.tensor([0, 2, 5])
pad, pack = torch.ops.aten._jagged_to_padded_dense_forward, torch.ops.aten._padded_dense_to_jagged_forward
w = torch.linspace(-1, 1, 6).view(2, 3)


def J(requires_grad=True, shape=(3,), lengths=(2, 3), layout=torch.jagged):
    first = torch.cumsum(torch.tensor((0,) + lengths), 0).tolist()
    parts = [torch.sin(torch.arange(n * torch.Size(shape).numel()) + 3. * at).view(n, *shape) for n, at in zip(lengths, first)]
    return N.nested_tensor(parts, layout=layout, requires_grad=requires_grad)


def S(requires_grad=True):
    return J(requires_grad, layout=torch.strided)


def heads(lengths=(2, 3)):
    return J(True, (2, 4), lengths).transpose(1, 2)


def grads(f, *given):
    y = f(*given)
    y = y if not y.is_nested else y.values() if y.layout == torch.jagged else y.to_padded_tensor(0.)
    (y * torch.arange(1., y.numel() + 1).view(y.shape)).sum().backward()
    return [x.grad for x in given]
'''


def show(r):
    """A result as JSON can say it, nested ints without their numbers and floats of four digits."""
    if isinstance(r, torch.Tensor) and r.is_nested:
        if r.layout is torch.strided:
            return ["N", str(r.dtype), r.requires_grad, [show(t.detach()) for t in r.unbind()]]
        return ["NT", [str(n) for n in r.shape], str(r.dtype), r.requires_grad, r.is_contiguous(), show(r.values().detach()), show(r.offsets()),
                r.lengths() is not None and r.lengths().tolist()]
    if torch.masked.is_masked_tensor(r):
        return ["M", str(r.dtype), list(r.shape), r.requires_grad, r.is_leaf, repr(r), show(r.get_mask())]
    if isinstance(r, torch.Tensor) and r.layout != torch.strided:
        return ["S", str(r.layout), str(r.dtype), list(r.shape), r.requires_grad, r._nnz(), r.detach().to_dense().tolist()]
    if isinstance(r, torch.Tensor):
        values = r.detach().tolist() if r.numel() < 200 else [float(r.detach().double().sum())]
        return ["T", str(r.dtype), list(r.shape), r.requires_grad, values]
    if isinstance(r, (list, tuple)) and not isinstance(r, torch.Size):
        return ["list", [show(x) for x in r]]
    return re.sub("rushlight", "torch", re.sub(r"0x\w+", "0x", repr(r)))


def rounded(x):
    if isinstance(x, float):
        return "nan" if x != x else float("%.4g" % x)
    if isinstance(x, list):
        return [rounded(y) for y in x]
    return re.sub(r"j\d+", "j", x) if isinstance(x, str) else x


@pytest.fixture(scope="module")
def names():
    scope = {}
    exec(SETUP.replace("import torch,", "import rushlight as torch,"), scope)
    return scope


def compare(snippet, wanted, names):
    try:
        if snippet[0] == "!":
            exec(snippet[1:].replace("@@", "\n"), names)
        result = names.get("r") if snippet[0] == "!" else eval(snippet, names)
    except Exception as error:
        assert ("! %s: %s" % (type(error).__name__, re.sub(r"j\d+", "j", str(error)))).startswith(wanted), error
    else:
        assert rounded(show(result)) == json.loads(wanted)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("snippet,wanted", ROWS)
def test_answer(snippet, wanted, names):
    compare(snippet, wanted, dict(names))


def parts(requires_grad=True):
    torch.manual_seed(0)
    return [torch.randn(n, 3, 2, dtype=torch.float64, requires_grad=requires_grad) for n in (2, 4, 1)]


# The function of a nested tensor, and of each of its parts, of which the batch is left out.
SAME = {
    "add": (lambda x: x + 1.5,) * 2, "square": (lambda x: x * x,) * 2, "sum": (lambda x: x.sum(1), lambda t: t.sum(0)),
    "mean": (lambda x: x.mean(1), lambda t: t.mean(0)), "amax": (lambda x: x.amax(1), lambda t: t.amax(0)), "prod": (lambda x: x.prod(1), lambda t: t.prod(0)),
    "sum of rows": (lambda x: x.sum(-1), lambda t: t.sum(-1)), "max": (lambda x: x.max(1).values, lambda t: t.max(0).values),
    "softmax": (lambda x: x.softmax(1), lambda t: t.softmax(0)), "softmax of rows": (lambda x: x.softmax(-1), lambda t: t.softmax(-1)),
    "log_softmax": (lambda x: x.log_softmax(2), lambda t: t.log_softmax(1)), "layer_norm": (lambda x: torch.layer_norm(x, (2,)),) * 2,
    "linear": (lambda x: torch.nn.functional.linear(x, torch.ones(5, 2).double().cumsum(0)),) * 2, "matmul": (lambda x: x @ torch.ones(2, 3).double(),) * 2,
    "centred": (lambda x: x - x.mean(1, keepdim=True), lambda t: t - t.mean(0, keepdim=True)), "select": (lambda x: x[..., 1],) * 2,
    "transpose": (lambda x: x.transpose(1, 2).sin().transpose(1, 2), lambda t: t.sin()), "flatten": (lambda x: x.flatten(2), lambda t: t.flatten(1)),
    "cat": (lambda x: torch.cat([x, x * 2], -1),) * 2, "stack": (lambda x: torch.stack([x, x.exp()], -1),) * 2, "unsqueeze": (lambda x: x.unsqueeze(1), lambda t: t.unsqueeze(0)),
    "split": (lambda x: x.split(1, -1)[1],) * 2, "gelu": (torch.nn.functional.gelu,) * 2, "where": (lambda x: torch.where(x > 0, x, x.sin()),) * 2,
    "product of parts": (lambda x: x.flatten(2).transpose(1, 2) @ x.flatten(2), lambda t: t.flatten(1).t() @ t.flatten(1)),
    "attention": (lambda x: torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2),) * 3).transpose(1, 2),
                  lambda t: torch.nn.functional.scaled_dot_product_attention(*(t.transpose(0, 1),) * 3).transpose(0, 1)),
}


@pytest.mark.parametrize("name", SAME)
def test_parts_and_their_gradients(name):
    whole, each = SAME[name]
    nested, dense = parts(), parts()
    result, wanted = whole(torch.nested.as_nested_tensor(nested, layout=torch.jagged)), [each(t) for t in dense]
    torch.testing.assert_close(list(result.unbind()), wanted)
    sum((t * t).sum() for t in result.unbind()).backward()
    sum((t * t).sum() for t in wanted).backward()
    torch.testing.assert_close([t.grad for t in nested], [t.grad for t in dense])


def test_second_derivatives():
    x = torch.nested.nested_tensor(parts(False), layout=torch.jagged, requires_grad=True)
    g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    h, = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(h, x.detach() * 6)


def test_a_broadcast_operand_has_a_gradient():
    x = torch.nested.nested_tensor(parts(False), layout=torch.jagged)
    for shape in ((2,), (3, 1, 3, 2), (1, 1, 3, 1)):
        a = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        (x * a).sin().sum().backward()
        b = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        rows = b if b.dim() < 4 else b.expand(3, 1, 3, 2).unbind()
        sum((t * (rows[i] if b.dim() == 4 else b)).sin().sum() for i, t in enumerate(x.unbind())).backward()
        torch.testing.assert_close(a.grad, b.grad)


def test_operations_in_c():
    offsets = [torch.tensor([0, 2, 2, 5])]
    values, dense = torch.randn(6, 2, dtype=torch.float64, requires_grad=True), torch.randn(3, 3, 2, dtype=torch.float64, requires_grad=True)
    pad, pack = torch.ops.aten._jagged_to_padded_dense_forward, torch.ops.aten._padded_dense_to_jagged_forward
    for longest in (3, 2, 4, 0):
        torch.autograd.gradcheck(lambda v: pad(v, offsets, [longest], 0.5), values)
        torch.autograd.gradgradcheck(lambda v: pad(v, offsets, [longest], 0.5), values)
    for f in (lambda d: pack(d, offsets), lambda d: pack(d, offsets, 5), lambda d: pack(d, [offsets[0][:3]])):
        torch.autograd.gradcheck(f, dense)
        torch.autograd.gradgradcheck(f, dense)
    back = torch.ops.aten._jagged_to_padded_dense_backward
    torch.autograd.gradcheck(lambda d: back(d, offsets, 7), dense)
    assert torch.equal(pack(pad(values, offsets, [3]), offsets), values[:5])
    none = [torch.tensor([0, 0, 0])]  # no rows, and so no memory
    assert pack(torch.ones(2, 3, 2), none).shape == (0, 2) and pad(values[:0], none, [3], 1.0).tolist() == torch.ones(2, 3, 2).tolist()


@pytest.mark.parametrize("bad", [[0, 7], [3, 2], [-1, 2], [0, 1 << 62], [1 << 62, 0]])
def test_offsets_outside_are_errors(bad):
    bad = torch.tensor(bad)
    x = torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), bad)
    for use in (lambda: x.to_padded_tensor(0.), lambda: x.unbind(), lambda: x.sum(1), lambda: x[0], lambda: x.softmax(1), lambda: x.chunk(2),
                lambda: torch.ops.aten._padded_dense_to_jagged_forward(torch.ones(1, 3, 2), [bad]),
                lambda: torch.ops.aten._jagged_to_padded_dense_backward(torch.ones(1, 3, 2), [bad], 5)):
        with pytest.raises((RuntimeError, ValueError, MemoryError)):
            use()


def test_sizes_are_no_numbers():
    x = torch.nested.nested_tensor(parts(False), layout=torch.jagged)
    for use in (lambda: torch.zeros(x.shape), lambda: torch.ones(x.size(1)), lambda: torch.arange(6).view(2, x.size(1)), lambda: range(x.size(1)),
                lambda: x.size(1) + 1, lambda: x.shape.numel(), lambda: x.size(1) > 5, lambda: int(x.size(1))):
        with pytest.raises((RuntimeError, AttributeError, TypeError, ValueError)):
            use()
    assert str(x.shape[:2]) == "torch.Size([3, %s])" % x.size(1) and x.size(1) == (x + 1).size(1) and isinstance(x.size(1), torch.SymInt)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_files_and_copies(layout):
    x = torch.nested.nested_tensor(parts(False), layout=layout, requires_grad=layout is torch.jagged)
    f = io.BytesIO()
    torch.save({"x": x}, f)
    for only_weights in (True, False):
        f.seek(0)
        y = torch.load(f, weights_only=only_weights)["x"]
        assert type(y) is type(x) and y.layout is layout
        torch.testing.assert_close(y, x.detach())
    y = copy.deepcopy(x)
    assert type(y) is type(x) and y.requires_grad == x.requires_grad
    y.values().detach().zero_()
    assert x.values().abs().sum() > 0


def test_training():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    tokens = [torch.randint(10, (n,)) for n in (3, 7, 1, 5)]
    wanted = torch.tensor([float((t == 3).sum()) for t in tokens])
    x = torch.nested.nested_tensor(tokens, layout=torch.jagged)
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=0.01), []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((net(x).sum((1,)).squeeze(-1) - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_nested_parameters():
    p = torch.nn.Parameter(torch.nested.nested_tensor(parts(False), layout=torch.jagged))
    before = p.values().detach().clone()
    for make in (torch.optim.SGD, torch.optim.Adam):
        optimizer = make([p], lr=0.1)
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    assert not torch.equal(before, p.values().detach())


def test_transformer_encoder():
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    rows = [torch.randn(n, 8) for n in (3, 1, 4)]
    x = torch.nested.nested_tensor(rows)
    attention = encoder.layers[0].self_attn
    with torch.no_grad():
        torch.testing.assert_close(list(encoder(x).unbind()), [encoder(t.unsqueeze(0)).squeeze(0) for t in rows], rtol=1e-5, atol=1e-6)
        out, weights = attention(x, x, x)
        for t, o, w in zip(rows, out.unbind(), weights):
            wanted = attention(t, t, t)
            torch.testing.assert_close((o, w[:len(t), :len(t)]), wanted, rtol=1e-5, atol=1e-6)
            assert w.sum().item() == pytest.approx(len(t))
        assert attention(x, x, x, average_attn_weights=False)[1].shape == (3, 2, 4, 4) and attention(x, x, x, need_weights=False)[1] is None
    for call, reason in ((lambda: encoder(x), "grad is enabled"), (lambda: attention(x, x.clone(), x), "non-self attention"),
                         (lambda: encoder.train()(x), "training is enabled"), (lambda: torch.nn.MultiheadAttention(8, 2)(x, x, x), "batch_first")):
        with pytest.raises(AssertionError, match=reason):
            call()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * x * k, k

    @staticmethod
    def backward(ctx, g, _):
        x, = ctx.saved_tensors
        assert g.is_nested and x.is_nested and ctx.needs_input_grad == (True, False)
        return 3 * x * x * g * ctx.k, None


class Total(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sum(1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        assert inputs[0].is_nested and not output.is_nested
        ctx.x = inputs[0].detach()

    @staticmethod
    def backward(ctx, g):
        return torch.ones_like(ctx.x) * g.unsqueeze(1)


def test_custom_functions():
    x = torch.nested.nested_tensor(parts(False), layout=torch.jagged, requires_grad=True)
    y, k = Cube.apply(x, 2.0)
    assert y.is_nested and k == 2.0 and y.shape == x.shape and type(y.grad_fn).__name__ == "CubeBackward"
    g, = torch.autograd.grad(Total.apply(y).sum(), x, create_graph=True)
    torch.testing.assert_close(g.detach(), 6 * x.detach() ** 2)
    h, = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(h, 12 * x.detach())


def test_backward_from_nested_tensors():
    x = torch.nested.nested_tensor(parts(False), layout=torch.jagged, requires_grad=True)
    weights = x.detach().cos()
    (x * x).backward(weights)
    torch.testing.assert_close(x.grad, 2 * x.detach() * weights)
    x.grad = None
    torch.autograd.backward([x * x, x.sum()], [weights, None], inputs=[x])
    torch.testing.assert_close(x.grad, 2 * x.detach() * weights + 1)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant):
    from rushlight.utils.checkpoint import checkpoint
    x = torch.nested.nested_tensor(parts(False), layout=torch.jagged, requires_grad=True)
    checkpoint(lambda t: (t * t).sin(), x, use_reentrant=reentrant).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() * (x.detach() ** 2).cos())


def test_views_of_parts_show_their_memory():
    def after(change):
        x = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)])
        change(x)
        return [int(t.sum()) for t in x.unbind()]

    def plus(view):
        return after(lambda x: view(x).unbind()[0].add_(1))
    assert plus(lambda x: x.select(2, 0)) == plus(lambda x: x[..., 1]) == plus(lambda x: x.chunk(3, -1)[2]) == [2, 0] and plus(lambda x: x.select(1, 1)) == [3, 0]
    assert plus(lambda x: x.split_with_sizes([1, 2], -1)[1]) == [4, 0] and plus(lambda x: torch.split(x, [0, 3], 2)[1]) == [6, 0]
    for view in (lambda x: x.unsqueeze(-1), lambda x: x.unsqueeze(1).squeeze(1), lambda x: x.view(2, -1, 3, 1), lambda x: x.reshape(2, -1, 3, 1)):
        assert plus(view) == [6, 0] and after(lambda x: view(x).add_(1)) == [6, 12]
    assert after(lambda x: x.select(2, 0).add_(1)) == [2, 4] and after(lambda x: x.chunk(3, -1)[1].fill_(2)) == [4, 8] and after(lambda x: x.narrow(0, 1, 1).add_(1)) == [0, 12]
    x = torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)])
    assert not x.chunk(3, -1)[0].is_contiguous() and (x.chunk(3, -1)[0] + 1).unbind()[1].tolist() == [[1]] * 4 and x.select(2, 0).clone().unbind()[0].shape == (2,)
    for wrong, message in ((lambda: x.chunk(2, -1), "trailing dimension divisible by chunks, got: 3 % 2 != 0"), (lambda: x.split_with_sizes([1, 1], -1), "to sum exactly to 3"),
                           (lambda: x.split_with_sizes([1, 1], 1), "split_with_sizes for nested tensors is currently only supported for the last dimension")):
        with pytest.raises(RuntimeError, match=message):
            wrong()
    leaves = [torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)]
    (torch.nested.as_nested_tensor(leaves).split_with_sizes([1, 2], -1)[1] * 2).unbind()[0].sum().backward()
    assert leaves[0].grad.tolist() == [[0, 2, 2]] * 2 and leaves[1].grad is None or not leaves[1].grad.any()


def test_jagged_view_keeps_batch_and_ragged():
    x = torch.nested.nested_tensor([torch.ones(2, 6), torch.ones(4, 6)], layout=torch.jagged)
    for shape in ((-1, -1, 3, 2), (2, -1, 3, 2), (-1, x.shape[1], 3, -1), (-1, -1, 3, -1)):
        assert x.view(*shape).shape == x.reshape(*shape).shape == (2, x.shape[1], 3, 2)
    for shape in ((3, -1, 6), (-1, 2, 6), (-1, 6)):
        with pytest.raises(RuntimeError, match="cannot view shape"):
            x.view(*shape)


def test_jagged_layer_norm_over_the_ragged_dimension():
    F = torch.nn.functional
    x = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged, requires_grad=True)
    w, b = torch.randn(3), torch.randn(3)
    y = F.layer_norm(x, x.shape[1:], w, bias=b)
    assert y.shape == x.shape
    for mine, part in zip(y.unbind(), x.unbind()):
        assert torch.allclose(mine, F.layer_norm(part, part.shape) * w + b, atol=1e-6)
    y.values()[:, 0].square().sum().backward()
    leaf = x.detach().unbind()[1].clone().requires_grad_()
    (F.layer_norm(leaf, leaf.shape) * w + b)[:, 0].square().sum().backward()
    assert torch.allclose(x.grad.unbind()[1], leaf.grad, atol=1e-5)
    assert torch.equal(F.layer_norm(x, (3,), w).values(), F.layer_norm(x.values(), (3,), w)) and torch.equal(torch.layer_norm(x, (3,), w, b, 1e-3).values(), torch.layer_norm(x.values(), (3,), w, b, 1e-3))
    with pytest.raises(RuntimeError, match="not supported when normalizing over the batch dimension"):
        F.layer_norm(x, (2, x.shape[1], 3))
    holes = torch.nested.narrow(torch.randn(2, 5, 3), 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged)
    with pytest.raises(NotImplementedError, match="with holes"):
        F.layer_norm(holes, holes.shape[1:])
    packed = holes.contiguous()
    assert torch.allclose(F.layer_norm(packed, packed.shape[1:]).unbind()[0], F.layer_norm(holes.unbind()[0], (2, 3)), atol=1e-6)
