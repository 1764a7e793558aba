"""Operations under vmap: the same as example by example, whatever is batched, and on the whole batch at once."""
import ast
import itertools

import pytest
import rushlight as torch
import rushlight.nn.functional as F
from rushlight._functorch import batched
from rushlight.func import jacfwd, jacrev, vmap

D = torch.float64
CASES = """
a.sum()  a.sum(1)  a.mean((0,1))  a.prod()  a.prod(0)  a.max()  a.min()  a.max(1)  a.max(b)  a.amax(0)  a.argmax()  a.argmin(1)  a.std()  a.std(False)  a.var(1,correction=0)
torch.var_mean(a,0)  a.median()  a.median(0)  a.nansum()  a.norm()  a.norm(1)  a.norm(2,0)  a.norm(p=1,dim=1)  a.logsumexp(0)  a.count_nonzero()  a.sort()  a.sort(0,True)  a.argsort()
a.flip(0,1)  a.flip((0,))  a.roll(1)  a.roll(1,0)  a.roll((1,2),(0,1))  a.diff()  a.cumsum(0)  a.squeeze()  a[:,:1].squeeze()  a.repeat(2,1,1)  a.tile((2,))  a.rot90()  a.fliplr()
a.repeat_interleave(2,0)  a.topk(2)  a.kthvalue(1)  a.aminmax()  a.unsqueeze(0).expand(2,3,4)  a.softmax(0)  a.all()  torch.linalg.vector_norm(a)  torch.linalg.vector_norm(a,1,0)  torch.linalg.matrix_norm(a)
torch.linalg.norm(a)  torch.linalg.norm(a,dim=0)  a.sum(dtype=torch.float32)  a[0,0].sum()  a[0,0].max()  a[0,0].norm()
a[i]  a[:,i]  a[i,i]  a[None,i]  a[i,None]  a[j]  a[:,j]  b[j,i[:1]]  a[i,:2]  a.gather(0,j)  a.gather(1,j)  a.scatter(1,j,b)  a.scatter(1,j,2.)  a.scatter_add(0,j,b)  a.scatter_reduce(1,j,b,'amax')
a.index_select(0,i)  a.index_select(1,i)  a.index_add(0,torch.tensor([0,2]),b[:2])  a.index_copy(1,torch.tensor([0,2]),b[:,:2])  a.index_fill(0,torch.tensor([1]),3.)  a.index_put((i,),b[i])
torch.take_along_dim(a,j,1)  F.embedding(i,a)  F.embedding(j,torch.eye(4,dtype=D))  F.one_hot(i,5)  torch.searchsorted(a.sort()[0],b)  torch.index_put(a,(i,i),b[0,0],True)
torch.linalg.inv(s)  torch.linalg.cholesky(s)  torch.linalg.det(s)  torch.logdet(s)  torch.linalg.slogdet(s)  torch.linalg.solve(s,v)  torch.linalg.solve(s,a)  torch.linalg.solve(s,a[:,:1],left=True)  torch.linalg.matrix_exp(s)
torch.linalg.eigvalsh(s)  torch.linalg.svdvals(a)  torch.linalg.pinv(a)  a.triu()  torch.cdist(a,b)  torch.linalg.cross(a[:,:3],b[:,:3])  torch.cross(a[:,:3],b[:,:3],dim=1)  torch.diag_embed(a)  torch.diag_embed(v,1)
torch.linalg.solve_triangular(s,a,upper=False)  F.cosine_similarity(a,b)  F.cosine_similarity(v,v*v,dim=0)  F.layer_norm(a,(4,))  F.layer_norm(a,(4,),b[0],a[0])  F.rms_norm(a,(4,),b[1])  F.normalize(a)
F.conv1d(x,w)  F.conv1d(x,w,w[:,0,0],padding=1)  F.conv1d(x[0],w)  F.conv1d(x,w[:,:1],groups=3)  F.conv2d(x[None],w[:,:2,None],stride=2)  F.conv_transpose1d(x,w.transpose(0,1))  F.max_pool1d(x,2)  F.avg_pool1d(x,2)
F.adaptive_avg_pool1d(x[0],2)  F.max_pool1d(x,2,return_indices=True)  F.interpolate(x,scale_factor=2.)  F.group_norm(x,3)  F.pad(x,(1,2))  F.pad(x,(1,2),mode='reflect')  F.pad(x[0],(1,1),mode='replicate')  F.prelu(x,w[0,0,0])
F.mse_loss(a,b)  F.mse_loss(a,b,reduction='sum')  F.l1_loss(a,b,reduction='none')  F.huber_loss(a,b)  F.kl_div(a,b.softmax(1),reduction='batchmean')  F.binary_cross_entropy_with_logits(a,b.sigmoid())
F.cross_entropy(a,i)  F.cross_entropy(a,i,reduction='sum')  F.cross_entropy(a,i,v.abs()[[0,1,2,0]])  F.cross_entropy(a,i,ignore_index=1)  F.cross_entropy(a,b.softmax(1))  F.cross_entropy(a,i,label_smoothing=.1)  F.nll_loss(a,i)
F.cross_entropy(a[0],i[0])  F.cross_entropy(a[0],i[0],reduction='none')
torch.einsum('ij,kj->ik',a,b)  torch.einsum('ij,kj',a,b)  torch.einsum('...i,...i->...',a,b)  torch.addmm(a,s,b)  torch.addmm(a,s,b,beta=2,alpha=3)  torch.addmv(v,s,v)  torch.outer(v,b[0])  torch.inner(v,v)  torch.diag(v)  torch.diag(s)
torch.trace(s)  torch.meshgrid(v,b[0],indexing='ij')  torch.full_like(a,2.)*a  a.new_zeros((2,3))+a[0,0]  torch.fft.fft(a)  torch.fft.rfft(a,dim=0)  torch.fft.fft2(a)  torch.fft.fftshift(a,1)  torch.addr(a,v,b[0])
torch.atleast_1d(a)  a.view(2,6)  a.flatten()  a.t()@b  a.unflatten(1,(2,2))  a.minimum(b)  torch.baddbmm(x[:,:,:3],x[:,:,:3],x[:,:,:3])  F.scaled_dot_product_attention(a,b,a)
""".split()


