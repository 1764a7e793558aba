"""The operations that a TorchDispatchMode sees of twenty networks, forward and backward.

    python tests/python/aten_calls.py torch > tests/python/aten_calls.txt     # PyTorch's, with a Python that has it
    python tests/python/aten_calls.py rushlight [NETWORK...]                  # ours beside those of aten_calls.txt

test_aten_calls.py compares ours with the file.
"""
import difflib
import importlib
import math
import os
import sys

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "aten_calls.txt")


def networks(torch):
    """name -> function that returns a loss; what it makes before its first `yield` is not watched."""
    nn, F = torch.nn, torch.nn.functional
    randn, found = torch.randn, {}

    def network(f):
        found[f.__name__] = f
        return f

    @network
    def mlp():
        net, x, y = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
        yield
        yield F.cross_entropy(net(x), y)

    @network
    def smooth_mlp():
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8, bias=False),
                            nn.SiLU(), nn.Linear(8, 1))
        x, y = randn(5, 4), randn(5, 1)
        yield
        yield F.mse_loss(net(x), y)

    @network
    def cnn():
        net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 10))
        x, y = randn(2, 1, 8, 8), torch.tensor([3, 7])
        yield
        yield F.cross_entropy(net(x), y)

    @network
    def resnet_block():
        conv1, bn1, conv2, bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        pool, fc, x = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 2), randn(2, 4, 6, 6)
        yield
        h = F.relu(bn1(conv1(x)), inplace=True)
        h = F.relu(bn2(conv2(h)) + x)
        yield fc(torch.flatten(pool(h), 1)).sum()

    @network
    def evaluated_batch_norm():
        net, x = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.AvgPool2d(2), nn.LeakyReLU(0.1)).eval(), randn(2, 3, 4, 4)
        yield
        yield net(x).mean()

    @network
    def text_cnn():
        table, conv, fc, x = nn.Embedding(20, 6), nn.Conv1d(6, 8, 3), nn.Linear(8, 2), torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]])
        y = torch.tensor([0, 1])
        yield
        h = F.relu(conv(table(x).transpose(1, 2)))
        yield F.nll_loss(F.log_softmax(fc(h.max(dim=2).values), dim=-1), y)

    @network
    def elman():
        net, x = nn.RNN(3, 4, batch_first=True), randn(2, 5, 3)
        yield
        out, h = net(x)
        yield out.sum() + h.sum()

    @network
    def lstm():
        net, fc, x = nn.LSTM(3, 4), nn.Linear(4, 1), randn(5, 2, 3)
        yield
        out, (h, c) = net(x)
        yield fc(out[-1]).sum()

    @network
    def gru():
        net, x = nn.GRU(3, 4, num_layers=2, bidirectional=True), randn(3, 2, 3)
        yield
        out, h = net(x)
        yield (out ** 2).sum()

    @network
    def stacked_lstm():
        net, x = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.5), randn(2, 5, 3)
        yield
        out, (h, c) = net(x)
        yield out.pow(2).sum() + c.sum()

    @network
    def lstm_by_steps():
        net, wide, x = nn.LSTM(3, 4, proj_size=2), nn.LSTM(2, 3, bias=False).double(), randn(3, 2, 3)
        yield
        yield wide(net(x)[0].double())[0].pow(2).sum()

    @network
    def packed_gru():
        net, x = nn.GRU(3, 4, bidirectional=True), nn.utils.rnn.pack_padded_sequence(randn(3, 2, 3), torch.tensor([3, 2]))
        yield
        yield net(x)[0].data.pow(2).sum()

    @network
    def packed_lstm():
        net, x = nn.LSTM(3, 4, num_layers=2), nn.utils.rnn.pack_padded_sequence(randn(4, 3, 3), torch.tensor([4, 3, 1]))
        yield
        yield net(x)[0].data.pow(2).sum()

    @network
    def recurrent_cells():
        lstm, gru, rnn, x = nn.LSTMCell(3, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 3, nonlinearity="relu"), randn(2, 3)
        yield
        h, c = lstm(x)
        yield (rnn(gru(h, c)) ** 2).sum()

    @network
    def attention():
        q, k, v, out, x = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), randn(2, 5, 8)
        yield
        heads = [f(x).view(2, 5, 2, 4).transpose(1, 2) for f in (q, k, v)]
        scores = heads[0] @ heads[1].transpose(-2, -1) / math.sqrt(4)
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf"))
        yield out((F.softmax(scores, dim=-1) @ heads[2]).transpose(1, 2).contiguous().view(2, 5, 8)).pow(2).mean()

    @network
    def fused_attention():
        qkv, out, x = nn.Linear(8, 24), nn.Linear(8, 8), randn(2, 5, 8)
        yield
        q, k, v = (t.view(2, 5, 2, 4).transpose(1, 2) for t in qkv(x).split(8, dim=2))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        yield out(h.transpose(1, 2).reshape(2, 5, 8)).sum()

    @network
    def transformer_encoder():
        net, x = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), randn(2, 5, 8)
        yield
        yield net(x).sum()

    @network
    def gpt():
        table, places, norm1, norm2 = nn.Embedding(11, 8), nn.Embedding(6, 8), nn.LayerNorm(8), nn.LayerNorm(8)
        up, down, head, x = nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 11, bias=False), torch.tensor([[1, 2, 3, 4]])
        yield
        h = table(x) + places(torch.arange(4))
        h = h + down(F.gelu(up(norm1(h)), approximate="tanh"))
        yield F.cross_entropy(head(norm2(h)).view(-1, 11), x.view(-1))

    @network
    def llama():
        w, gate, up, down, x = nn.Parameter(torch.ones(8)), nn.Linear(8, 16, bias=False), nn.Linear(8, 16, bias=False), nn.Linear(16, 8, bias=False), randn(1, 3, 8)
        angle = torch.arange(3.0)[:, None] * torch.tensor([1.0, 0.1])
        yield
        h = w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        q = h.view(1, 3, 2, 4).transpose(1, 2)
        cos, sin = torch.cat((angle, angle), dim=-1).cos(), torch.cat((angle, angle), dim=-1).sin()
        q = q * cos + torch.cat((-q[..., 2:], q[..., :2]), dim=-1) * sin
        h = q.transpose(1, 2).reshape(1, 3, 8)
        yield down(F.silu(gate(h)) * up(h)).sum()

    @network
    def autoencoder():
        net = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ELU(), nn.ConvTranspose2d(4, 1, 4, stride=2, padding=1), nn.Sigmoid())
        x = randn(2, 1, 8, 8).sigmoid()
        yield
        yield F.binary_cross_entropy(net(x), x)

    @network
    def vae():
        enc, mean, spread, dec, x = nn.Linear(6, 4), nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(2, 6), torch.rand(3, 6)
        yield
        h = F.relu(enc(x))
        mu, logvar = mean(h), spread(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        yield F.binary_cross_entropy_with_logits(dec(z), x, reduction="sum") + kl

    @network
    def unet():
        down, mid, up, x = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(6, 1, 3, padding=1), randn(1, 1, 8, 8)
        norm = nn.GroupNorm(2, 4)
        yield
        a = F.relu(down(x))
        b = F.interpolate(F.relu(norm(mid(F.max_pool2d(a, 2)))), scale_factor=2, mode="nearest")
        yield F.smooth_l1_loss(up(torch.cat([a, b], dim=1)), x)

    @network
    def siamese():
        net, a, b = nn.Sequential(nn.Linear(4, 6), nn.Hardtanh(), nn.Linear(6, 3)), randn(3, 4), randn(3, 4)
        yield
        u, v = net(a), net(b)
        yield (u * v).sum(-1).exp().log().mean() + F.l1_loss(u, v)

    @network
    def graph_convolution():
        w1, w2, x = nn.Parameter(randn(4, 6)), nn.Parameter(randn(6, 2)), randn(5, 4)
        adjacency = torch.eye(5) + 0.1
        yield
        h = torch.relu(adjacency @ x @ w1)
        yield -torch.log_softmax(adjacency @ h @ w2, dim=1)[:, 0].mean()

    @network
    def dropout_and_indexing():
        net, x, rows = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Softplus(), nn.Linear(6, 4)), randn(6, 4), torch.tensor([0, 2, 4])
        yield
        h = net(x)[rows]
        h = torch.stack([h[0], h[1] * h[2]]).unsqueeze(0).expand(2, 2, 4)
        yield torch.bmm(h, h.transpose(1, 2)).exp().sum(dim=(1, 2)).sum()

    @network
    def mixer():
        tokens, channels, norm1, norm2, x = nn.Linear(5, 5), nn.Linear(8, 8), nn.LayerNorm(8), nn.LayerNorm(8), randn(2, 5, 8)
        yield
        h = x + tokens(norm1(x).transpose(1, 2)).transpose(1, 2)
        yield (h + F.gelu(channels(norm2(h)))).mean(dim=1).sum()

    @network
    def deep_sets():
        inner, outer, x = nn.Linear(3, 8), nn.Linear(8, 1), randn(4, 6, 3)
        yield
        yield F.mse_loss(outer(F.relu(inner(x)).sum(dim=1)), torch.zeros(4, 1))

    @network
    def squeeze_and_excite():
        conv, down, up, x = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 2), nn.Linear(2, 8), randn(2, 3, 6, 6)
        yield
        h = conv(x)
        weight = torch.sigmoid(up(F.relu(down(h.mean(dim=(2, 3))))))
        yield (h * weight[:, :, None, None]).sum()

    @network
    def depthwise():
        net = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4), nn.ReLU6(), nn.Conv2d(4, 8, 1), nn.Hardswish())
        x = randn(2, 4, 6, 6)
        yield
        yield net(x).mean()

    @network
    def discriminator():
        net, x = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 4)), randn(2, 1, 8, 8)
        yield
        yield F.binary_cross_entropy_with_logits(net(x).view(-1), torch.ones(2))

    @network
    def matrix_factorisation():
        users, items, bias = nn.Embedding(5, 3), nn.Embedding(7, 3), nn.Embedding(7, 1)
        u, i, y = torch.tensor([0, 1, 4]), torch.tensor([6, 2, 2]), torch.tensor([1.0, 0.0, 1.0])
        yield
        yield F.mse_loss((users(u) * items(i)).sum(1) + bias(i).squeeze(1), y)

    @network
    def radiance_field():
        net, x = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 4)), randn(5, 3)
        yield
        h = net(torch.cat([x.sin(), x.cos(), (2 * x).sin(), (2 * x).cos()], dim=-1))
        colour, density = torch.sigmoid(h[..., :3]), F.relu(h[..., 3])
        yield (colour * (1 - torch.exp(-density)).unsqueeze(-1)).sum()

    @network
    def video():
        net, x = nn.Sequential(nn.Conv3d(1, 2, 3), nn.Tanh(), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(2, 3), nn.LogSoftmax(-1)), randn(2, 1, 4, 4, 4)
        yield
        yield F.nll_loss(net(x), torch.tensor([0, 2]))

    @network
    def highway():
        gate, inner, x = nn.Linear(4, 4), nn.Linear(4, 4), randn(3, 4)
        yield
        t = torch.sigmoid(gate(x))
        yield (t * torch.tanh(inner(x)) + (1 - t) * x).pow(2).sum().sqrt()

    @network
    def distillation():
        student, teacher, x = nn.Linear(4, 3), nn.Linear(4, 3), randn(5, 4)
        yield
        with torch.no_grad():
            goal = F.softmax(teacher(x) / 2, dim=-1)
        yield -(goal * F.log_softmax(student(x) / 2, dim=-1)).sum(-1).mean()

    return found


