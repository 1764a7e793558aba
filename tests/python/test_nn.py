"""Modules, layers, initialisation and functional forms; numbers in here are PyTorch 2.13's for the same seed."""
import copy
import pickle
from collections import OrderedDict

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


def needs(*names):
    """Skips a test while an operation it needs is missing."""
    missing = [n for n in names if not (hasattr(torch, n) or hasattr(torch._C._nn, n))]
    return pytest.mark.skipif(bool(missing), reason=f"no operation {', '.join(missing)}")


def rounded(tensor, digits=5):
    return [round(float(v), digits) for v in tensor.detach().flatten()]


def close(tensor, numbers, tolerance=2e-5):
    got = [float(v) for v in tensor.detach().flatten()]
    assert len(got) == len(numbers)
    assert all(abs(a - b) <= tolerance for a, b in zip(got, numbers)), (got, numbers)


FIRST_WEIGHTS = {
    "Linear": (lambda: nn.Linear(3, 2), [0.040325, -0.347792, 0.183842, 0.181161, -0.30858, -0.086532]),
    "Conv2d": (lambda: nn.Conv2d(1, 1, 2), [0.034923, -0.301197, 0.159212, 0.15689, -0.267238]),
    "Embedding": (lambda: nn.Embedding(2, 2), [-0.146795, 0.786141, 0.946822, -1.114344]),
    "LSTM": (lambda: nn.LSTM(1, 1), [0.069845, -0.602394, 0.318423, 0.313781, -0.534477, -0.149877]),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(2, 1),
                           [-0.507342, 0.22471, -0.233279, 0.608415, 0.61478, 0.088222]),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(1, 2, 2),
                        [0.034923, -0.301197, 0.159212, 0.15689, -0.267238, -0.074939]),
    "GRUCell": (lambda: nn.GRUCell(1, 1), [0.069845, -0.602394, 0.318423, 0.313781, -0.534477, -0.149877]),
}


@pytest.mark.parametrize("name", FIRST_WEIGHTS)
def test_same_seed_same_weights(name):
    make, numbers = FIRST_WEIGHTS[name]
    torch.manual_seed(7)
    module = make()
    close(torch.cat([p.detach().flatten() for p in module.parameters()])[:6], numbers)


INITS = {
    "xavier_uniform_": ({}, [0.076511, -0.659889, 0.348815, 0.343729, -0.58549, -0.164182]),
    "xavier_normal_": ({"gain": 2.0}, [-0.185683, 0.994399, 1.197645, -1.409546, 2.138699, -1.131878]),
    "kaiming_normal_": ({"nonlinearity": "relu"}, [-0.119858, 0.641882, 0.773077, -0.909858, 1.380524, -0.730624]),
    "trunc_normal_": ({"std": 0.5}, [-0.073398, 0.393071, 0.473411, -0.557172, 0.845395, -0.447414]),
    "orthogonal_": ({}, [-0.118443, 0.634307, 0.763954, -0.489211, 0.632237, -0.60079]),
    "sparse_": ({"sparsity": 0.5}, [0.0, 0.007861, 0.0, -0.011143, 0.0, -0.008948]),
}


@pytest.mark.parametrize("name", INITS)
def test_init(name):
    kwargs, numbers = INITS[name]
    torch.manual_seed(7)
    tensor = torch.empty(2, 3)
    assert getattr(nn.init, name)(tensor, **kwargs) is tensor
    close(tensor, numbers)


REPRS = {
    "Conv2d(3, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=3, bias=False)":
        lambda: nn.Conv2d(3, 6, 3, 2, 1, groups=3, bias=False),
    "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)":
        lambda: nn.BatchNorm2d(3),
    "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)": lambda: nn.LayerNorm(4),
    "LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)":
        lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True),
    "ReLU(inplace=True)": lambda: nn.ReLU(True),
    "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)": lambda: nn.MaxPool2d(2),
    "Embedding(5, 3, padding_idx=0)": lambda: nn.Embedding(5, 3, padding_idx=0),
    "Upsample(scale_factor=2.0, mode='nearest')": lambda: nn.Upsample(scale_factor=2),
    "GELU(approximate='none')": nn.GELU,
    "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n  (2): ReLU()\n)":
        lambda: nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()]),
    "Sequential(\n  (a): Tanh()\n  (b): Dropout(p=0.5, inplace=False)\n)":
        lambda: nn.Sequential(OrderedDict(a=nn.Tanh(), b=nn.Dropout())),
}


@pytest.mark.parametrize("text", REPRS)
def test_repr(text):
    assert repr(REPRS[text]()) == text


