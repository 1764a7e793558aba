#!/usr/bin/env python3
"""Compare programs that PyTorch exports with what the library makes of them: results, and weights after three steps of Adam.

    ORACLE/bin/python tests/exported.py write FOLDER [NAME...]     exports sixteen networks, with what PyTorch computes
    ORACLE/bin/python tests/exported.py check FOLDER [--build build]   runs and trains them without Python; prints the differences
    python tests/exported.py read FOLDER [NAME...]                     runs and trains them with torch.export.load

What one library writes (`python -m rushlight tests/exported.py write FOLDER`: this one) the other reads.

Each network is exported as it is captured, and again taken apart into ATen's core (NAME_aten). Descriptions of where calls came
from are taken out of the files, so that they name nobody's folders.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zipfile

import numpy as np

LIMIT = 1e-5


def networks():
    """name -> (module, inputs, dynamic shapes)"""
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.export import Dim

    def feed_forward(width, inner, act):
        return nn.Sequential(nn.Linear(width, inner), act, nn.Linear(inner, width))

    class Net(nn.Module):
        """A module made of named parts and a function of them."""

        def __init__(self, call, **parts):
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)
            self.call = call

        def forward(self, x, y=None):
            return self.call(self, x) if y is None else self.call(self, x, y)

    def residual(i, o, stride=1):
        skip = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)) if stride != 1 or i != o else nn.Identity()
        return Net(lambda s, x: F.relu(s.body(x) + s.skip(x)), skip=skip,
                   body=nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)))

    def resnet18(w=8):
        widths = [(w, w, 1), (w, w, 1), (w, 2 * w, 2), (2 * w, 2 * w, 1), (2 * w, 4 * w, 2), (4 * w, 4 * w, 1), (4 * w, 8 * w, 2), (8 * w, 8 * w, 1)]
        return nn.Sequential(nn.Conv2d(3, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU(), nn.MaxPool2d(2), *(residual(*k) for k in widths),
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * w, 10))

    def unet():
        def conv(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU())

        def call(s, x):
            high = s.down(x)
            low = s.low(F.max_pool2d(high, 2))
            up = F.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)[:, :4] + s.up(low)
            return s.out(torch.cat([high, up], 1))
        return Net(call, down=conv(1, 4), low=nn.Sequential(conv(4, 8), conv(8, 8)), up=nn.ConvTranspose2d(8, 4, 2, 2), out=nn.Sequential(conv(8, 4), nn.Conv2d(4, 1, 1)))

    def recurrent(kind, **options):
        rnn = kind(6, 7, 2, batch_first=True, **options)
        return Net(lambda s, x: s.head(s.rnn(s.embed(x))[0]), embed=nn.Embedding(11, 6), rnn=rnn, head=nn.Linear(14 if options else 7, 11))

    def attention(width, heads, shared=None, rotary=False):
        shared, part = shared or heads, width // heads

        def turn(x, t):
            angle = torch.outer(torch.arange(t).float(), 10000 ** (-torch.arange(0, part, 2).float() / part)).repeat(1, 2)
            return x * angle.cos() + torch.cat([-x[..., part // 2:], x[..., :part // 2]], -1) * angle.sin()

        def call(s, x):
            b, t, c = x.shape
            q = s.q(x).view(b, t, heads, part).transpose(1, 2)
            k, v = s.kv(x).view(b, t, 2, shared, part).permute(2, 0, 3, 1, 4)
            if rotary:
                q, k = turn(q, t), turn(k, t)
            k, v = (y.repeat_interleave(heads // shared, 1) for y in (k, v))
            return s.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))
        return Net(call, q=nn.Linear(width, width, bias=False), kv=nn.Linear(width, 2 * part * shared, bias=False), out=nn.Linear(width, width, bias=False))

    def layer(width, attend, norm, mlp):
        def call(s, x):
            x = x + s.attend(s.norm1(x))
            return x + s.mlp(s.norm2(x))
        return Net(call, attend=attend, norm1=norm(width), norm2=norm(width), mlp=mlp)

    def gpt2(width=24, words=17):
        layers = [layer(width, attention(width, 3), nn.LayerNorm, feed_forward(width, 4 * width, nn.GELU(approximate="tanh"))) for _ in range(2)]
        net = Net(lambda s, x: s.head(s.norm(s.layers(s.words(x) + s.places(torch.arange(x.shape[1]))))), words=nn.Embedding(words, width), places=nn.Embedding(64, width),
                  layers=nn.Sequential(*layers), norm=nn.LayerNorm(width), head=nn.Linear(width, words, bias=False))
        net.head.weight = net.words.weight
        return net

    def llama(width=32, words=19):
        def gated():
            return Net(lambda s, x: s.down(F.silu(s.gate(x)) * s.up(x)), gate=nn.Linear(width, 3 * width, bias=False), up=nn.Linear(width, 3 * width, bias=False),
                       down=nn.Linear(3 * width, width, bias=False))
        layers = [layer(width, attention(width, 4, shared=2, rotary=True), nn.RMSNorm, gated()) for _ in range(2)]
        return Net(lambda s, x: F.linear(s.norm(s.layers(s.words(x))), s.words.weight), words=nn.Embedding(words, width), layers=nn.Sequential(*layers), norm=nn.RMSNorm(width))

    def encoder(width, **options):
        one = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True, **options)
        return nn.TransformerEncoder(one, 2, enable_nested_tensor=False)

    def vit():
        def call(s, x):
            y = s.patches(x).flatten(2).transpose(1, 2)
            return s.head(s.layers(torch.cat([s.token.expand(x.shape[0], -1, -1), y], 1) + s.places)[:, 0])
        return Net(call, patches=nn.Conv2d(3, 16, 4, 4), token=nn.Parameter(torch.randn(1, 1, 16) * 0.02), places=nn.Parameter(torch.randn(1, 17, 16) * 0.02),
                   layers=encoder(16, norm_first=True, activation="gelu"), head=nn.Linear(16, 10))

    def bert():
        def call(s, x, absent):
            y = s.norm(s.words(x) + s.places.weight[:x.shape[1]])
            for attend, mlp in zip(s.attend, s.mlp):
                y = y + attend(y, y, y, key_padding_mask=absent, need_weights=False)[0]
                y = y + mlp(y)
            return s.head(y)
        return Net(call, words=nn.Embedding(29, 16, padding_idx=0), places=nn.Embedding(32, 16), norm=nn.LayerNorm(16), head=nn.Linear(16, 29),
                   attend=nn.ModuleList(nn.MultiheadAttention(16, 2, batch_first=True) for _ in range(2)),
                   mlp=nn.ModuleList(feed_forward(16, 32, nn.GELU()).append(nn.LayerNorm(16)) for _ in range(2)))

    def masked():
        def call(s, x, absent):
            q, k, v = s.qkv(x).chunk(3, -1)
            weight = (q @ k.transpose(-1, -2) / math.sqrt(8)).masked_fill(absent[:, None, :], -math.inf).softmax(-1)
            return torch.where(absent[..., None], 0.0, weight @ v)
        return Net(call, qkv=nn.Linear(8, 24))

    def vae():
        def call(s, x, noise):
            mean, log_var = s.encode(x).chunk(2, 1)
            return s.decode(mean + noise * (0.5 * log_var).exp()), -0.5 * (1 + log_var - mean ** 2 - log_var.exp()).sum(1)
        return Net(call, encode=nn.Linear(12, 8), decode=nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 12), nn.Sigmoid()))

    def experts():
        def call(s, x):
            share, who = s.gate(x).softmax(-1).topk(2, -1)
            y = torch.einsum("beh,ehd->bed", torch.einsum("bd,edh->beh", x, s.first).relu(), s.second)
            return (y.gather(1, who[..., None].expand(-1, -1, 8)) * share[..., None]).sum(1)
        return Net(call, gate=nn.Linear(8, 4), first=nn.Parameter(torch.randn(4, 8, 16) * 0.2), second=nn.Parameter(torch.randn(4, 16, 8) * 0.2))

    def control():
        return Net(lambda s, x: torch.cond(x.sum() > 0, lambda x: s.a(x).relu(), lambda x: s.b(x).sin(), (x,)), a=nn.Linear(4, 4), b=nn.Linear(4, 4))

    def dynamic():
        def call(s, x):
            t = x.shape[1]
            later = torch.arange(t)[:, None] > torch.arange(t)[None]
            return s.attend(x) * t, x.sum() * later.sum()
        return Net(call, attend=attention(12, 2))

    def mlp():
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def cnn():
        return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 10))

    r, b, t = torch.randn, Dim("b", min=2, max=64), Dim("t", min=2, max=64)
    words, absent = torch.randint(1, 11, (3, 7)), torch.zeros(3, 7, dtype=torch.bool)
    absent[1, 3:] = True
    batch, both = ({0: b},), ({0: b, 1: t},)
    return {"mlp": (mlp, (r(3, 8),), batch), "cnn": (cnn, (r(3, 1, 8, 8),), batch), "resnet18": (resnet18, (r(4, 3, 32, 32),), batch), "unet": (unet, (r(2, 1, 16, 16),), batch),
            "lstm": (lambda: recurrent(nn.LSTM), (words,), None), "gru": (lambda: recurrent(nn.GRU, bidirectional=True), (words,), None),
            "encoder": (lambda: encoder(8), (r(3, 5, 8),), None), "gpt2": (gpt2, (words,), both), "llama": (llama, (words,), both), "vit": (vit, (r(2, 3, 16, 16),), None),
            "bert": (bert, (words, absent), None), "masked": (masked, (r(3, 7, 8), absent), both * 2), "vae": (vae, (r(3, 12), r(3, 4)), batch * 2),
            "experts": (experts, (r(5, 8),), batch), "control": (control, (r(3, 4),), batch), "dynamic": (dynamic, (r(3, 5, 12),), both)}


def without_places(tree):
    """JSON without the members that say where in whose files a call came from."""
    if isinstance(tree, dict):
        return {k: {} if k == "metadata" else without_places(v) for k, v in tree.items() if k != "guards_code"}
    return [without_places(x) for x in tree] if isinstance(tree, list) else tree


def save(program, path):
    import torch
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / path.name
        torch.export.save(program, plain)
        with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for entry in old.infolist():
                data = old.read(entry)
                if entry.filename.endswith("models/" + path.stem + ".json"):
                    data = json.dumps(without_places(json.loads(data))).encode()
                if "sample_inputs" in entry.filename:
                    data = b""
                new.writestr(entry.filename, data)


def write(folder, names):
    import torch
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for name, (make, inputs, shapes) in networks().items():
        if names and name not in names:
            continue
        torch.manual_seed(1)
        exported = torch.export.export(make(), inputs, dynamic_shapes=shapes, strict=False)
        save(exported, folder / f"{name}.pt2")
        save(exported.run_decompositions(), folder / f"{name}_aten.pt2")
        net, found = exported.module(), {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
        np.savez_compressed(folder / f"{name}_in.npz", **found)
        first = net(*inputs)
        first = first if isinstance(first, tuple) else (first,)
        np.savez_compressed(folder / f"{name}_out.npz", **{f"out{i}": y.detach().numpy() for i, y in enumerate(first)})
        net = torch.export.load(folder / f"{name}.pt2").module()  # the statistics of the first run are forgotten
        np.savez_compressed(folder / f"{name}_state.npz", **train(net, inputs))
        print(name, "written")


def train(net, inputs):
    """Three steps of Adam; the state that they lead to."""
    import torch
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-4)
    for _ in range(3):
        adam.zero_grad()
        y = net(*inputs)
        y = (y[0] if isinstance(y, tuple) else y).flatten()
        torch.nn.functional.mse_loss(y, torch.sin(torch.arange(float(y.numel())))).backward()
        adam.step()
    return {k: v.detach().numpy() for k, v in net.state_dict().items()}


def read(folder, names):
    import torch
    bad = 0
    for path in sorted(folder.glob("*_in.npz")):
        name = path.name[:-7]
        if names and name not in names:
            continue
        given, want, state = (np.load(folder / f"{name}_{what}.npz") for what in ("in", "out", "state"))
        inputs = tuple(torch.from_numpy(given[f"in{i}"]) for i in range(len(given.files)))
        line = f"{name:10s}"
        for file in (f"{name}.pt2", f"{name}_aten.pt2"):
            try:
                net = torch.export.load(folder / file).module()
                out = net(*inputs)
                out = out if isinstance(out, tuple) else (out,)
                differs = max(float((y - torch.from_numpy(want[f"out{i}"])).abs().max()) for i, y in enumerate(out))
                if file == f"{name}.pt2":
                    found = train(torch.export.load(folder / file).module(), inputs)
                    differs = max([differs] + [float(np.abs(found[k].astype("f8") - state[k]).max(initial=0)) for k in state.files])
            except Exception as error:  # one that fails is told of, and the others are looked at
                line, differs = f"{line}  {type(error).__name__}: {str(error)[:300]}", math.inf
            bad += not differs <= LIMIT
            line += f"  {differs:.1e}"
        print(line)
    print(f"{bad} differ by more than {LIMIT:g}")
    return bad > 0


def largest(ours, theirs):
    """The largest difference of arrays by name; infinite where names or sizes differ."""
    a, b = np.load(ours), np.load(theirs)
    if set(a.files) != set(b.files) or any(a[k].shape != b[k].shape for k in b.files):
        return math.inf
    return max(float(np.abs(a[k].astype("f8") - b[k].astype("f8")).max(initial=0)) for k in b.files)


def check(folder, names, build):
    bad = 0
    with tempfile.TemporaryDirectory() as room:
        for inputs in sorted(folder.glob("*_in.npz")):
            name = inputs.name[:-7]
            if names and name not in names:
                continue
            line, out, state = f"{name:10s}", f"{room}/out.npz", f"{room}/state.npz"
            jobs = [("results", [build / "rushlight", "run", folder / f"{name}.pt2", inputs, "-o", out], out, "out"),
                    ("taken apart", [build / "rushlight", "run", folder / f"{name}_aten.pt2", inputs, "-o", out], out, "out"),
                    ("weights", [build / "examples/finetune", folder / f"{name}.pt2", inputs, state], state, "state")]
            for what, command, got, want in jobs:
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                differs = largest(got, folder / f"{name}_{want}.npz") if done.returncode == 0 else math.inf
                bad += differs > LIMIT
                line += f"  {what} {differs:.1e}" if done.returncode == 0 else f"  {what}: {done.stderr.strip()[:300]}"
            print(line)
    print(f"{bad} differ by more than {LIMIT:g}")
    return bad > 0


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("what", choices=["write", "check", "read"])
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("names", nargs="*")
    args.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    opt = args.parse_args()
    opt.folder.mkdir(parents=True, exist_ok=True)
    return check(opt.folder, opt.names, opt.build) if opt.what == "check" else {"write": write, "read": read}[opt.what](opt.folder, opt.names)


if __name__ == "__main__":
    sys.exit(main())
