"""The networks that training.py, inference.py and memory.py run: small to large, of every common kind."""
import torch
from torch import nn
import torch.nn.functional as F


def mlp(*sizes):
    layers = []
    for wide, narrow in zip(sizes, sizes[1:]):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def digits_cnn():
    """Two convolutions and two linear layers for pictures of 28 x 28."""
    features = [nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten()]
    return nn.Sequential(*features, nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))


def conv_norm(before, after, size, stride=1):
    return nn.Sequential(nn.Conv2d(before, after, size, stride, size // 2, bias=False), nn.BatchNorm2d(after))


class Shortcut(nn.Module):
    """y = relu(f(x) + x), with x brought to f's shape where it differs (He et al. 2015)."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(conv_norm(before, after, 3, stride), nn.ReLU(), conv_norm(after, after, 3))
        self.bypass = nn.Identity() if before == after and stride == 1 else conv_norm(before, after, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.bypass(x))


def resnet18(classes, large_pictures):
    stem = [conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)] if large_pictures else [conv_norm(3, 64, 3), nn.ReLU()]
    wide = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    body = [Shortcut(a, b, 1 if a == b else 2) for a, b in zip(wide, wide[1:])]
    return nn.Sequential(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class Layer(nn.Module):
    """A transformer's layer, normalised first."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_mixing, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.all_three, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        three = self.all_three(self.before_mixing(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(three[0], three[1], three[2], is_causal=True)
        x = x + self.back(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    """Next-token logits from token numbers: GPT-2's architecture."""

    def __init__(self, words, length, layers, heads, width):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))

    def forward(self, ids):
        return self.head(self.layers(self.word(ids) + self.place(torch.arange(ids.shape[1]))))


class Recurrent(nn.Module):
    """The same with an LSTM."""

    def __init__(self, words, width, layers):
        super().__init__()
        self.word, self.cells, self.head = nn.Embedding(words, width), nn.LSTM(width, width, layers, batch_first=True), nn.Linear(width, words)

    def forward(self, ids):
        return self.head(self.cells(self.word(ids))[0])


def gpt2():
    return Transformer(50257, 1024, 12, 12, 768)


def words(vocabulary, *shape):
    return torch.randint(vocabulary, shape)


# name: (model, input, targets, optimizer)
TRAINING = {
    "mlp 64-128-10, batch 64, Adam": lambda: (mlp(64, 128, 10), torch.randn(64, 64), words(10, 64), torch.optim.Adam),
    "mlp 784-1024-1024-10, batch 128, SGD": lambda: (mlp(784, 1024, 1024, 10), torch.randn(128, 784), words(10, 128), torch.optim.SGD),
    "digits cnn, batch 64, Adam": lambda: (digits_cnn(), torch.randn(64, 1, 28, 28), words(10, 64), torch.optim.Adam),
    "resnet18 32x32, batch 16, SGD": lambda: (resnet18(10, False), torch.randn(16, 3, 32, 32), words(10, 16), torch.optim.SGD),
    "gpt 4 layers of 128, 12 x 64, AdamW": lambda: (
        Transformer(65, 64, 4, 4, 128), words(65, 12, 64), words(65, 12, 64), torch.optim.AdamW),
    "gpt 6 layers of 384, 4 x 256, AdamW": lambda: (
        Transformer(65, 256, 6, 6, 384), words(65, 4, 256), words(65, 4, 256), torch.optim.AdamW),
    "lstm 2 layers of 200, 20 x 35, SGD": lambda: (
        Recurrent(10000, 200, 2), words(10000, 20, 35), words(10000, 20, 35), torch.optim.SGD),
}

# name: (model, input)
INFERENCE = {
    "mlp 64-128-10, batch 1": lambda: (mlp(64, 128, 10), torch.randn(1, 64)),
    "digits cnn, batch 1": lambda: (digits_cnn(), torch.randn(1, 1, 28, 28)),
    "resnet18 224x224, batch 1": lambda: (resnet18(1000, True), torch.randn(1, 3, 224, 224)),
    "resnet18 224x224, batch 8": lambda: (resnet18(1000, True), torch.randn(8, 3, 224, 224)),
    "gpt2 124M, 64 tokens": lambda: (gpt2(), words(50257, 1, 64)),
    "gpt2 124M, 1 token": lambda: (gpt2(), words(50257, 1, 1)),
    "lstm 2 layers of 200, length 35": lambda: (Recurrent(10000, 200, 2), words(10000, 1, 35)),
}


def trainer(name):
    """A function that takes one training step of the model of that name."""
    model, x, y, optimizer = TRAINING[name]()
    opt = optimizer(model.parameters(), lr=1e-3)

    def step():
        opt.zero_grad()
        F.cross_entropy(model(x).flatten(0, -2), y.flatten()).backward()
        opt.step()
    return step


def caller(name):
    """A function that runs the model of that name once, without gradients."""
    model, x = INFERENCE[name]()
    model.eval()
    return torch.no_grad()(lambda: model(x))
