"""Operations of a CUDA device against the CPU, with their gradients: python3 -m rushlight tests/gpu/operations.py [NAME...]

Distances of rows, images read at points, distinct elements, numbers of distributions that reject, and others; tests/python/test_cuda.py runs it on emulated devices.
"""
import sys

import torch
import torch.nn.functional as F


def same(f, *args, rtol=1e-4, atol=1e-5):
    want, got = f(*args), f(*(a.cuda() if isinstance(a, torch.Tensor) else a for a in args))
    for w, g in zip(*((r if isinstance(r, (tuple, list)) else (r,)) for r in (want, got))):
        assert g.is_cuda and g.dtype == w.dtype and g.shape == w.shape, (w, g)
        torch.testing.assert_close(g.cpu(), w, rtol=rtol, atol=atol, equal_nan=True)


def back(f, *args, **how):
    def run(*a):
        a = [t.detach().requires_grad_() if t.is_floating_point() else t for t in a]; y = f(*a)
        g = torch.autograd.grad((y * torch.arange(1., 1 + y.numel(), device=y.device, dtype=y.dtype).view(y.shape) / y.numel()).sum(), [t for t in a if t.requires_grad])
        return (y.detach(), *g)
    same(run, *args, **how)


def distances():
    torch.manual_seed(0)
    for d in torch.float32, torch.float64:
        for n, m, k in (1, 1, 1), (5, 70, 3), (130, 65, 17), (66, 20, 40):
            a, b = torch.randn(2, n, k).to(d), torch.randn(2, m, k).to(d)
            b[:, 0] = a[:, 0]; a[0, -1, 0] = float("nan") if n == 66 else 1
            for p in 0.0, 1.0, 2.0, 3.5, 0.5, float("inf"):
                how = {"rtol": 1e-3, "atol": 1e-4}
                back(lambda a, b: torch.cdist(a, b, p=p, compute_mode="donot_use_mm_for_euclid_dist"), a, b, **how)
                back(lambda a: F.pdist(a[0], p), a, **how)
    back(lambda a, b: torch.cdist(a, b), torch.randn(3, 4), torch.randn(20000, 4), rtol=1e-3, atol=1e-4)
    same(lambda a, b: (torch.cdist(a, b), torch.cdist(a[:, :0], b[:, :0]), torch.cdist(a[:0], b)), torch.randn(30, 4), torch.randn(7, 4))
    def twice(a, b):
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        g = torch.autograd.grad(torch.cdist(a, b, p=3).sum(), a, create_graph=True)[0]
        return torch.autograd.grad(g.square().sum(), (a, b))
    same(twice, torch.randn(5, 4).double(), torch.randn(6, 4).double())


def grids():
    torch.manual_seed(0)
    for d in torch.float32, torch.float64:
        for x, g in (torch.randn(2, 3, 5, 7), torch.randn(2, 6, 4, 2) * 1.2), (torch.randn(2, 9, 4, 3, 5), torch.randn(2, 3, 4, 2, 3) * 1.2), (torch.randn(1, 2, 1, 1), torch.randn(1, 3, 3, 2)):
            for mode in "bilinear", "nearest", "bicubic":
                if mode == "bicubic" and x.dim() == 5: continue
                for pad in "zeros", "border", "reflection":
                    for align in False, True:
                        f = lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=pad, align_corners=align)
                        back(f, x.to(d), g.to(d), rtol=1e-3, atol=1e-4)
                        if d == torch.float32: continue
                        def twice(x, g, v):
                            x, g, v = (t.detach().requires_grad_() for t in (x, g, v))
                            a = torch.autograd.grad((f(x, g) * v).sum(), (x, g), create_graph=True)
                            return torch.autograd.grad(a[0].square().sum() + a[1].square().sum(), (x, g, v))
                        same(twice, x.to(d), g.to(d), f(x.to(d), g.to(d)), rtol=1e-6, atol=1e-6)
    same(lambda x, g: F.grid_sample(x, g, align_corners=False), torch.randn(2, 3, 5, 7).half(), (torch.randn(2, 6, 4, 2)).half(), rtol=1e-2, atol=1e-2)
    g = torch.randn(1, 3, 3, 2); g[0, 2, 2] = 1e30
    same(lambda x, g: (F.grid_sample(x, g, align_corners=False), F.grid_sample(x.transpose(2, 3), g, mode="nearest", padding_mode="border", align_corners=True)), torch.randn(1, 2, 5, 7), g)
    g[0, 0, 0, 0] = float("nan"); g[0, 1, 1, 1] = float("inf") # far outside, as PyTorch has it on CUDA
    assert (F.grid_sample(torch.ones(1, 2, 5, 7).cuda(), g.cuda(), align_corners=False)[0, :, [0, 1], [0, 1]] == 0).all()
    for align in False, True:
        back(lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=align), torch.randn(2, 2, 3))
        back(lambda t: F.affine_grid(t, (2, 3, 1, 4, 5), align_corners=align), torch.randn(2, 3, 4).double())


