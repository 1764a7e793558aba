#!/usr/bin/env python3
"""Write archives of torch.jit.save and what PyTorch computes with them, which the tests compare with: tests/data/scripts.

    ORACLE/bin/python tests/scripted.py FOLDER     NAME.pt and NAME.io: (inputs, results) as torch.save writes them

Debugging information is taken out of the archives, so that they name nobody's folders, and their code is packed.
"""
import pathlib
import sys
import warnings
import zipfile
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.bn, self.p, self.l = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.Linear(64, 5)

    def forward(self, x):
        x = self.p(F.gelu(self.bn(self.c(x))))
        return F.log_softmax(self.l(x.view(x.size(0), -1)), dim=1)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(10, 4), kind(4, 3, batch_first=True, num_layers=2), nn.Linear(3, 2)

    def forward(self, x):
        y, _ = self.r(self.e(x))
        return self.o(y[:, -1])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.t, self.o = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 1), nn.Linear(8, 2)

    def forward(self, x):
        return self.o(self.t(x).mean(1))


class Control(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.blocks = nn.Linear(3, 3), nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, flag: bool = True, names: Optional[List[str]] = None) -> Tuple[torch.Tensor, Dict[str, torch.Tensor], List[int]]:
        i = 0
        out: List[torch.Tensor] = []
        sizes: List[int] = []
        while bool(x.norm() < 50) and i < 20:
            x = self.l(x) * 2 + 1
            i += 1
            if i % 3 == 0:
                continue
            out.append(x)
            sizes.append(x.size(0) + i)
            if i > 15:
                break
        for k, b in enumerate(self.blocks):
            x = torch.tanh(b(x)) + k
        d: Dict[str, torch.Tensor] = {}
        for j, o in enumerate(out):
            d["o" + str(j)] = o.sum() / 100
        if names is not None:
            for n in names:
                d[n] = torch.ones(2)
        if flag:
            self.count += 1
        else:
            raise ValueError("no flag")
        z = torch.stack(out) if len(out) > 0 else torch.zeros(1)
        return x[0:2, None, ...] + z.mean() / 100, d, [q * 2 for q in sizes]

    @torch.jit.export
    def other(self, x: int) -> str:
        return "{} and {}".format(x, x * 2.5)


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.LSTMCell(3, 4)

    def forward(self, xs: List[torch.Tensor], state: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        outs = torch.jit.annotate(List[torch.Tensor], [])
        for x in xs:
            state = self.c(x, state)
            outs += [state[0]]
        return torch.cat(outs), state


@torch.jit.script
class Box:
    def __init__(self, a: int, t: torch.Tensor):
        self.a = a
        self.t = t

    def area(self, k: float = 2.0) -> torch.Tensor:
        return self.t * self.a * k

    def bump(self):
        self.a += 1


class Pair(NamedTuple):
    u: torch.Tensor
    v: int


class Values(nn.Module):
    def forward(self, x):
        b = Box(3, x)
        b.bump()
        assert b.a == 4, "no"
        k, m, z = [b.area(1.5), b.area()], {1: "a", 2: "b"}, 0
        for key in m:
            if key in [2, 3]:
                z += key
        for p, q in zip([1, 2], [3, 4]):
            z += p * q
        s = "-".join(["a", "b"]).upper()
        if s.startswith("A") and not (z == 0):
            z += 1
        x = x.clone()
        x[0, 1] = 5.0
        x[1] += 1
        x[:, [0, 1]] = x[:, [1, 0]]
        w = x[x > 0]
        y = torch.cat(k) + z + w.sum() + x.shape[-1]**2 + abs(-3) + round(2.6) + int(x.sum().item() > 0) + -7 // 2 + -7 % 3
        with torch.no_grad():
            y = y + 1
        return Pair(y, z)


class Padded(nn.Module):
    """In evaluation without gradients PyTorch computes a layer in one call, and leaves the padding away."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True, activation="gelu"), 2)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, padding):
        y = self.encoder(x, src_key_padding_mask=padding)
        return self.attention(y, y, x, key_padding_mask=padding) + (self.encoder(x), self.attention(x, x, x, need_weights=False)[0])


def cases():
    torch.manual_seed(0)
    pixels, tokens, x = torch.randn(2, 1, 8, 8), torch.randint(0, 10, (3, 4)), torch.randn(3, 3)
    cnn, gru, sequence = Convolutions().eval(), Recurrent(nn.GRU).eval(), torch.randn(2, 5, 8)
    yield "cnn_traced", torch.jit.trace(cnn, pixels), (pixels,)
    yield "cnn_scripted", torch.jit.script(cnn), (pixels,)
    yield "gru_traced", torch.jit.trace(gru, tokens), (tokens,)
    yield "lstm_scripted", torch.jit.script(Recurrent(nn.LSTM).eval()), (tokens,)
    yield "encoder_traced", torch.jit.trace(Encoder().eval(), sequence, check_trace=False), (sequence,)
    yield "encoder_scripted", torch.jit.script(Encoder().eval()), (sequence,)
    yield "control", torch.jit.script(Control().eval()), (x, True, ["a", "b"])
    yield "cells", torch.jit.script(Cells()), ([torch.randn(2, 3) for _ in range(3)],)
    yield "values", torch.jit.script(Values()), (torch.randn(2, 3),)
    rows = torch.randn(3, 5, 8), torch.arange(5) >= torch.tensor([[5], [2], [3]])
    with torch.no_grad():
        yield "padded_traced", torch.jit.trace(Padded().eval(), rows), rows


def plain(path):
    with zipfile.ZipFile(path) as old:
        entries = [(e.filename, old.read(e)) for e in old.infolist()]
    with zipfile.ZipFile(path, "w") as new:
        for name, content in entries:
            if not name.endswith((".debug_pkl", "serialization_id")) and "/traced_inputs" not in name:
                new.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, module, inputs in cases():
        module.save(str(folder / f"{name}.pt"))
        result = module(*inputs)
        torch.save((inputs, tuple(result) if hasattr(result, "_fields") else result), folder / f"{name}.io")
        plain(folder / f"{name}.pt")
        plain(folder / f"{name}.io")


if __name__ == "__main__":
    main()