@pytest.fixture
def tensors():
    torch.manual_seed(3)
    batch = {"a": (3, 4), "b": (3, 4), "v": (3,), "x": (2, 3, 6), "w": (6, 3, 2)}
    made = {k: torch.randn(5, *size, dtype=D) for k, size in batch.items()}
    made |= {"i": torch.randint(0, 3, (5, 3)), "j": torch.randint(0, 3, (5, 3, 4)), "s": torch.randn(5, 3, 3, dtype=D)}
    made["s"] = made["s"] @ made["s"].mT + 3 * torch.eye(3, dtype=D)
    return made


@pytest.mark.parametrize("text", CASES)
def test_the_whole_batch_is_its_examples(text, tensors, monkeypatch):
    names = sorted({node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} & tensors.keys())
    f = eval(f"lambda {', '.join(names)}: {text}")
    slow = []
    alone = batched.by_example

    def by_example(func, *rest):
        slow.append(func)
        return alone(func, *rest)
    for module in ("batched", "batch_rules", "dims_rules", "place_rules", "whole_rules"):
        monkeypatch.setattr(f"rushlight._functorch.{module}.by_example", by_example)
    for chosen in itertools.product((0, 1, None), repeat=len(names)):
        if any(d == 1 and tensors[k].ndim < 3 for k, d in zip(names, chosen)) or set(chosen) == {None}:
            continue
        given = [tensors[k][0] if d is None else tensors[k].movedim(0, d) for k, d in zip(names, chosen)]
        got = vmap(f, in_dims=chosen)(*given)
        want = [f(*(t if d is None else t.select(d, k) for t, d in zip(given, chosen))) for k in range(5)]
        got, *want = [(r,) if isinstance(r, torch.Tensor) else r for r in (got, *want)]
        for k, part in enumerate(zip(*want)):
            torch.testing.assert_close(got[k], torch.stack(part), rtol=1e-9, atol=1e-11, check_stride=False, equal_nan=True)
        if set(chosen) == {0}:
            assert not slow or text in BY_EXAMPLE, slow


