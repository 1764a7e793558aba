"""The graphs that make_fx(functionalize(f)) gives of functions that change tensors in place and through views.

    python tests/python/functionalized.py torch > tests/python/functionalized.txt     # PyTorch's, with a Python that has it

test_functionalize.py compares ours with the file.
"""
import importlib
import sys


FACTORY = ", device = device(type='cpu'), pin_memory = False"       # what PyTorch adds to calls that make tensors


def functions(torch):
    F = torch.nn.functional

    def inplace(x):
        y = x.clone()
        y.add_(1)
        return y

    def argument(x):
        x.add_(1)
        return x

    def row_of_argument(x):
        x[0].add_(1)
        return x

    def part(x):
        z = x.clone()
        z[1:].mul_(2)
        return z

    def diagonal(x):
        z = x.clone()
        z.diagonal().fill_(0)
        return z * 2

    def views_of_views(x):
        z = x * 2
        z.view(-1)[2:4].add_(1)
        return z.t() + 1

    def assignment(x):
        z = torch.zeros(2, 2)
        z[0, 1] = x[0, 0]
        return z

    def given_result(x):
        out = torch.empty(2, 2)
        torch.add(x, x, out=out)
        return out

    def turned(x):
        z = x + 1
        z.t_()
        z.mul_(2)
        return z

    def two_views(x):
        z = x + 1
        a, b = z.view(4), z.reshape(2, 2)
        a.add_(1)
        return b, a

    def split(x):
        z = x + 1
        a, b = z.split(1)
        a.mul_(3)
        return z, b

    def unbound(x):
        z = x + 1
        a, b = z.unbind(0)
        a.add_(b)
        return z

    def relu(x):
        return F.relu(x @ x, inplace=True)

    def zero(x):
        return x.exp().zero_()

    def copied(x):
        return torch.ones(2, 2).copy_(x)

    def pure(x):
        return (x @ x).relu().sum()

    def dimensions(x):
        z = x + 1
        z.permute(1, 0).unsqueeze(0).squeeze(0).add_(1)
        return z

    def transposed(x):
        z = x + 1
        z.transpose(0, 1).mul_(3)
        return z

    def read_twice(x):
        z = x + 1
        z.add_(1)
        z.mul_(2)
        v = z[0]
        z.sub_(1)
        return v, z

    def lists(x):
        z = [x + 1, x + 2]
        torch._foreach_add_(z, 1.0)
        return z

    def strided(x):
        z = x + 1
        z.as_strided((2,), (3,)).mul_(2)
        return z

    return [inplace, argument, row_of_argument, part, diagonal, views_of_views, assignment, given_result, turned, two_views, split, unbound, relu, zero,
            copied, pure, dimensions, transposed, read_twice, lists, strided]


def text(torch, f):
    make_fx = importlib.import_module(torch.__name__ + ".fx.experimental.proxy_tensor").make_fx
    said = f.__name__ + "\n"
    for remove in ("mutations", "mutations_and_views"):
        graph = make_fx(torch.func.functionalize(f, remove=remove))(torch.arange(4.0).view(2, 2) + 1)
        lines = [line.split(";")[0].strip().replace("torch.ops.aten.", "").replace(FACTORY, "") for line in graph.code.strip().splitlines()[1:]]
        said += "  %s\n" % remove + "".join("    %s\n" % line for line in lines if line)
    return said


if __name__ == "__main__":
    library = importlib.import_module(sys.argv[1])
    print("\n".join(text(library, f) for f in functions(library)), end="")
