"""Common mistakes: PyTorch's class of exception, its words in the message, and where in the model it happened.

mistakes.tsv was written by PyTorch 2.13. Our messages have PyTorch's text inside; in front of it stand the module's
path, when it happened in one, and the operation's name.
"""
import pathlib
import warnings

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn

ROWS = [line.split("\t") for line in (pathlib.Path(__file__).parent / "mistakes.tsv").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
        self.head = nn.Linear(7, 2)
        self.emb = nn.Embedding(5, 3)
        self.rnn = nn.LSTM(4, 5)
        self.hidden = [nn.Linear(2, 2)]  # not a child: the list hides it

    def forward(self, x, what="head"):
        if what == "own":
            return x @ x.t() @ x @ self.head.weight
        if what == "user":
            raise ValueError("the program's own words")
        if what == "hidden":
            return self.hidden[0](x)
        return self.head(self.features(x).flatten(1))


NAMES = {"torch": torch, "F": F, "nn": nn, "Net": Net, "net": nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(6, 3))}


@pytest.mark.parametrize("snippet,error,message", ROWS)
def test_mistake(snippet, error, message):
    with warnings.catch_warnings(), pytest.raises(Exception) as caught:
        warnings.simplefilter("ignore")
        eval(snippet, NAMES)
    assert type(caught.value).__name__ == error
    assert message.replace("⏎", "\n").replace("␉", "\t") in str(caught.value).replace("rushlight", "torch")


def said(call, error=RuntimeError):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    return str(caught.value)


def test_path_of_the_module():
    x = torch.ones(4, 4)
    product = "linear: mat1 and mat2 shapes cannot be multiplied (4x5 and 6x3)"
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(6, 3))
    assert said(lambda: net(x)) == "in 2 (Linear): " + product
    outer = nn.ModuleDict({"layers": net})
    outer.forward = lambda x: outer["layers"](x)
    assert said(lambda: outer(x)) == "in layers.2 (Linear): " + product
    assert said(lambda: net[2](torch.ones(4, 5))) == "in Linear: " + product
    assert said(lambda: net(x)) == "in 2 (Linear): " + product  # once more: nothing stays behind
    assert said(lambda: nn.Linear(6, 3)(torch.ones(4, 5))) == "in Linear: " + product


def test_path_of_conv_embedding_and_own_code():
    net = nn.ModuleDict({"model": Net()})
    net.forward = lambda *x: net["model"](*x)
    assert said(lambda: net(torch.ones(2, 1, 8, 8))).startswith("in model.features.0 (Conv2d): convolution: Given groups=1")
    assert said(lambda: net(torch.ones(2, 3), "own")).startswith("in model (Net): mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 2x7)")
    assert said(lambda: net(torch.ones(2, 3), "hidden")).startswith("in Linear: linear: mat1")
    assert said(lambda: net(torch.ones(1), "user"), ValueError) == "the program's own words"
    norm = nn.Sequential(nn.BatchNorm2d(3))
    assert said(lambda: norm(torch.ones(2, 3)), ValueError).startswith("in 0 (BatchNorm2d): expected 4D input")


def test_path_with_hooks_and_threads():
    import threading
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 3)))
    net.register_forward_hook(lambda *a: None)
    net[0].register_forward_pre_hook(lambda *a: None)
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(said(lambda: net(torch.ones(1, 5))))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert texts == ["in 0.0 (Linear): linear: mat1 and mat2 shapes cannot be multiplied (1x5 and 2x3)"] * 4


def test_caught_inside_the_model():
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            try:
                return self.inner(x)
            except RuntimeError as error:
                return str(error)
    assert Tries()(torch.ones(1, 3)).startswith("in Linear: linear: mat1")
