#!/usr/bin/env python3
"""Quantized models under PyTorch and under rushlight: observers' scales and zero points, outputs in steps, training losses, accuracy.

    tests/parity/quantized.py ORACLE [NAME...]

ORACLE is a Python that has PyTorch and NumPy, which the Python that runs this has, too. Outputs are compared twice: each with its own observers, and (LOADED) rushlight's with PyTorch's state_dict of the
quantized model. Ends with 1 if one differs by more than a step, a loss by more than 4 digits, or a network on digits loses more than it may.
"""
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "data" / "digits.npy"
# Models whose loss the last bit of a weight changes: by how much PyTorch's own curve moved when its weights were multiplied by 1 or 1 +- 1.2e-7.
SENSITIVE = {"qat resnet": 3.9e-2, "fx qat resnet": 5.5e-2, "fx qat bert": 5.5e-3}
# Outputs more than one step apart, after 8 blocks or 5 layer norms: a value between two steps goes either way where grids differ in the last bit, or sums do.
STEPS = {"static resnet 64": 2, "fx qat bert": 3}
MAY_LOSE = {"int8": 0.003, "dynamic": 0.003, "qat": 0.003, "int4": 0.01}  # of the digits that were not trained with


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
        ids = True

        def __init__(self, width=64, heads=4, depth=2):
            super().__init__()
            self.words, self.places = nn.Embedding(100, width), nn.Embedding(32, width)
            self.layers = nn.ModuleList(nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "up": nn.Linear(width, 4 * width),
                                                       "down": nn.Linear(4 * width, width), "n1": nn.LayerNorm(width), "n2": nn.LayerNorm(width)}) for _ in range(depth))
            self.heads, self.head = heads, nn.Linear(width, 3)

        def forward(self, ids):
            x = self.words(ids) + self.places(torch.arange(12))
            for layer in self.layers:
                parts = layer["qkv"](x).chunk(3, -1)
                q, k, v = (parts[i].view(-1, 12, self.heads, 64 // self.heads).transpose(1, 2) for i in range(3))
                y = (torch.softmax(q @ k.transpose(-1, -2) / (64 // self.heads) ** 0.5, -1) @ v).transpose(1, 2).flatten(2)
                x = layer["n1"](x + layer["out"](y))
                x = layer["n2"](x + layer["down"](nn.functional.gelu(layer["up"](x))))
            return self.head(x[:, 0])

    class Lstm(nn.Module):
        ids = True

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
    """Scales and zero points by name, of results and of weights."""
    found = {}
    for name, module in model.named_modules():
        weight = module.weight() if callable(getattr(module, "weight", None)) else None
        if weight is not None and weight.is_quantized:
            by_row = "per_channel" in str(weight.qscheme())
            found[name + " (weight)"] = [float(weight.q_per_channel_scales().sum()), int(weight.q_per_channel_zero_points().sum())] if by_row else [weight.q_scale(), weight.q_zero_point()]
        scale = getattr(module, "scale", None)
        if scale is not None and hasattr(module, "zero_point"):
            found[name] = [float(scale), int(module.zero_point)] if not hasattr(scale, "numel") or scale.numel() == 1 else [float(scale.double().sum()), int(module.zero_point.sum())]
    return found


def cases(torch):
    nn, Q, name = torch.nn, torch.ao.quantization, torch.__name__
    Mlp, LeNet, ResNet, Bert, Lstm, Gru = models(torch)
    torch.backends.quantized.engine = "x86" if "x86" in torch.backends.quantized.supported_engines else "onednn"

    def make(kind, shape, *args):
        torch.manual_seed(0)
        model = kind(*args)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 2)
        return model, [torch.randint(0, 50, shape) if hasattr(kind, "ids") else torch.randn(shape) for _ in range(4)]

    def answer(case, model, data, **more):
        """What a quantized model has and says; under rushlight also what it says with PyTorch's state."""
        done = dict(more, grids=grids(model), outputs=[model(x).flatten().tolist() for x in data])
        path = pathlib.Path(os.environ["QUANTIZED_STATES"], case.replace(" ", "_") + ".pt")
        if name == "torch":
            torch.save(model.state_dict(), path)
        elif not any(isinstance(module, torch.ao.nn.quantized.dynamic.RNNBase) for module in model.modules()):  # whose packed state is not exchanged
            model.load_state_dict(torch.load(path, weights_only=False))
            done["loaded"] = [model(x).flatten().tolist() for x in data]
        return done

    def static(case, kind, shape, fuse, qconfig, *args):
        model, data = make(kind, shape, *args)
        model.eval()
        names = fuse(model)
        if names:
            model = Q.fuse_modules(model, names)
        model.qconfig = qconfig
        without_rows(model)
        Q.prepare(model, inplace=True)
        for x in data:
            model(x)
        Q.convert(model, inplace=True)
        return answer(case, model, data)

    def rate(kind):
        return 0.01 if kind in (ResNet, Bert, wrapped) else 0.05

    def wrapped():
        """BERT whose linear layers alone are on grids, each between stubs."""
        model = Bert()
        for layer in model.layers:
            for name in ("qkv", "out", "up", "down"):
                layer[name] = Q.QuantWrapper(layer[name])
        model.head = Q.QuantWrapper(model.head)
        return model
    wrapped.ids = True

    def without_rows(model):
        for module in model.modules():
            if isinstance(module, (nn.Embedding, nn.LayerNorm)):
                module.qconfig = None

    def qat(case, kind, shape, fuse, qconfig, steps=8):
        model, data = make(kind, shape)
        model.train()
        names = fuse(model)
        if names:
            model = Q.fuse_modules_qat(model, names)
        model.qconfig = qconfig
        without_rows(model)
        Q.prepare_qat(model, inplace=True)
        opt = torch.optim.SGD(model.parameters(), rate(kind), momentum=0.9)
        target, losses = torch.arange(shape[0]) % 3, []
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
        return answer(case, model, data, losses=losses)

    def dynamic(case, kind, **spec):
        model, data = make(kind, texts if hasattr(kind, "ids") else (16, 20))
        return answer(case, Q.quantize_dynamic(model.eval(), **spec), data)

    def graph(case, kind, shape, mapping=None, *args):
        fx = importlib.import_module(name + ".ao.quantization.quantize_fx")
        model, data = make(kind, shape, *args)
        losses = []
        if mapping == "qat":
            model = fx.prepare_qat_fx(model.train(), Q.get_default_qat_qconfig_mapping("x86").set_object_type(nn.Embedding, None), (data[0],))
            opt = torch.optim.SGD(model.parameters(), rate(kind), momentum=0.9)
            for step in range(6):
                loss = nn.functional.cross_entropy(model(data[step % 4]), torch.arange(shape[0]) % 3)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(float(loss))
            model.eval()
        else:
            model = fx.prepare_fx(model.eval(), mapping or Q.get_default_qconfig_mapping("x86"), (data[0],))
            for x in data:
                model(x)
        model = fx.convert_fx(model)
        return answer(case, model, data, losses=losses)

    def plain_mlp():
        return nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 10))

    none, lenet = lambda m: None, lambda m: [["c1", "n1", "r1"], ["c2", "r2"], ["f1", "r3"]]
    x86, plain = Q.get_default_qconfig("x86"), Q.default_qconfig
    per_channel, rows = {nn.Linear: Q.per_channel_dynamic_qconfig}, {nn.Embedding: Q.float_qparams_weight_only_qconfig}
    images, photos, texts = (8, 1, 28, 28), (2, 3, 64, 64), (8, 12)
    in_training, dynamically = Q.get_default_qat_qconfig("x86"), Q.QConfigMapping().set_global(Q.default_dynamic_qconfig)
    table = {
        "static mlp": (static, Mlp, (16, 20), none, x86), "static mlp minmax": (static, Mlp, (16, 20), lambda m: [["a", "ra"]], plain),
        "static lenet": (static, LeNet, images, lenet, x86), "static lenet minmax": (static, LeNet, images, none, plain),
        "static resnet": (static, ResNet, photos, ResNet.pairs, x86), "static resnet 64": (static, ResNet, photos, ResNet.pairs, x86, 64),
        "static bert": (static, wrapped, texts, none, x86),
        "dynamic mlp": (dynamic, plain_mlp), "dynamic lstm": (dynamic, Lstm), "dynamic gru": (dynamic, Gru), "dynamic bert": (dynamic, Bert),
        "dynamic per channel bert": (lambda case, kind: dynamic(case, kind, qconfig_spec=per_channel), Bert),
        "dynamic half bert": (lambda case, kind: dynamic(case, kind, dtype=torch.float16), Bert),
        "embedding bert": (lambda case, kind: dynamic(case, kind, qconfig_spec=rows), Bert),
        "qat mlp": (qat, Mlp, (16, 20), none, in_training), "qat mlp 0": (qat, Mlp, (16, 20), none, Q.get_default_qat_qconfig("x86", 0)),
        "qat lenet": (qat, LeNet, images, lenet, in_training), "qat lenet plain": (qat, LeNet, images, none, Q.default_qat_qconfig),
        "qat resnet": (qat, ResNet, (4, 3, 64, 64), ResNet.pairs, in_training), "qat bert": (qat, wrapped, texts, none, in_training),
        "fx mlp": (graph, Mlp, (16, 20)), "fx lenet": (graph, LeNet, images), "fx resnet": (graph, ResNet, photos), "fx resnet 64": (graph, ResNet, photos, None, 64),
        "fx bert": (graph, Bert, texts), "fx lstm": (graph, Lstm, texts), "fx dynamic lstm": (graph, Lstm, texts, dynamically), "fx dynamic bert": (graph, Bert, texts, dynamically),
        "fx qat mlp": (graph, Mlp, (16, 20), "qat"), "fx qat lenet": (graph, LeNet, images, "qat"), "fx qat resnet": (graph, ResNet, (4, 3, 64, 64), "qat"),
        "fx qat bert": (graph, Bert, texts, "qat"),
        "digits": (digits, torch),
    }
    return {case: (lambda case=case, run=run, args=args: run(case, *args)) for case, (run, *args) in table.items()}


def digits(case, torch):
    """The share of digits that a convolutional network reads wrongly and was not trained with: in floats, then with numbers of few bits."""
    import numpy as np
    nn, Q = torch.nn, torch.ao.quantization
    data = torch.from_numpy(np.load(DIGITS).astype("float32"))
    data = data[torch.randperm(len(data), generator=torch.Generator().manual_seed(0))]
    images, labels = data[:, :64].reshape(-1, 1, 8, 8) / 16, data[:, 64].long()
    torch.manual_seed(0)
    net = nn.Sequential(Q.QuantStub(), nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10), Q.DeQuantStub())
    pairs = [["1", "2", "3"], ["5", "6", "7"], ["10", "11"]]

    def train(model, epochs, lr):
        opt, model = torch.optim.SGD(model.parameters(), lr, momentum=0.9), model.train()
        for _ in range(epochs):
            for rows in torch.randperm(1200).split(50):
                opt.zero_grad()
                nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
                opt.step()
        return model.eval()

    def wrong(model):
        return float((model(images[1200:]).argmax(1) != labels[1200:]).double().mean())

    def static(qconfig):
        model = Q.fuse_modules(net, pairs)
        model.qconfig = qconfig
        model = Q.prepare(model)
        model(images[:1200])
        return Q.convert(model)

    train(net, 8, 0.05)
    of_four_bits = Q.PerChannelMinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_channel_symmetric, quant_min=-8, quant_max=7)
    x86 = Q.get_default_qconfig("x86")
    found = {"float": wrong(net), "int8": wrong(static(x86)), "int4": wrong(static(Q.QConfig(activation=x86.activation, weight=of_four_bits))), "dynamic": wrong(Q.quantize_dynamic(net))}
    model = Q.fuse_modules_qat(net.train(), pairs)
    model.qconfig = Q.get_default_qat_qconfig("x86")
    return {"wrong": dict(found, qat=wrong(Q.convert(train(Q.prepare_qat(model), 2, 0.01))))}


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