def calls(torch, make):
    """(forward, backward) of one network."""
    mode_class = importlib.import_module(torch.__name__ + ".utils._python_dispatch").TorchDispatchMode

    class Log(mode_class):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func).removeprefix("aten.").removesuffix(".default"))
            return func(*args, **(kwargs or {}))

    torch.manual_seed(0)
    steps, seen = make(), []
    next(steps)
    with Log():
        loss = next(steps)
        forward = list(seen)
        loss.backward()
    return forward, seen[len(forward):]


def text(torch, name, make):
    forward, backward = calls(torch, make)
    return "%s\n  forward  %s\n  backward %s\n" % (name, " ".join(forward), " ".join(backward))


def golden():
    """name -> its paragraph"""
    with open(GOLDEN) as file:
        paragraphs = file.read().split("\n\n")
    return {p.split("\n")[0]: p.strip() + "\n" for p in paragraphs if p.strip()}


def main():
    torch = importlib.import_module(sys.argv[1])
    chosen = {name: make for name, make in networks(torch).items() if not sys.argv[2:] or name in sys.argv[2:]}
    if torch.__name__ == "torch":
        print("\n".join(text(torch, name, make) for name, make in chosen.items()), end="")
        return 0
    wrong = 0
    for name, make in chosen.items():
        want = golden()[name].split()
        try:
            got = text(torch, name, make).split()
        except Exception as error:
            got = [name, "%s: %s" % (type(error).__name__, error)]
        wrong += want != got
        print(name, "same" if want == got else "differs")
        for line in difflib.unified_diff(want, got, "PyTorch", "rushlight", lineterm="", n=2) if want != got else ():
            print("    " + line)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