def test_registration_and_names():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
            self.head = nn.Linear(3, 1, bias=False)
            self.tied = self.head
            self.register_buffer("scale", torch.ones(1))
            self.register_buffer("cache", torch.zeros(1), persistent=False)

        def forward(self, x):
            return self.head(self.body(x)) * self.scale

    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["body.0.weight", "body.0.bias", "head.weight"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)][-1] == "tied.weight"
    assert list(net.state_dict()) == ["scale", "body.0.weight", "body.0.bias", "head.weight", "tied.weight"]
    assert net.state_dict()._metadata["body.0"] == {"version": 1}
    assert net.get_submodule("body.0").in_features == 2 and net.get_parameter("body.0.bias").shape == (3,)
    net.set_submodule("body.1", nn.Tanh())
    assert isinstance(net.body[1], nn.Tanh)
    assert net(torch.ones(4, 2)).shape == (4, 1)
    twin = copy.deepcopy(net)
    assert twin.tied is twin.head and twin.head.weight is not net.head.weight
    back = pickle.loads(pickle.dumps(net.body))
    assert torch.equal(back[0].weight, net.body[0].weight)
    net.scale = torch.full((1,), 2.0)
    assert net._buffers["scale"].item() == 2.0
    del net.scale
    assert "scale" not in dict(net.named_buffers())
    assert all(not m.training for m in net.eval().modules())


@pytest.mark.parametrize("what, kind, text", [
    (lambda m: setattr(m, "weight", torch.zeros(1)), TypeError, "cannot assign 'torch.FloatTensor' as parameter"),
    (lambda m: m.register_buffer("a.b", None), KeyError, "can't contain"),
    (lambda m: m.register_parameter("weight2", torch.zeros(1)), TypeError, "torch.nn.Parameter or None required"),
    (lambda m: m.add_module("x", 3), TypeError, "is not a Module subclass"),
    (lambda m: m.get_submodule("a.b"), AttributeError, "Linear has no attribute `a`"),
    (lambda m: m.nothing, AttributeError, "'Linear' object has no attribute 'nothing'"),
    (lambda m: m.train(3), ValueError, "training mode is expected to be boolean"),
    (lambda m: m.to(torch.int32), TypeError, "only accepts floating point or complex"),
])
def test_module_errors(what, kind, text):
    with pytest.raises(kind) as problem:
        what(nn.Linear(2, 2))
    assert text in str(problem.value).replace("\\'", "'")


def test_load_state_dict():
    model = nn.Linear(2, 2)
    good = {"weight": torch.ones(2, 2), "bias": torch.zeros(2)}
    assert str(model.load_state_dict(good)) == "<All keys matched successfully>"
    assert torch.equal(model.weight, torch.ones(2, 2))
    before = model.weight
    model.load_state_dict(good, assign=True)
    assert model.weight is not before and isinstance(model.weight, nn.Parameter)
    keys = model.load_state_dict({"weight": torch.ones(2, 2), "extra": torch.ones(1)}, strict=False)
    assert keys.missing_keys == ["bias"] and keys.unexpected_keys == ["extra"]
    with pytest.raises(RuntimeError) as problem:
        model.load_state_dict({"weight": torch.ones(3, 2), "bais": torch.zeros(2)})
    text = str(problem.value)
    assert text.startswith("Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: \"bias\". \n"
                           "\tUnexpected key(s) in state_dict: \"bais\". \n"
                           "\tsize mismatch for weight: copying a param with shape torch.Size([3, 2]) from checkpoint, "
                           "the shape in current model is torch.Size([2, 2]).")
    assert '"bias" may be "bais"' in text


def test_forward_hooks():
    seen = []
    layer = nn.Linear(2, 2)
    first = layer.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    layer.register_forward_hook(lambda m, args, kwargs, out: seen.append((len(args), kwargs)), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, out: out + 1)
    close(layer(torch.ones(1, 2)), rounded(layer.bias + 1, 6))
    assert seen == [(1, {})]
    first.remove()
    assert not torch.equal(layer(torch.ones(1, 2)), (layer.bias + 1)[None])
    total = []
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: total.append(type(m).__name__))
    nn.Sequential(nn.ReLU(), nn.Tanh())(torch.ones(1))
    handle.remove()
    assert total == ["ReLU", "Tanh", "Sequential"]


def test_always_called_hooks():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    seen = []
    broken = Broken()
    broken.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(ValueError):
        broken(1)
    assert seen == [None]


def test_backward_hooks():
    seen = []
    layer = nn.Linear(2, 3)
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].shape, go[0].shape)))
    layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = torch.ones(4, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [((4, 2), (4, 3))]
    close(x.grad[0], rounded(2 * layer.weight.sum(0), 6))
    other = nn.Linear(2, 3)
    other.register_full_backward_hook(lambda m, gi, go: (gi[0] * 3,))
    x.grad = None
    other(x).sum().backward()
    close(x.grad[0], rounded(3 * other.weight.sum(0), 6))


def test_casting_keeps_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    weight = model[0].weight
    assert model.double()[0].weight is weight and weight.dtype == torch.float64
    assert model.to(torch.float32)[0].weight is weight
    assert model.requires_grad_(False)[0].weight.requires_grad is False
    assert model.to("meta")[0].weight.is_meta


@pytest.mark.parametrize("make", [lambda: nn.GRU(2, 4), lambda: nn.LSTM(2, 4, proj_size=3, bidirectional=True),
                                  lambda: nn.RNN(2, 4, num_layers=2)])
def test_packed_sequences(make):
    lengths = [3, 5, 1]
    torch.manual_seed(0)
    sequences = [torch.randn(n, 2) for n in lengths]
    packed = nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 2, 1, 1]
    layer = make()
    out, hidden = layer(packed)
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    padded, got = nn.utils.rnn.pad_packed_sequence(out)
    assert got.tolist() == lengths and padded.shape[:2] == (5, 3)
    for i, sequence in enumerate(sequences):
        alone, last = layer(sequence)
        last = last[0] if isinstance(last, tuple) else last
        close(padded[:lengths[i], i], rounded(alone, 7))
        close(hidden[:, i], rounded(last, 7))
    assert torch.equal(nn.utils.rnn.unpack_sequence(packed)[1], sequences[1])
    left = nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=9.0, padding_side="left")
    assert left.shape == (3, 5, 2) and left[2, 0, 0] == 9.0 and torch.equal(left[2, 4:], sequences[2])


