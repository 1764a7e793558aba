"""Custom autograd functions, hooks, double backward, gradcheck, saved tensors."""
import torch
from torch.autograd import Function, gradcheck, gradgradcheck
from torch.autograd.function import once_differentiable


class LegendrePolynomial3(Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input ** 3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input ** 2 - 1)


class Exp(Function):
    @staticmethod
    def forward(i):
        return i.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        result, = ctx.saved_tensors
        return g * result


class MulAdd(Function):
    @staticmethod
    def forward(ctx, a, b, k):
        ctx.k, ctx.shape = k, a.shape
        ctx.save_for_backward(a, b)
        out = a * b + k
        ctx.mark_non_differentiable(mask := out > 0)
        ctx.set_materialize_grads(False)
        return out, mask

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        a, b = ctx.saved_tensors
        print("needs", ctx.needs_input_grad, ctx.k)
        return g * b, g * a, None


torch.manual_seed(0)
x = torch.linspace(-3.14, 3.14, 200)
y = torch.sin(x)
a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
for t in range(200):
    loss = (a + b * LegendrePolynomial3.apply(c + d * x) - y).pow(2).sum()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 5e-6 * p.grad
            p.grad = None
print(f"{loss.item():.3f} {b.item():.4f} * P3({d.item():.4f} x)", abs(a.item()) < 1e-4, abs(c.item()) < 1e-4)
v = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
print(gradcheck(Exp.apply, (v,)), gradgradcheck(Exp.apply, (v,)), gradcheck(LegendrePolynomial3.apply, v))
p, q = torch.tensor([1.0, -2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
out, mask = MulAdd.apply(p, q, 2)
print(out, mask, type(out.grad_fn).__name__, out.grad_fn.next_functions[0][0].variable is p)
out.sum().backward()
print(p.grad, q.grad)
w = torch.ones(3, requires_grad=True)
seen = []
handle = w.register_hook(lambda g: seen.append(g.clone()) or g * 2)
z = w * torch.arange(3.0)
z.retain_grad()
z.register_hook(lambda g: g + 1)
z.sum().backward()
print(seen, w.grad, z.grad)
handle.remove()
w.register_post_accumulate_grad_hook(lambda t: print("accumulated", t.grad))
(w * 2).sum().backward()
g, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)
h, = torch.autograd.grad(g.sum(), w)
print(g, h, g.grad_fn.name())
packed = []
with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(tuple(t.shape)) or t, lambda t: t):
    (w * w.exp()).sum().backward()
print(packed, w.grad)
with torch.autograd.graph.save_on_cpu():
    print(torch.autograd.grad((w.sin() * w).sum(), w))
try:
    r = w.exp()
    r.add_(1)
    r.sum().backward()
except RuntimeError as error:
    print("modified by an inplace operation" in str(error))
with torch.autograd.set_detect_anomaly(True, check_nan=False):
    print(torch.autograd.grad(w.log().sum(), w))
u = torch.ones(2, 2, requires_grad=True)
torch.autograd.backward([u.sum(), (u * u).sum()], inputs=[u])
print(u.grad)
print(torch.autograd.functional.jacobian(lambda x: x.pow(2) * 2, torch.tensor([1.0, 2.0])))
print(torch.autograd.functional.hessian(lambda x: x.pow(3).sum(), torch.tensor([1.0, 2.0])))
print(torch.autograd.functional.vjp(lambda x: x.exp(), torch.zeros(2), torch.ones(2)), torch.autograd.functional.hvp(lambda x: x.pow(3).sum(), torch.ones(2), torch.ones(2)))
