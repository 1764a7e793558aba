"""The graphs of traces of two dozen networks: torch.jit._get_trace_graph's, and torch.jit.trace's with its scopes.

    python tests/python/jit_graphs.py torch > tests/python/jit_graphs.txt     # PyTorch's, with a Python that has it
    python tests/python/jit_graphs.py rushlight [NETWORK...]                  # ours beside those of jit_graphs.txt

A line is an operation of aten or prim: its arguments, with lists, constants and attributes in their place, then what it gives and its scope. test_jit_graph.py compares ours with the file.
"""
import difflib
import importlib
import os
import sys
import warnings

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jit_graphs.txt")


def networks(torch):
    """name -> function that returns what is traced, and its arguments."""
    nn, F, randn = torch.nn, torch.nn.functional, torch.randn
    found = {}

    def network(f):
        found[f.__name__] = f
        return f

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            out += x
            return self.relu(out)

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.pool, self.fc = nn.Sequential(Block(), Block()), nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(4, 2)
            self.register_buffer("scale", torch.ones(2), persistent=False)

        def forward(self, x):
            return self.fc(torch.flatten(self.pool(self.body(x)), 1)) * self.scale

    class Of(nn.Module):
        def __init__(self, function, *layers):
            super().__init__()
            self.function, self.layers = function, nn.ModuleList(layers)

        def forward(self, *args):
            return self.function(self.layers, *args)

    @network
    def mlp():
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)), (randn(3, 4),)

    @network
    def residual_training():
        return Head(), (randn(2, 4, 5, 5),)

    @network
    def residual():
        return Head().eval(), (randn(2, 4, 5, 5),)

    @network
    def convolutions():
        layers = nn.Conv1d(3, 4, 3), nn.Conv2d(3, 6, 3, stride=2, groups=3), nn.Conv3d(3, 4, 3), nn.ConvTranspose1d(3, 2, 3, stride=2, output_padding=1), nn.Conv2d(3, 4, 3, padding="same")
        return Of(lambda m, x, y, z: (m[0](x), m[0](x[0]), m[1](y), m[2](z), m[3](x), m[4](y)), *layers), (randn(2, 3, 8), randn(2, 3, 8, 8), randn(2, 3, 4, 4, 4))

    @network
    def norms():
        return nn.Sequential(nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.LayerNorm(8), nn.RMSNorm(8), nn.BatchNorm2d(4, affine=False)), (randn(2, 4, 8, 8),)

    @network
    def activations():
        return nn.Sequential(nn.GELU(), nn.SiLU(), nn.Sigmoid(), nn.Tanh(), nn.LeakyReLU(0.1), nn.ELU(), nn.Softplus(), nn.Softmax(-1), nn.LogSoftmax(1), nn.Hardswish(), nn.PReLU(), nn.ReLU6(),
                             nn.Softsign(), nn.GLU(), nn.Threshold(0.1, 0.0)), (randn(3, 4),)

    @network
    def lstm():
        return nn.LSTM(4, 5, 2, batch_first=True), (randn(2, 3, 4),)

    @network
    def lstm_cell():
        return nn.LSTMCell(4, 5), (randn(2, 4),)

    @network
    def cells():
        return Of(lambda m, x: (m[0](x), m[1](x)), nn.GRUCell(4, 5), nn.RNNCell(4, 5)), (randn(2, 4),)

    @network
    def attention():
        return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (randn(1, 2, 3, 4), randn(1, 2, 3, 4), randn(1, 2, 3, 4))

    @network
    def heads():
        return nn.MultiheadAttention(8, 2, batch_first=True).eval(), (randn(2, 3, 8), randn(2, 3, 8), randn(2, 3, 8))

    @network
    def embedding():
        return Of(lambda m, i: (m[0](i), m[1](i)), nn.Embedding(5, 3, padding_idx=0), nn.EmbeddingBag(5, 3)), (torch.tensor([[1, 2], [3, 4]]),)

    @network
    def products():
        return lambda a, b: (torch.einsum("bij,bjk->bik", a, b), a @ b, a.bmm(b), torch.addmm(a[0] @ b[0], a[0], b[0]), torch.tensordot(a, b, ([2], [1]))), (randn(2, 3, 4), randn(2, 4, 5))

    @network
    def views():
        return lambda x: (x.reshape(-1), x.permute(0, 2, 1), x.transpose(0, 1).contiguous(), x.flatten(1), x.unsqueeze(-1), x.squeeze(0), x.expand(2, *x.shape), x[None], x[:, 0], x[..., 1:],
                          x[0, 1], x.narrow(1, 0, 2), x.repeat(1, 2, 1), x.movedim(0, 1), x.unfold(2, 2, 1), x.view_as(x), x.roll(1, 2), x.swapaxes(0, 1)), (randn(2, 3, 4),)

    @network
    def sizes():
        return lambda x: (x.view(x.size(0) // 1, -1), x.reshape(x.shape[0] * x.shape[1], x.shape[2]), x * x.shape[0], x / x.size(2) ** 0.5, x.numel() * x, torch.zeros(x.shape[0]) + x[:, 0, 0],
                          x[:, :x.shape[1] - 1], torch.arange(x.size(1)).view(1, -1).expand(x.size(0), -1) * 1), (randn(2, 3, 4),)

    @network
    def pieces():
        return lambda x: (x.split(1, 1), x.chunk(2, 2), x.unbind(0), torch.cat([x, x], 1), torch.stack([x, x]), x.topk(2), x.max(1), x.sort()), (randn(2, 3, 4),)

    @network
    def reductions():
        return lambda x: (x.sum(), x.sum(1), x.mean((1, 2)), x.var(), x.std(1), x.amax(1), x.argmax(), x.logsumexp(1), x.cumsum(1), torch.var_mean(x, 1)), (randn(2, 3, 4),)

    @network
    def arithmetic():
        return lambda x, y: (x + 1, x - y, 1 - x, 2 * x, x / 2, 2 / x, x // 1, x % 2, x ** 2, 2 ** x, -x, x > 0, (x > 0) & (y > 0), ~(x > 0), x.clamp(min=0), torch.clip(x, 0, 1), x.absolute(),
                             torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, -1e9), torch.add(x, y, alpha=2), x.multiply(y)), (randn(2, 3), randn(2, 3))

    @network
    def conversions():
        return lambda x, i: (x.to(torch.float64), x.half(), i.float(), x.to("cpu", torch.float16), x.detach(), x.clone(), torch.tensor([1.0, 2.0, 3.0]) + x, x.new_zeros(3) + x,
                             torch.full((2, 3), 1.5) + x, torch.rand(3) + x, torch.ones_like(x) * x), (randn(2, 3), torch.tensor([0, 1]))

    @network
    def in_place():
        def function(x):
            y = x.clone()
            unread = x + 1
            unread.mul_(2)
            y += 1
            y.clamp_(0, 1)
            y[0] = 1
            y[0, 0] = 2
            y[:, 1] = x[:, 0]
            F.relu(y, inplace=True)
            y[:1].zero_()
            z = torch.zeros(2, 3)
            torch.add(y, 1, out=z)
            return y, z
        return function, (randn(2, 3),)

    @network
    def structures():
        return lambda x, pair, named: (x + pair[0] + named["k"], (x * 2, pair[1])), (randn(2), (randn(2), randn(2)), {"k": randn(2)})

    @network
    def function_of_autograd():
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * k

            @staticmethod
            def backward(ctx, g):
                return g, None
        return lambda x: Scaled.apply(x, 3) + 1, (randn(2),)

    return found