def test_weight_norm():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    before = layer.weight.detach().clone()
    with torch.no_grad():
        layer.parametrizations.weight.original0.mul_(2)
    close(layer.weight, rounded(2 * before, 7))
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original1.grad.shape == (2, 3)


def test_attention_masks_and_weights():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    out, weights = layer(x, x, x, attn_mask=mask)
    assert weights.shape == (2, 5, 5) and float(weights.detach()[0].triu(1).abs().sum()) == 0
    fast, none = layer(x, x, x, attn_mask=mask, need_weights=False)
    assert none is None
    close(fast, rounded(out, 7))


@needs("layer_norm")
def test_transformer():
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    assert model(torch.randn(2, 5, 8), torch.randn(2, 3, 8)).shape == (2, 3, 8)
    assert len(list(model.parameters())) == 34


@needs("batch_norm")
@pytest.mark.parametrize("dtype,near", [(torch.float32, 1e-5), (torch.bfloat16, 0.02)])
@pytest.mark.parametrize("before,after,size,stride,groups", [(64, 64, 3, 1, 1), (32, 48, 3, 2, 1), (96, 32, 5, 1, 1), (40, 72, 3, 1, 1), (64, 64, 3, 1, 4), (3, 64, 7, 2, 1), (17, 19, 3, 1, 1)])
def test_convolutions_with_channels_last_weights(dtype, near, before, after, size, stride, groups):
    """What model.to(memory_format=torch.channels_last) makes of them."""
    torch.manual_seed(0)
    last = {"memory_format": torch.channels_last}
    x = torch.randn(2, before, 12, 12).to(dtype).contiguous(**last).requires_grad_()
    w = (torch.randn(after, before // groups, size, size) / (before * size * size) ** 0.5).to(dtype).contiguous(**last).requires_grad_()
    wide = [t.detach().double().contiguous().requires_grad_() for t in (x, w)]
    results = []
    for a, b in ((x, w), wide):
        y = torch.nn.functional.conv2d(a, b, None, stride, size // 2, 1, groups)
        y.sin().sum().backward()
        results.append((y.detach(), a.grad, b.grad, torch.nn.functional.conv_transpose2d(y.detach(), b.detach(), None, stride, 0, 0, groups)))
    assert results[0][0].is_contiguous(**last)
    for got, wanted in zip(*results):
        assert (got.double() - wanted).abs().max() < near * wanted.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 300, 2, 2), (2, 3, 64, 65), (1, 2, 4097), (2, 1, 1, 8193)])
@pytest.mark.parametrize("train", [True, False])
def test_batch_norm_of_half_types_is_that_of_floats(dtype, shape, train):
    """They are read piece by piece as floats: the sums are those of the whole tensor made float."""
    torch.manual_seed(0)
    c, results = shape[1], []
    x, g, w, b = (torch.randn(shape) * 2 + 1).to(dtype), torch.randn(shape).to(dtype), torch.rand(c), torch.rand(c)
    for as_type in (dtype, torch.float32):
        leaf, weight, mean, var = x.to(as_type, copy=True).requires_grad_(), w.clone().requires_grad_(), torch.zeros(c), torch.ones(c)
        y = torch.nn.functional.batch_norm(leaf, mean, var, weight, b, train)
        y.backward(g.to(as_type))
        results.append((y.detach(), leaf.grad, weight.grad, mean, var))
    for half, full in zip(*results):
        if dtype == torch.float16:
            assert torch.equal(half, full.to(half.dtype))
        else:  # the means are rounded to it, as in PyTorch
            torch.testing.assert_close(half.float(), full, rtol=0.02, atol=0.02 * full.abs().max().item())


def test_batch_norm_counts():
    layer = nn.BatchNorm1d(3)
    layer(torch.randn(8, 3))
    assert layer.num_batches_tracked.item() == 1
    state = OrderedDict((k, v) for k, v in layer.state_dict().items() if "num" not in k)
    layer.load_state_dict(state)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        layer(torch.randn(1, 3))


