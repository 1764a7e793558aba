#!/usr/bin/env python3
"""Quantized models under PyTorch and under rushlight: observers' scales and zero points, outputs in steps, training losses.

    tests/parity/quantized.py ORACLE [NAME...]

ORACLE is a Python that has PyTorch and NumPy. Ends with 1 if one differs by more than a step, or a loss by more than 4 digits.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import warnings

warnings.filterwarnings("ignore")


def models(torch):
    nn = torch.nn
    Q = torch.ao.quantization

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
            self.a, self.ra, self.b = nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 10)

        def forward(self, x):
            return self.dequant(self.b(self.ra(self.a(self.quant(x)))))

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
            self.c1, self.n1, self.r1, self.p1 = nn.Conv2d(1, 6, 5, padding=2), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
            self.c2, self.r2, self.p2 = nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2)
            self.f1, self.r3, self.f2 = nn.Linear(16 * 25, 84), nn.ReLU(), nn.Linear(84, 10)

        def forward(self, x):
            x = self.p1(self.r1(self.n1(self.c1(self.quant(x)))))
            x = self.p2(self.r2(self.c2(x)))
            x = torch.flatten(x, 1)
            return self.dequant(self.f2(self.r3(self.f1(x))))

    class Block(nn.Module):
        def __init__(self, inside, outside, stride):
            super().__init__()
            self.conv1, self.bn1, self.relu1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
            self.conv2, self.bn2, self.relu2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
            self.skip = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)) if stride > 1 or inside != outside else None
            self.add = nn.quantized.FloatFunctional()

        def forward(self, x):
            y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
            return self.relu2(self.add.add(y, x if self.skip is None else self.skip(x)))

    class ResNet(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.quant, self.dequant = Q.QuantStub(), Q.DeQuantStub()
            self.conv1, self.bn1, self.relu, self.pool = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
            sizes = [width, width, 2 * width, 4 * width, 8 * width]
            self.layers = nn.Sequential(*[Block(sizes[i] if k == 0 else sizes[i + 1], sizes[i + 1], 2 if i and k == 0 else 1) for i in range(4) for k in range(2)])
            self.gap, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8 * width, 10)

        def forward(self, x):
            x = self.layers(self.pool(self.relu(self.bn1(self.conv1(self.quant(x))))))
            return self.dequant(self.fc(torch.flatten(self.gap(x), 1)))

        def pairs(self):
            names = [["conv1", "bn1", "relu"]]
            for i in range(8):
                names += [["layers.%d.conv1" % i, "layers.%d.bn1" % i, "layers.%d.relu1" % i], ["layers.%d.conv2" % i, "layers.%d.bn2" % i]]
                if self.layers[i].skip is not None:
                    names.append(["layers.%d.skip.0" % i, "layers.%d.skip.1" % i])
            return names

    class Bert(nn.Module):
        def __init__(self, width=64, heads=4, depth=2):
            super().__init__()
            self.words, self.places = nn.Embedding(100, width), nn.Embedding(32, width)
            self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "up": nn.Linear(width, 4 * width),
                                                       "down": nn.Linear(4 * width, width), "n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width)}) for _ in range(depth))
            self.heads, self.head = heads, nn.Linear(width, 3)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
            for layer in self.layers:
                q, k, v = (t.view(t.shape[0], t.shape[1], self.heads, -1).transpose(1, 2) for t in layer["qkv"](x).chunk(3, -1))
                y = (torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v).transpose(1, 2).flatten(2)
                x = layer["n1"](x + layer["out"](y))
                x = layer["n2"](x + layer["down"](nn.functional.gelu(layer["up"](x))))
            return self.head(x[:, 0])

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.rnn, self.fc = nn.Embedding(50, 16), nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True), nn.Linear(48, 5)

        def forward(self, ids):
            return self.fc(self.rnn(self.words(ids))[0][:, -1])

    class Gru(Lstm):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(16, 24, 1, batch_first=True, bidirectional=True)
    return Mlp, LeNet, ResNet, Bert, Lstm, Gru


def grids(model):
    """Scales and zero points by name."""
    found = {}
    for name, module in model.named_modules():
        scale = getattr(module, "scale", None)
        if scale is not None and hasattr(module, "zero_point"):
            found[name] = [float(scale), int(module.zero_point)] if not hasattr(scale, "numel") or scale.numel() == 1 else [float(scale.double().sum()), int(module.zero_point.sum())]
    return found


def cases(torch):
    nn, Q = torch.nn, torch.ao.quantization
    Mlp, LeNet, ResNet, Bert, Lstm, Gru = models(torch)
    torch.backends.quantized.engine = "x86" if "x86" in torch.backends.quantized.supported_engines else "onednn"

    def make(kind, shape, *args):
        torch.manual_seed(0)
        model = kind(*args)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 2)
        return model, [torch.randn(shape) for _ in range(4)]

    def answer(model, outputs):
        return {"grids": grids(model), "outputs": [y.flatten().tolist() for y in outputs]}

    def static(kind, shape, fuse, qconfig, *args):
        model, data = make(kind, shape, *args)
        model.eval()
        names = fuse(model)
        if names:
            model = Q.fuse_modules(model, names)
        model.qconfig = qconfig
        Q.prepare(model, inplace=True)
        for x in data:
            model(x)
        Q.convert(model, inplace=True)
        return answer(model, [model(x) for x in data])

    def qat(kind, shape, fuse, qconfig, steps=8):
        model, data = make(kind, shape)
        model.train()
        names = fuse(model)
        if names:
            model = Q.fuse_modules_qat(model, names)
        model.qconfig = qconfig
        Q.prepare_qat(model, inplace=True)
        opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        target, losses = torch.arange(shape[0]) % 10, []
        for step in range(steps):
            loss = nn.functional.cross_entropy(model(data[step % 4]), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(float(loss))
            if step == steps - 3 and names:
                model.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
        model.eval()
        Q.convert(model, inplace=True)
        return dict(answer(model, [model(x) for x in data]), losses=losses)

    def dynamic(kind, **spec):
        torch.manual_seed(0)
        model = kind().eval()
        ids = torch.randint(0, 50, (3, 12))
        model = Q.quantize_dynamic(model, **spec)
        return answer(model, [model(ids)])

    def graph(kind, shape, is_qat=False, *args):
        from importlib import import_module
        fx = import_module(torch.__name__ + ".ao.quantization.quantize_fx")
        model, data = make(kind, shape, *args)
        mapping = (Q.get_default_qat_qconfig_mapping if is_qat else Q.get_default_qconfig_mapping)("x86")
        losses = []
        if is_qat:
            model = fx.prepare_qat_fx(model.train(), mapping, (data[0],))
            opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
            for step in range(6):
                loss = nn.functional.cross_entropy(model(data[step % 4]), torch.arange(shape[0]) % 10)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(float(loss))
            model.eval()
        else:
            model = fx.prepare_fx(model.eval(), mapping, (data[0],))
            for x in data:
                model(x)
        model = fx.convert_fx(model)
        return dict(answer(model, [model(x) for x in data]), losses=losses)

    none, lenet = lambda m: None, lambda m: [["c1", "n1", "r1"], ["c2", "r2"], ["f1", "r3"]]
    x86, plain = Q.get_default_qconfig("x86"), Q.default_qconfig
    return {
        "static mlp": lambda: static(Mlp, (16, 20), none, x86), "static mlp minmax": lambda: static(Mlp, (16, 20), lambda m: [["a", "ra"]], plain),
        "static lenet": lambda: static(LeNet, (8, 1, 28, 28), lenet, x86), "static lenet minmax": lambda: static(LeNet, (8, 1, 28, 28), none, plain),
        "static resnet": lambda: static(ResNet, (2, 3, 64, 64), lambda m: m.pairs(), x86),
        "dynamic mlp": lambda: _mlp(torch, Q, Mlp), "dynamic lstm": lambda: dynamic(Lstm), "dynamic gru": lambda: dynamic(Gru), "dynamic bert": lambda: dynamic(Bert),
        "dynamic per channel bert": lambda: dynamic(Bert, qconfig_spec={nn.Linear: Q.per_channel_dynamic_qconfig}),
        "dynamic half bert": lambda: dynamic(Bert, dtype=torch.float16),
        "embedding bert": lambda: dynamic(Bert, qconfig_spec={nn.Embedding: Q.float_qparams_weight_only_qconfig}),
        "qat mlp": lambda: qat(Mlp, (16, 20), none, Q.get_default_qat_qconfig("x86")), "qat mlp 0": lambda: qat(Mlp, (16, 20), none, Q.get_default_qat_qconfig("x86", 0)),
        "qat lenet": lambda: qat(LeNet, (8, 1, 28, 28), lenet, Q.get_default_qat_qconfig("x86")),
        "qat lenet plain": lambda: qat(LeNet, (8, 1, 28, 28), none, Q.default_qat_qconfig),
        "fx mlp": lambda: graph(Mlp, (16, 20)), "fx lenet": lambda: graph(LeNet, (8, 1, 28, 28)), "fx resnet": lambda: graph(ResNet, (2, 3, 64, 64)),
        "fx qat mlp": lambda: graph(Mlp, (16, 20), True), "fx qat lenet": lambda: graph(LeNet, (8, 1, 28, 28), True),
    }


def _mlp(torch, Q, Mlp):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.ReLU(), torch.nn.Linear(40, 10)).eval()
    x = torch.randn(16, 20)
    model = Q.quantize_dynamic(model)
    return {"grids": {}, "outputs": [model(x).flatten().tolist()]}


def answers(name, wanted):
    torch = importlib.import_module(name)
    importlib.import_module(name + ".ao.quantization")
    torch.set_num_threads(1)
    done = {}
    for case, run in cases(torch).items():
        if wanted and not any(w in case for w in wanted):
            continue
        try:
            done[case] = run()
        except Exception as error:
            import traceback
            done[case] = {"error": "%s: %s\n%s" % (type(error).__name__, error, "".join(traceback.format_tb(error.__traceback__)[-3:]))}
    json.dump(done, sys.stdout)


def run(python, name, wanted):
    path = os.pathsep.join([str(pathlib.Path(__file__).resolve().parents[2] / "python"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, **({"PYTHONPATH": path} if name == "rushlight" else {})}
    done = subprocess.run([python, __file__, "--answers", name, *wanted], stdout=subprocess.PIPE, text=True, check=True, env=env)
    return json.loads(done.stdout)


def compare(a, b):
    """What differs between PyTorch's answer and ours: words, or nothing."""
    if "error" in a or "error" in b:
        return None if "error" in a and "error" in b else "PyTorch: %s\nrushlight: %s" % (a.get("error"), b.get("error"))
    if a["grids"].keys() != b["grids"].keys():
        return "grids of %s and %s" % (sorted(a["grids"].keys() - b["grids"].keys())[:6], sorted(b["grids"].keys() - a["grids"].keys())[:6])
    for name, (scale, zero) in a["grids"].items():
        ours = b["grids"][name]
        if abs(scale - ours[0]) > (1e-3 if a.get("losses") else 1e-5) * abs(scale) or zero != ours[1]:
            return "%s: scale %r, zero point %r; here %r" % (name, scale, zero, ours)
    if a.get("losses"):  # weights that differ in the last bit fall on other steps here and there
        return None if all(abs(x - y) <= 1e-4 * max(abs(x), 1) for x, y in zip(a["losses"], b["losses"])) else "losses %r and %r" % (a["losses"], b["losses"])
    scales = [scale for name, (scale, _) in a["grids"].items()]
    step = list(a["grids"].values())[-1][0] if scales else 0
    worst = max(abs(x - y) for p, q in zip(a["outputs"], b["outputs"]) for x, y in zip(p, q))
    largest = max(abs(x) for p in a["outputs"] for x in p)
    allowed = step * 1.01 if step else 1e-2 * largest
    return None if worst <= allowed else "outputs differ by %g, of a step of %g (largest %g)" % (worst, step, largest)


def main():
    if sys.argv[1:2] == ["--answers"]:
        return answers(sys.argv[2], sys.argv[3:])
    theirs, ours = run(sys.argv[1], "torch", sys.argv[2:]), run(sys.executable, "rushlight", sys.argv[2:])
    wrong = 0
    for case in theirs:
        difference = compare(theirs[case], ours[case])
        wrong += difference is not None
        print("%-28s %s" % (case, difference or "same"), flush=True)
    print("%d models, %d differ" % (len(theirs), wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