def largest(a, b):
    """The largest difference of two lists of lists, and the largest number."""
    pairs = [(x, y) for p, q in zip(a, b) for x, y in zip(p, q)]
    return max(abs(x - y) for x, y in pairs), max(abs(x) for x, _ in pairs)


def compare(case, a, b):
    """PyTorch's answer and ours: what differs too much, and figures."""
    if "error" in a or "error" in b:
        return "PyTorch: %s\nrushlight: %s" % (a.get("error"), b.get("error")), ""
    if "wrong" in a:
        more = [name for done in (a, b) for name in MAY_LOSE if done["wrong"][name] - done["wrong"]["float"] >= MAY_LOSE[name]]
        return more and "%s loses too much" % more, "wrong, %%: %s" % ", ".join("%s %.2f/%.2f" % (name, 100 * n, 100 * b["wrong"][name]) for name, n in a["wrong"].items())
    if a["grids"].keys() != b["grids"].keys():
        return "grids of %s and %s" % (sorted(a["grids"].keys() - b["grids"].keys())[:6], sorted(b["grids"].keys() - a["grids"].keys())[:6]), ""
    trained = a.get("losses")  # weights that differ in the last bit fall on other steps here and there
    allowed = SENSITIVE.get(case, 1e-4)
    figures, wrong = ["%d grids" % len(a["grids"])], None
    if trained:
        worst = max(abs(x - y) / max(abs(x), 1) for x, y in zip(a["losses"], b["losses"]))
        figures.append("losses %.1e" % worst)
        wrong = "losses %r and %r" % (a["losses"], b["losses"]) if worst > allowed else None
    for name, (scale, zero) in a["grids"].items():
        ours = b["grids"][name]
        if not wrong and (abs(scale - ours[0]) > (10 * allowed if trained else 1e-5) * abs(scale) or abs(zero - ours[1]) > (case in SENSITIVE)):
            wrong = "%s: scale %r, zero point %r; here %r" % (name, scale, zero, ours)
    grids = [scale for name, (scale, _) in a["grids"].items() if not name.endswith("(weight)")]
    for what in ("outputs", "loaded"):
        if what in b and not (trained and what == "outputs"):
            worst, most = largest(a["outputs"], b[what])
            step = grids[-1] if grids else most / 255  # results in floats: the range of a grid for them
            figures.append("%s %.3g steps" % (what, worst / step))
            if not wrong and worst > step * (STEPS.get(case, 1) + 0.01):
                wrong = "%s differ by %g, of a step of %g" % (what, worst, step)
    return wrong, ", ".join(figures)


def main():
    if sys.argv[1:2] == ["--answers"]:
        return answers(sys.argv[2], sys.argv[3:])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUANTIZED_STATES"] = folder
        theirs, ours = run(sys.argv[1], "torch", sys.argv[2:]), run(sys.executable, "rushlight", sys.argv[2:])
    wrong = 0
    for case in theirs:
        difference, figures = compare(case, theirs[case], ours[case])
        wrong += bool(difference)
        print("%-26s %s  %s" % (case, difference or "same", figures), flush=True)
    print("%d models, %d differ" % (len(theirs), wrong))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