def test_lazy():
    layer = nn.LazyLinear(3)
    assert nn.parameter.is_lazy(layer.weight)
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        layer.weight.shape
    assert layer(torch.ones(2, 5)).shape == (2, 3)
    assert type(layer) is nn.Linear and layer.in_features == 5 and type(layer.weight) is nn.Parameter


def test_containers():
    parts = nn.ParameterList([torch.ones(1), torch.zeros(2)])
    parts.append(nn.Parameter(torch.ones(3)))
    assert [p.numel() for p in parts] == [1, 2, 3] and len(list(parts.parameters())) == 3
    table = nn.ParameterDict({"a": torch.ones(1)})
    table["b"] = torch.ones(2)
    assert list(table.keys()) == ["a", "b"] and isinstance(table["b"], nn.Parameter)
    row = nn.Sequential(nn.ReLU(), nn.Tanh()) * 2
    assert len(row) == 4 and isinstance(row.pop(0), nn.ReLU) and len(row[1:]) == 2
    both = nn.ModuleDict([("x", nn.ReLU())])
    both.update({"y": nn.Tanh()})
    assert "y" in both and list(both) == ["x", "y"]




def test_losses_agree_with_their_formulas():
    torch.manual_seed(0)
    a, b, c = torch.randn(4, 5), torch.rand(4, 5), torch.randint(5, (4,))
    log_p = a.log_softmax(1)
    assert abs(float(F.cross_entropy(a, c)) + float(log_p[torch.arange(4), c].mean())) < 1e-5
    assert abs(float(F.mse_loss(a, b)) - float(((a - b) ** 2).mean())) < 1e-6
    assert abs(float(F.l1_loss(a, b, reduction="sum")) - float((a - b).abs().sum())) < 1e-4
    p = torch.sigmoid(a)
    bce = -(b * p.log() + (1 - b) * (1 - p).log()).mean()
    assert abs(float(F.binary_cross_entropy_with_logits(a, b)) - float(bce)) < 1e-5
    assert abs(float(F.huber_loss(a, b, delta=100.0)) - float(((a - b) ** 2).mean() / 2)) < 1e-5
    with pytest.raises(ValueError, match="is not a valid value for reduction"):
        F.cross_entropy(a, c, reduction="some")


@pytest.mark.skipif(not hasattr(torch.linalg, "vector_norm"), reason="no operation linalg_vector_norm")
def test_clipping():
    layer = nn.Linear(3, 2)
    (layer(torch.ones(4, 3)) ** 2).sum().backward()
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
    after = sum(float((p.grad ** 2).sum()) for p in layer.parameters()) ** 0.5
    assert float(norm) > 0 and after <= 0.5 + 1e-4
    nn.utils.clip_grad_value_(layer.parameters(), 0.01)
    assert max(float(p.grad.abs().max()) for p in layer.parameters()) <= 0.01
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 0, layer.parameters())
    assert float(layer.weight.detach().abs().sum()) == 0


def test_parametrize():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    from rushlight.nn.utils import parametrize
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert torch.equal(layer.weight, layer.weight.mT)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear"
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and torch.equal(layer.weight, layer.weight.mT)


def test_functional_call():
    from rushlight.nn.utils.stateless import _functional_call
    layer = nn.Linear(2, 1)
    out = _functional_call(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, (torch.ones(1, 2),))
    assert float(out) == 2.0 and isinstance(layer.weight, nn.Parameter)


def test_checkpoint_wrapper():
    """Wrapped modules keep their keys and their gradients, nested ones too."""
    from rushlight.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapping
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(3, 2)))
    x = torch.randn(4, 3)
    plain(x).sum().backward()
    expected = [p.grad.clone() for p in plain.parameters()]
    keys = list(plain.state_dict())
    wrapping.apply_activation_checkpointing(plain, check_fn=lambda m: not isinstance(m, torch.nn.Tanh))
    assert list(plain.state_dict()) == keys
    assert isinstance(plain[1], wrapping.CheckpointWrapper) and isinstance(plain[1][1], wrapping.CheckpointWrapper)
    plain.load_state_dict(plain.state_dict())
    plain.zero_grad()
    plain(x).sum().backward()
    for p, g in zip(plain.parameters(), expected):
        assert torch.equal(p.grad, g)
    for impl in wrapping.CheckpointImpl:
        assert wrapping.checkpoint_wrapper(torch.nn.Linear(3, 1), impl)(x).shape == (4, 1)


def test_gradients_per_sample():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads
    x, net = torch.randn(4, 1, 5, 5), nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 1))
    call_for_per_sample_grads(net, loss_reduction="mean")(x).mean().backward()
    for k in range(4):
        single = torch.autograd.grad(net(x[k:k + 1]).mean(), list(net.parameters()))
        for p, g in zip(net.parameters(), single):
            assert p.grad is None and torch.allclose(p.grad_sample[k], g, atol=1e-6)


