"""fx graphs, scripting, tracing and compiling: what is run stays the same."""
import torch
import torch.fx as fx
from torch import nn

torch.manual_seed(13)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.param, self.linear = nn.Parameter(torch.rand(3, 4)), nn.Linear(4, 5)

    def forward(self, x):
        return self.linear(x + self.param).clamp(min=0.0, max=1.0)


module = M()
traced = fx.symbolic_trace(module)
print(traced.graph)
print(traced.code)
x = torch.rand(3, 4)
print(torch.equal(traced(x), module(x)), [n.op for n in traced.graph.nodes])
for node in traced.graph.nodes:
    if node.op == "call_method" and node.target == "clamp":
        with traced.graph.inserting_after(node):
            new = traced.graph.call_function(torch.mul, (node, 2.0))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)
traced.graph.lint()
traced.recompile()
print(torch.equal(traced(x), module(x) * 2))


def f(a, b):
    return torch.relu(a) + b.sum(dim=0)


g = fx.symbolic_trace(f)
pattern, replacement = (lambda a: torch.relu(a)), (lambda a: torch.sigmoid(a))
fx.replace_pattern(g, pattern, replacement)
print(g.code, torch.equal(g(x, x), x.sigmoid() + x.sum(0)))


class Count(fx.Interpreter):
    def run_node(self, n):
        names.append(n.name)
        return super().run_node(n)


names = []
Count(traced).run(x)
print(names)


@torch.jit.script
def scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        if bool(x.sum() > 4):
            x = x / 2
        else:
            x = x + 1
    return x


print(scripted(torch.ones(3), 4))
sm = torch.jit.script(module)
tm = torch.jit.trace(module, x)
print(torch.equal(sm(x), module(x)), torch.equal(tm(x), module(x)))
compiled = torch.compile(lambda a: (a.sin() ** 2 + a.cos() ** 2), backend="eager")
print(compiled(torch.zeros(2)))


@torch.compile(backend="eager")
def decorated(a, b=1):
    return a + b


print(decorated(torch.ones(1)), torch.compiler.is_compiling(), torch.jit.is_scripting())