def unique():
    torch.manual_seed(0)
    for d in torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64:
        for shape in (0,), (1,), (3, 700), (9, 2, 3):
            x = torch.randint(-2, 3, shape).to(d)
            if d.is_floating_point and x.numel() > 20: x.flatten()[5] = x.flatten()[9] = x.flatten()[10] = float("nan"); x.flatten()[7] = -0.0
            for inverse in False, True:
                for counts in False, True:
                    def f(t, inverse=inverse, counts=counts):
                        r = (torch.unique(t, return_inverse=inverse, return_counts=counts), torch.unique_consecutive(t, return_inverse=inverse, return_counts=counts))
                        if t.numel(): r += tuple(torch.unique(t, return_inverse=inverse, return_counts=counts, dim=k) for k in range(t.dim())) + (torch.unique_consecutive(t, return_inverse=inverse, return_counts=counts, dim=-1),)
                        return [y for e in r for y in (e if isinstance(e, tuple) else (e,))]
                    same(f, x)
    same(lambda t: torch.unique(t, return_inverse=True), torch.tensor(3.0))
    same(lambda t: torch.unique(t, dim=0, return_inverse=True, return_counts=True), torch.randint(0, 2, (300, 5)))
    same(lambda t: torch.unique(t, dim=0), torch.zeros(0, 4))


def draws():
    torch.manual_seed(0)
    rate = torch.tensor([0.0, 0.3, 4.0, 12.0, 80.0, 6000.0], device="cuda")
    torch.cuda.manual_seed(3); a = torch.poisson(rate.expand(4000, 6)); b = torch.poisson(rate.expand(4000, 6)); torch.cuda.manual_seed(3)
    assert torch.equal(a, torch.poisson(rate.expand(4000, 6))) and not torch.equal(a, b) and not torch.equal(a[0], a[1])
    close = lambda got, want, spread, n: torch.testing.assert_close(got.cpu().double(), want.double().cpu(), rtol=0, atol=float("inf")) or bool(((got.cpu().double() - want.double().cpu()).abs() <= 6 * spread.double().cpu() / n ** 0.5 + 1e-9).all())
    assert close(a.mean(0), rate, rate.sqrt(), 4000), (a.mean(0), rate)
    assert ((a.var(0) - rate).abs() <= rate * 0.15 + 1e-9).all() and (a == a.round()).all()
    assert torch.poisson(torch.tensor([float("nan"), -1.0], device="cuda")).isnan().all()
    n, p = torch.tensor([10.0, 200.0, 3.0], device="cuda"), torch.tensor([0.3, 0.4, 0.9], device="cuda")
    c = torch.binomial(n.expand(4000, 3), p.expand(4000, 3)); assert close(c.mean(0), n * p, (n * p * (1 - p)).sqrt(), 4000) and (c <= n).all() and (c >= 0).all()
    s = torch.tensor([0.2, 1.0, 7.0], device="cuda")
    for d in torch.float32, torch.float64:
        g = torch._standard_gamma(s.to(d).expand(4000, 3)); assert close(g.mean(0), s, s.sqrt(), 4000) and (g > 0).all()
    q = torch._sample_dirichlet(s.expand(4000, 3)); assert close(q.mean(0), s / s.sum(), torch.full((3,), 0.3), 4000) and (q.sum(1) - 1).abs().max() < 1e-4
    same(lambda a, x: torch._standard_gamma_grad(a, x), torch.tensor([0.3, 2.0, 9.0, 1e8]), torch.tensor([0.5, 1.0, 20.0, 1e8 + 5]))
    same(lambda x, a, t: torch._dirichlet_grad(x, a, t), torch.tensor([0.2, 0.7]), torch.tensor([0.5, 3.0]), torch.tensor([2.0, 5.0]))
    assert torch.poisson(rate.half()).dtype == torch.float16


def others():
    torch.manual_seed(0)
    x = torch.randn(5, 40) * 100; x[0, 0], x[0, 1], x[0, 2], x[0, 3] = 0, float("inf"), float("nan"), 1e-40
    for d in torch.float32, torch.float64, torch.float16, torch.bfloat16: same(lambda t: (*torch.frexp(t), torch.frexp(t.t()[::2])[0]), x.clamp(-60000, 60000).to(d))
    for d in torch.float32, torch.float16: back(lambda t: torch.fake_quantize_per_tensor_affine(t, 0.3, 5, -20, 100), x.clamp(-60000, 60000).to(d))
    for zero in torch.randint(-3, 3, (5,)).int(), torch.randn(5):
        same(lambda t, s, z: torch.fake_quantize_per_channel_affine(t, s, z, 0, -100, 100), x, torch.rand(5) + 0.1, zero)
    same(lambda t, s, z: torch.fake_quantize_per_tensor_affine(t, s, z, -100, 100), x, torch.tensor(0.2), torch.tensor([3], dtype=torch.int32))
    q = lambda t, s, z, on: torch._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(t, s, z, on, -10, 10)
    for on in 0, 1: same(q, x, torch.tensor([0.2]), torch.tensor([3]), torch.tensor([on]))
    try: torch.fake_quantize_per_channel_affine(x.cuda(), torch.ones(5).cuda(), torch.full((5,), 9, dtype=torch.int32).cuda(), 0, 0, 5)
    except RuntimeError as e: assert "zero_point" in str(e)
    else: assert False
    for p in 1.0, 2.0, float("inf"):
        def renorm(w, i):
            w = w.clone(); torch.embedding_renorm_(w, i, 1.5, p); return w
        same(renorm, torch.randn(9, 4), torch.tensor([[1, 3], [1, 8]]))

if __name__ == "__main__":
    for f in distances, grids, unique, draws, others:
        if len(sys.argv) < 2 or f.__name__ in sys.argv[1:]:
            f()
    print("are as on the CPU")