def test_gradients_per_sample_of_recurrent_layers():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads
    for net, dim in ((nn.LSTM(3, 2, batch_first=True), 0), (nn.GRU(3, 2), 1)):
        x = torch.randn(3, 4, 3)
        call_for_per_sample_grads(net, batch_first=dim == 0)(x)[0].sum().backward()
        for k in range(x.shape[dim]):
            single = torch.autograd.grad(net(x.narrow(dim, k, 1))[0].sum(), list(net.parameters()))
            for p, g in zip(net.parameters(), single):
                assert torch.allclose(p.grad_sample[k], g, atol=1e-6)


@pytest.mark.parametrize("options, inputs, message", [
    ({"batch_size": 6.4}, [(4, 5)], "must be None or an integer, got float"), ({"batch_size": -64}, [(4, 5)], "must be positive, got -64"), ({"loss_reduction": ""}, [(4, 5)], "to be sum or mean"),
    ({}, [(4, 5), (5, 5)], "one input with batch size 4 and one with batch size 5"), ({}, [], "cannot compute the batch size from the inputs")])
def test_what_gradients_per_sample_refuse(options, inputs, message):
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads
    with pytest.raises(RuntimeError, match=message):
        call_for_per_sample_grads(nn.Linear(5, 2), **options)(*map(torch.ones, inputs))


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers_read_the_weights_that_they_have(kind):
    """Functional calls, parametrisations and who writes to _parameters put others in the place of those that the layer was made with."""
    class Zero(nn.Module):
        def forward(self, x):
            return x * 0

    net, x = kind(2, 3), torch.ones(4, 2)
    before, zeros = net(x)[0], {name: torch.zeros_like(p, requires_grad=True) for name, p in net.named_parameters()}
    out = torch.func.functional_call(net, zeros, (x,))[0]
    out.sum().backward()
    assert not out.any() and all(z.grad is not None for z in zeros.values()) and all(p.grad is None for p in net.parameters())
    assert torch.equal(net(x)[0], before)
    both = {name: torch.stack([p, p * 0]) for name, p in net.named_parameters()}
    assert torch.equal(torch.vmap(lambda p: torch.func.functional_call(net, p, (x,))[0])(both), torch.stack([before, before * 0]))
    for name in list(zeros):
        nn.utils.parametrize.register_parametrization(net, name, Zero())
    assert not net(x)[0].any()
    net = kind(2, 3)
    for name in zeros:
        net._parameters[name] = nn.Parameter(zeros[name].detach())
    assert not net(x)[0].any()


def test_adaptive_means_have_the_order_of_pytorch():
    """One window of everything is a mean; others are summed element by element and divided by one side after the other."""
    torch.manual_seed(0)
    x = torch.randn(3, 40, 9, 11)
    assert torch.equal(torch.nn.functional.adaptive_avg_pool2d(x, 1), x.mean((-1, -2), keepdim=True))
    assert torch.equal(torch.nn.functional.adaptive_avg_pool3d(x, 1), x.mean((-1, -2, -3), keepdim=True))
    for wide in (33, 40):       # windows that overlap; that do not
        y = torch.randn(1, 1, 16, wide)
        window = y[0, 0, :8, :wide // 8 + (wide % 8 > 0)]
        total = torch.tensor(0.)
        for number in window.flatten():
            total = total + number
        assert torch.nn.functional.adaptive_avg_pool2d(y, (2, 8))[0, 0, 0, 0] == total / window.shape[0] / window.shape[1]


@pytest.mark.parametrize("mode", (0, 1, 2))
def test_embedding_bag_with_indices_in_no_bag(mode):
    """Those behind the last offset, when that is included: they have no gradient, and neither have their weights."""
    w, s = torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.rand(5, dtype=torch.float64, requires_grad=True)
    indices = torch.tensor([0, 1, 2, 3, 4])
    scale = s if mode == 0 else None
    for offsets, used in ((torch.tensor([0, 2, 3]), 5 if mode == 2 else 3), (torch.tensor([0]), 0)):  # the maximum's last bag goes on to the end
        got = torch._embedding_bag(w, indices, offsets, False, mode, False, scale, True)[0]
        want = torch._embedding_bag(w, indices[:used], offsets, False, mode, False, None if scale is None else scale[:used], True)[0]
        assert torch.equal(got, want)
        for x in (w, s) if mode == 0 else (w,):
            assert torch.equal(torch.autograd.grad(got.sum(), x, retain_graph=True)[0], torch.autograd.grad(want.sum(), x, retain_graph=True)[0])


def test_attention_of_packed_sequences():
    """varlen_attn is attention sequence by sequence: windows, shared heads, what it returns beside, pages, gradients."""
    from rushlight.nn.attention.varlen import AuxRequest, varlen_attn
    q, k, v = torch.randn(9, 4, 8, requires_grad=True), torch.randn(12, 2, 8, requires_grad=True), torch.randn(12, 2, 8, requires_grad=True)
    ends_q, ends_k = torch.tensor([0, 2, 5, 9], dtype=torch.int32), torch.tensor([0, 3, 6, 12], dtype=torch.int32)

    def plain(left, right):
        out, sums = [], []
        for (a, b), (c, d) in zip(((0, 2), (2, 5), (5, 9)), ((0, 3), (3, 6), (6, 12))):
            i, j = torch.arange(b - a)[:, None] + (d - c) - (b - a), torch.arange(d - c)
            seen = ((j >= i - left) if left >= 0 else j >= -1) & ((j <= i + right) if right >= 0 else j >= -1)
            scores = torch.einsum("qhd,khd->hqk", q[a:b], k[c:d].repeat_interleave(2, 1)) / 8 ** 0.5
            scores = scores.masked_fill(~seen, float("-inf"))
            out.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v[c:d].repeat_interleave(2, 1)))
            sums.append(scores.logsumexp(-1).t())
        return torch.cat(out), torch.cat(sums)
    for window in ((-1, -1), (-1, 0), (1, 0), (2, 1)):
        wanted, sums = plain(*window)
        out, lse = varlen_attn(q, k, v, ends_q, ends_k, 4, 6, window_size=window, enable_gqa=True, return_aux=AuxRequest(lse=True))
        torch.testing.assert_close(out, wanted)
        torch.testing.assert_close(lse, sums)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), (q, k, v)), torch.autograd.grad(wanted.square().sum(), (q, k, v)))
    pool_k, pool_v = torch.randn(5, 4, 2, 8), torch.randn(5, 4, 2, 8)
    table, used = torch.tensor([[3, 0], [1, 4], [2, 3]], dtype=torch.int32), torch.tensor([3, 6, 8])
    paged = varlen_attn(q.detach(), pool_k, pool_v, ends_q, None, 4, 8, enable_gqa=True, seqused_k=used, block_table=table, window_size=(-1, 0))
    keys, values = (torch.cat([pool[table[n].long()].flatten(0, 1)[:used[n]] for n in range(3)]) for pool in (pool_k, pool_v))
    ends = torch.tensor([0, 3, 9, 17], dtype=torch.int32)
    torch.testing.assert_close(paged, varlen_attn(q.detach(), keys, values, ends_q, ends, 4, 8, enable_gqa=True, window_size=(-1, 0)))
    with pytest.raises(ValueError, match="enable_gqa"):
        varlen_attn(q, k, v, ends_q, ends_k, 4, 6)