def type_of(value):
    kind = value.type()
    if kind.kind() == "TensorType":
        return "%s%s" % (kind.scalarType(), tuple(kind.sizes())) if value.isCompleteTensor() else "Tensor"
    return kind.annotation_str


def lines(graph):
    """The nodes, and what the graph returns."""
    names = {v.debugName(): "in%d" % i for i, v in enumerate(graph.inputs())}

    def written(value):
        node = value.node()
        if value.debugName() in names:
            return names[value.debugName()]
        if node.kind() == "prim::Constant":
            x = value.toIValue()
            return repr(x) if not hasattr(x, "tolist") else "%s(%s)" % (value.type().scalarType(), x.tolist())
        if node.kind() == "prim::GetAttr":
            return written(node.input()) + "." + node.s("name")
        if node.kind() in ("prim::ListConstruct", "prim::TupleConstruct"):
            return "[(" [node.kind() == "prim::TupleConstruct"] + ", ".join(map(written, node.inputs())) + "])"[node.kind() == "prim::TupleConstruct"]
        return "?"
    count = 0
    for node in graph.nodes():
        if node.kind() in ("prim::Constant", "prim::GetAttr", "prim::ListConstruct", "prim::TupleConstruct"):
            continue
        args = ", ".join(map(written, node.inputs()))
        outs = []
        for value in node.outputs():
            names[value.debugName()] = "%%%d" % count
            outs.append("%%%d:%s" % (count, type_of(value)))
            count += 1
        name = "^" + node.pyname() if node.kind() == "prim::PythonOp" else node.kind().removeprefix("aten::")
        yield "    %s = %s(%s)%s" % (" ".join(outs), name, args, "  " + node.scopeName() if node.scopeName() else "")
    yield "    return %s" % ", ".join(map(written, graph.outputs()))


def text(torch, name, make):
    """All that is said of one network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        traced, args = make()
        graph = torch.jit._get_trace_graph(traced, args)[0]
        program = torch.jit.trace(traced, args, check_trace=False).inlined_graph
    return "%s\n  graph\n%s\n  trace\n%s\n" % (name, "\n".join(lines(graph)), "\n".join(lines(program)))


def golden():
    with open(GOLDEN) as file:
        return {part.split("\n", 1)[0]: part for part in file.read().strip("\n").split("\n\n")}


def main():
    torch = importlib.import_module(sys.argv[1])
    chosen = {name: make for name, make in networks(torch).items() if not sys.argv[2:] or name in sys.argv[2:]}
    if torch.__name__ == "torch":
        print("\n".join(text(torch, name, make) for name, make in chosen.items()), end="")
        return 0
    wrong = 0
    for name, make in chosen.items():
        want, got = golden()[name].strip().split("\n"), text(torch, name, make).strip().split("\n")
        wrong += want != got
        print(name, "same" if want == got else "differs")
        for line in difflib.unified_diff(want, got, "PyTorch", "rushlight", lineterm="", n=1) if want != got else ():
            print("    " + line)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