BY_EXAMPLE = {"F.conv_transpose1d(x,w.transpose(0,1))", "F.prelu(x,w[0,0,0])", "F.cross_entropy(a,i,v.abs()[[0,1,2,0]])"}  # with weights of each example's own


@pytest.mark.parametrize("lies", ["rows", "columns", "every other"])
def test_jacobians_of_tensors_that_lie_otherwise(lies):
    torch.manual_seed(0)
    x = {"rows": torch.randn(3, 4, dtype=D), "columns": torch.randn(4, 3, dtype=D).t(), "every other": torch.randn(3, 8, dtype=D)[:, ::2]}[lies]

    def f(t):
        return t.sin() * t.roll(1), t.t() @ t
    want = torch.autograd.functional.jacobian(f, x)
    for jacobian in (jacrev(f), jacfwd(f), jacrev(f, chunk_size=5), lambda t: torch.autograd.functional.jacobian(f, t, vectorize=True)):
        for got, right in zip(jacobian(x), want):
            torch.testing.assert_close(got, right, check_stride=False)
    hessian = torch.func.hessian(lambda t: (t ** 3).sum())(x)
    torch.testing.assert_close(hessian.reshape(12, 12), torch.diag(6 * x.reshape(-1)))


def test_modes_see_the_whole_batch():
    from rushlight.fx.experimental.proxy_tensor import make_fx
    x, y = torch.randn(3, dtype=D), torch.randn(3, dtype=D)
    for f in (jacrev(torch.sin), jacfwd(torch.sin), torch.func.hessian(lambda t: t.sin().sum()), lambda t: vmap(torch.func.vjp(torch.sin, t)[1])(torch.eye(3, dtype=D))[0]):
        torch.testing.assert_close(make_fx(f)(x)(y), f(y), check_stride=False)


def test_directions_that_draw():
    x = torch.ones(4, dtype=D)
    for randomness, alike in (("different", False), ("same", True)):
        diagonal = jacfwd(lambda t: t * torch.rand((), dtype=D), randomness=randomness)(x).diagonal()
        assert diagonal.shape == (4,) and (len(set(diagonal.tolist())) == 1) == alike
    assert jacfwd(lambda t: t * torch.rand_like(t), randomness="different")(x[:0]).shape == (0, 0)


def test_same_draws_of_what_differs_are_refused():
    x = torch.full((2, 3), 0.5)
    some = [torch.bernoulli, torch.poisson, lambda t: torch.normal(t, 1.0), lambda t: torch.normal(1.0, t), lambda t: t.multinomial(2), lambda t: t.clone().bernoulli_(t),
            torch._standard_gamma, lambda t: torch.binomial(t, t), torch.ones(3).bernoulli_]
    for f in some:
        with pytest.raises(RuntimeError, match="same randomness with a batched tensor"):
            vmap(f, randomness="same")(x)
    for f in (torch.rand_like, lambda t: t.clone().bernoulli_(0.5), lambda t: t + torch.bernoulli(x[0]), lambda t: torch.dropout(t, 0.5, True)):
        y = vmap(f, randomness="same")(x)
        assert torch.equal(y[0], y[1])


def test_functions_that_draw_inside():
    F, t = torch.nn.functional, torch.ones(1, 4, 4)
    attention, lstm = torch.nn.MultiheadAttention(4, 2, dropout=0.5), torch.nn.LSTM(4, 4, 2, dropout=0.5)
    some = [F.gumbel_softmax, lambda t: F.scaled_dot_product_attention(t, t, t, dropout_p=0.5), lambda t: attention(t, t, t)[0], lambda t: lstm(t)[0]]
    for f in some:
        for randomness, alike in (("different", False), ("same", True)):
            y = vmap(lambda a: f(t), randomness=randomness)(torch.zeros(3))
            assert torch.equal(y[0], y[1]) == torch.equal(y[0], y[2]) == alike
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(lambda a: f(t))(torch.zeros(3))
    attention.eval(), lstm.eval()
    assert vmap(lambda a: attention(t, t, t)[0] + lstm(t)[0])(torch.zeros(3)).shape == (3, 1, 4, 4)