def test_to_refuses_what_it_cannot_do():
    m, x = nn.Linear(2, 2), torch.zeros(1, dtype=torch.float64)
    for call in (lambda: m.to("cpu", copy=True), lambda: m.to(torch.float32, False, False), lambda: m.to(torch.float32, copy=False)):
        with pytest.raises(RuntimeError, match=r"\.to\(\) does not accept copy argument"):
            call()
    assert m.to(tensor=x).weight.dtype is torch.float64 and torch.zeros(1).to(tensor=x).dtype is torch.float64
    with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \(str, int\), but expected one of:"):
        m.to("cpu", 3)


def test_a_buffer_takes_no_name_that_is_taken():
    m = nn.Module()
    m.taken = 5
    with pytest.raises(KeyError, match="attribute 'taken' already exists"):
        m.taken = nn.Buffer(torch.ones(1))
    assert m.taken == 5 and not m._buffers


def test_a_device_is_followed_by_a_dtype():
    for x in torch.zeros(1), nn.Linear(1, 1):
        with pytest.raises(TypeError, match=r"got \(str, bool\)"):
            x.to("cpu", True)
        assert x.to("cpu", None, True) is x


def test_to_mkldnn():
    """Ordinary tensors and modules, that give the same numbers; errors are PyTorch's."""
    from rushlight.utils.mkldnn import to_mkldnn
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    y = x.to_mkldnn()
    assert not y.is_mkldnn and y.data_ptr() != x.data_ptr() and torch.equal(y.to_dense(), x) and x.to_mkldnn(torch.bfloat16).dtype == torch.bfloat16
    y.to_dense().sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x)) and x[:, :, ::2].to_mkldnn().stride() == (96, 32, 8, 1)
    with pytest.raises(RuntimeError, match="dense_to_mkldnn expects float, bfloat16, half, uint8, int8 tensor input"):
        x.double().to_mkldnn()
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.PReLU(), nn.Flatten(), nn.Linear(144, 5)).eval()
    want = net(x)
    made = to_mkldnn(net)
    assert made is net and [type(m).__name__ for m in made] == ["MkldnnConv2d", "MkldnnBatchNorm", "MkldnnPrelu", "Flatten", "MkldnnLinear"]
    assert torch.allclose(made(x.to_mkldnn()).to_dense(), want, atol=1e-5) and not list(made.parameters())
    assert to_mkldnn(nn.Linear(2, 2), torch.bfloat16)(torch.ones(1, 2)).dtype == torch.float32
    for module, what in ((nn.BatchNorm2d(4), "eval mode batchnorm"), (nn.BatchNorm2d(4, affine=False).eval(), "affine=True"),
                         (nn.BatchNorm2d(4, track_running_stats=False).eval(), "track_running_stats=True")):
        with pytest.raises(AssertionError, match="Only support %s for mkldnn path now" % what):
            to_mkldnn(module)
    with pytest.raises(AssertionError, match="MKLDNN only support float, bfloat16, and half path now"):
        to_mkldnn(nn.Linear(2, 2), torch.float64)
    with pytest.raises(NotImplementedError, match="padding_mode"):
        to_mkldnn(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))


POOLS = [lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5),
         lambda x: F.adaptive_avg_pool2d(x, (3, 5)), lambda x: F.adaptive_avg_pool2d(x, (1, 14)), lambda x: F.adaptive_max_pool2d(x, (3, 5), True),
         lambda x: F.max_pool2d(x, 2, return_indices=True), lambda x: F.max_pool2d(x, 3, (2, 1), 1, (1, 3), True, True)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("channels", [2, 70])
def test_pools_with_channels_last_are_those_of_planes(dtype, channels):
    torch.manual_seed(0)
    x = torch.randn(2, channels, 13, 14).to(dtype)
    x[0, 1, 5, 6] = float("nan")
    last = x.contiguous(memory_format=torch.channels_last)
    for pool in POOLS:
        results = []
        for t in (x, last):
            leaf = t.clone(memory_format=torch.preserve_format).requires_grad_()
            y = pool(leaf)
            values, *places = y if isinstance(y, tuple) else (y,)
            values.backward(torch.arange(values.numel()).view_as(values).to(dtype) / 1000)
            assert all(r.is_contiguous(memory_format=torch.channels_last) == (t is last) for r in (values, leaf.grad, *places))
            results.append((values.detach().nan_to_num(99), leaf.grad.nan_to_num(99), *places))
        assert all(torch.equal(a, b) for a, b in zip(*results))


def of_images(kind, nd):
    """Operations on images of nd dimensions by name, and whether the gradient is laid out as the image."""
    sizes, borders = (7, 3, 9)[:nd], (2, 1, 0, 2, 1, 1)[:2 * nd]
    if kind == "resize":
        modes = {"bilinear": True, "bicubic": False, "nearest": True, "nearest-exact": True} if nd == 2 else {"trilinear": True, "nearest": False}
        return [(lambda x, m=mode: F.interpolate(x, sizes, mode=m), kept) for mode, kept in modes.items()]
    return [(lambda x, m=mode: F.pad(x, borders, mode=m), True) for mode in ("reflect", "replicate")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", ["resize", "pad"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 70, 4, 6), (2, 3, 3, 5, 4)])
def test_resizing_and_padding_with_channels_last_are_those_of_planes(kind, shape, dtype):
    torch.manual_seed(0)
    x, last = torch.randn(shape).to(dtype), torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    for made, kept in of_images(kind, len(shape) - 2):
        results = []
        for form in (torch.contiguous_format, last):
            leaf = x.contiguous(memory_format=form).requires_grad_()
            y = made(leaf)
            g = torch.arange(y.numel()).view_as(y).to(dtype).contiguous(memory_format=form) / 100
            gradient, = torch.autograd.grad(y, leaf, g)
            assert y.is_contiguous(memory_format=form) and gradient.is_contiguous(memory_format=form if kept else torch.contiguous_format)
            results.append((y.detach(), gradient))
        assert all(torch.equal(a, b) for a, b in zip(*results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape,groups", [((2, 6, 5, 4), 3), ((2, 4, 90, 70), 1), ((1, 70, 40, 30), 70), ((2, 4, 3, 5, 2), 2), ((2, 4, 1, 1), 2)])
def test_group_norm_with_channels_last_is_that_of_planes(shape, groups, dtype):
    torch.manual_seed(0)
    last = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    x, g, weight = torch.randn(shape).to(dtype) + 3, torch.randn(shape).to(dtype), torch.arange(shape[1]).to(dtype) / 9
    for affine in (False, True):
        results = []
        for form in (torch.contiguous_format, last):
            given = [x.contiguous(memory_format=form).requires_grad_(), *([weight.clone().requires_grad_(), weight.clone().requires_grad_()] if affine else [])]
            y = F.group_norm(given[0], groups, *given[1:])
            gradients = torch.autograd.grad(y, given, g.contiguous(memory_format=form))
            assert y.is_contiguous(memory_format=form) and gradients[0].is_contiguous(memory_format=form)
            results.append((y.detach(), *gradients))
        for a, b in zip(*results):
            near = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.05}[dtype]
            assert torch.allclose(a.double(), b.double(), near, near)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_batch_norm_of_half_types_with_channels_last_is_that_of_floats(dtype):
    torch.manual_seed(0)
    x, g = (torch.randn(4, 64, 28, 28).to(dtype).contiguous(memory_format=torch.channels_last) for i in range(2))
    results = []
    for kind in (dtype, torch.float32):
        given = [t.requires_grad_() for t in (x.detach().to(kind), torch.arange(64.), torch.ones(64))]
        y = F.batch_norm(given[0], None, None, *given[1:], training=True)
        gradients = torch.autograd.grad(y, given, g.to(kind))
        assert y.dtype == kind and y.is_contiguous(memory_format=torch.channels_last) and gradients[0].is_contiguous(memory_format=torch.channels_last)
        results.append((y.detach().to(dtype), gradients[0].to(dtype), *gradients[1:]))
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_group_norm_of_images_that_are_not_finite():
    x = torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    x[0, 1, 2, 0], x[1, 3, 0, 0] = float("inf"), float("nan")
    assert torch.equal(F.group_norm(x, 2).isnan(), F.group_norm(x.contiguous(), 2).isnan())
    assert F.group_norm(torch.full_like(x, 5.), 2).abs().max() < 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows,n", [(1000, 7), (3, 5000), (2, 20_001)])
def test_rows_of_half_types_are_normalized_as_floats(dtype, rows, n):
    torch.manual_seed(0)
    x = torch.randn(rows, n).to(dtype)
    for name in ("softmax", "log_softmax"):
        leaf, wide = x.clone().requires_grad_(), x.float().requires_grad_()
        got, wanted = getattr(leaf, name)(1), getattr(wide, name)(1)
        g = torch.randn(rows, n).to(dtype)
        got.backward(g)
        wanted.backward(g.float())
        assert torch.allclose(got.float(), wanted, 0.02, 0.01) and torch.allclose(leaf.grad.float(), wide.grad, 0.02, 0.05)
        assert torch.equal(getattr(x.repeat(1, 2)[:, :n], name)(1), got), "whatever their strides"
    assert torch.allclose(x.norm(dim=1).float(), x.float().norm(dim=1), 0.01)


def test_per_sample_gradients_of_hidden_tensors():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads

    class Boxed:
        x = torch.randn(4, 3)

    class Net(torch.nn.Linear):
        def forward(self, boxed):
            return super().forward(boxed.x)
    net = Net(3, 2)
    with pytest.raises(RuntimeError, match="Unable to find a tensor in the passed args and kwargs"):
        call_for_per_sample_grads(net)(Boxed())
    call_for_per_sample_grads(net, batch_size=4)(Boxed()).sum().backward()
    assert torch.equal(net.weight.grad_sample, Boxed.x[:, None].expand(4, 2, 3))


@pytest.mark.parametrize("use, name", [(lambda x, w: x @ w, "matmul"), (lambda x, w: x + w, "add"), (lambda x, w: F.linear(x, w.t()), "t"), (lambda x, w: F.batch_norm(x, None, None, w[0], training=True), "__getitem__"),
                                       (lambda x, w: F.linear(x, w) * w.ndim, "__get__"), (lambda x, w: torch.layer_norm(x, (5,), w), "layer_norm")])
def test_per_sample_gradients_refuse_what_would_mix_samples(use, name):
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(5, 5))

        def forward(self, x):
            return use(x, self.w)
    with pytest.raises(RuntimeError, match=f"Expanded Weights encountered but cannot handle function {name}$"):
        call_for_per_sample_grads(Net())(torch.randn(5, 5))


def test_per_sample_gradients_see_the_batch():
    """A program sees the batch in forward, its draws are those of the plain module, and padding counts."""
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads
    seen = []

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.rnn, self.norm, self.out = nn.Embedding(9, 4, padding_idx=0, max_norm=1.0), nn.GRU(4, 3, 2, bidirectional=True, batch_first=True), nn.GroupNorm(3, 6), nn.Linear(6, 2)

        def forward(self, x):
            seen.append((tuple(x.shape), x.max().item(), self.out.weight.shape, self.out.weight.dtype))
            return self.out(self.norm(F.dropout(self.rnn(self.table(x))[0][:, -1], 0.3)))
    net, x = Net(), torch.tensor([[0, 1, 2], [3, 0, 5], [6, 7, 8], [1, 1, 0]])
    results = []
    for call in (net, call_for_per_sample_grads(net)):
        torch.manual_seed(3)
        results.append(call(x))
        results[-1].square().sum().backward()
    assert torch.allclose(*results, atol=1e-6) and seen[0] == seen[1] == ((4, 3), 8, (2, 6), torch.float32)
    for name, p in net.named_parameters():
        rows = slice(1, None) if name == "table.weight" else slice(None)
        assert torch.allclose(p.grad_sample.sum(0)[rows], p.grad[rows], atol=1e-5), name
    assert net.table.weight.grad_sample[0, 0].count_nonzero() and not net.table.weight.grad[0].count_nonzero()


def test_per_sample_gradients_of_packed_sequences():
    from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads

    class Net(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.rnn = kind(4, 3, num_layers=2, bidirectional=True)

        def forward(self, x):
            out, last = self.rnn(nn.utils.rnn.pack_padded_sequence(x, [5, 3, 3, 1]))
            return out.data.square().sum() + (last[1] if isinstance(last, tuple) else last).sum()
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        net, x = Net(kind), torch.randn(5, 4, 4)
        plain = net(x)
        plain.backward()
        expanded = call_for_per_sample_grads(net, batch_first=False)(x)
        expanded.backward()
        assert torch.allclose(plain, expanded) and all(torch.allclose(p.grad, p.grad_sample.sum(0), atol=1e-5) for p in net.parameters())
        assert net.rnn.weight_ih_l0.grad_sample.shape == (4, *net.rnn.weight_ih_l0.shape)
