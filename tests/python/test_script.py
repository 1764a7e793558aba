"""torch.jit: archives of PyTorch, and programs made here."""
import io
import pathlib
import warnings

import pytest
import rushlight as torch

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "scripts"


def same(a, b, path="result"):
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, path
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True), path
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}[{i}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), path
        for k in a:
            same(a[k], b[k], f"{path}[{k!r}]")
    else:
        assert a == b, path


@pytest.mark.parametrize("name", sorted(p.stem for p in DATA.glob("*.pt")))
def test_archives_of_pytorch(name):
    module = torch.jit.load(DATA / f"{name}.pt")
    inputs, results = torch.load(DATA / f"{name}.io")
    given = module(*inputs)
    same(results, given)
    leaves = [p for p in module.parameters() if p.requires_grad]
    if leaves and isinstance(given, torch.Tensor):
        given.sum().backward()
        assert all(p.grad is not None for p in leaves)


def test_a_loaded_module_is_a_module():
    module = torch.jit.load(DATA / "lstm_scripted.pt")
    assert "r.weight_ih_l0" in module.state_dict() and not module.training
    assert "torch.lstm(" in module.r.code and module.original_name == "Recurrent"
    optimizer, x = torch.optim.Adam(module.parameters(), lr=0.1), torch.randint(0, 10, (3, 4))
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = module(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    assert module.double()(x).dtype == torch.float64
    control = torch.jit.load(io.BytesIO((DATA / "control.pt").read_bytes()))
    assert control.other(3) == "3 and 7.5" and control.train().training
    with pytest.raises(torch.jit.Error, match="no flag"):
        control(torch.ones(3, 3), False)
    assert isinstance(control, torch.jit.ScriptModule) and control.count.item() == 0


def unit(text):
    return torch._C._ScriptUnit([("__torch__", text, "text")])


def test_all_that_is_missing_is_told_at_once():
    with pytest.raises(NotImplementedError) as told:
        unit("def f(x):\n  y = torch.nothing_of_this(x)\n  return ops.other.that(y) + torch.relu(x)\n")
    assert "torch.nothing_of_this, called by __torch__.f, line 2" in str(told.value) and "ops.other.that" in str(told.value)


@pytest.mark.parametrize("text", ["def f(x:\n", "def f(x):\n  return (x\n", "def f(x):\nreturn x\n", "def f(x):\n  import os\n", "def f(x):\n  lambda: x\n", "x = 1\n",
                                  "def f(x):\n  return 'abc\n", "def f(x):\n  return " + "(" * 2000 + "x" + ")" * 2000 + "\n", "def f(x, x):\n  return x\n", "class A\n"])
def test_what_is_no_program_is_an_error(text):
    with pytest.raises((ValueError, NotImplementedError), match="line|asks for"):
        unit(text)


def test_recursion_and_wrong_arguments_are_errors():
    u = unit("def f(x: int):\n  return __torch__.f(x)\ndef g(x: int, y: int=2):\n  return x * y\ndef h(x: int):\n  return undefined_before\n  undefined_before = 1\n")
    with pytest.raises(RuntimeError, match="deep"):
        u.call("__torch__.f", (1,), {})
    assert u.call("__torch__.g", (3,), {"y": 5}) == 15
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1})):
        with pytest.raises(RuntimeError):
            u.call("__torch__.g", args, kwargs)
    with pytest.raises(RuntimeError, match="before it has a value"):
        u.call("__torch__.h", (1,), {})


LANGUAGE = '''
def f(x: int) -> List[int]:
  a = [i * 2 for i in range(x) if i % 2 == 1]
  b = {k: v for (k, v) in zip(["p", "q"], a)}
  a.append(b["p"]); a += [len(b)]
  a[0], a[1] = a[1], a[0]
  n = 0
  while True:
    n += 1
    if n > 3: break
    elif n == 2: continue
    else:
      a.insert(0, n)
  c = "x" if x > 3 and not x == 7 or 1 < x <= 2 else "yz"
  a.append(len(c)); a.append(-7 // 2); a.append(-7 % 3); a.append(2 ** 5); a.append(x & 6 | 1)
  for i, w in enumerate(reversed([1, 2, 3])):
    a.append(i * 10 + w)
  (p, *q), r = (1, 2, 3), a[1:-1:2]
  del b["q"]
  return a[::-1] + q + r + [len(b), int("12"), max(3, 4), min([5, 6]), sum([1, 2])]
'''


def test_the_language_is_pythons():
    python = {}
    exec("from typing import List\n" + LANGUAGE, python)
    assert unit(LANGUAGE).call("__torch__.f", (6,), {}) == python["f"](6)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.BatchNorm2d(2), torch.nn.ReLU())
        self.rnn, self.out = torch.nn.LSTM(8, 3, batch_first=True), torch.nn.Linear(24, 2)

    def forward(self, x, scale):
        y, _ = self.rnn(self.layers(x).mean(1))
        return {"logits": self.out(y.reshape(x.size(0), -1)) * scale}

    def twice(self, x):
        return (x * 2, [x + 1, x[:, 1:]])


@pytest.fixture(scope="module")
def traced():
    torch.manual_seed(0)
    net = Net().eval()
    return net, torch.jit.trace_module(net, {"forward": (torch.randn(2, 1, 8, 8), torch.ones(2)), "twice": (torch.ones(2, 3),)})


def test_a_trace_computes_the_same_for_other_sizes(traced):
    net, program = traced
    assert isinstance(program, torch.jit.ScriptModule) and "torch.size(x, 0)" in program.code
    for n in (2, 5):
        x, scale = torch.randn(n, 1, 8, 8), torch.randn(2)
        same(net(x, scale), program(x, scale))
        same(net.twice(x[:, 0, 0]), program.twice(x[:, 0, 0]))
    program(x, scale)["logits"].sum().backward()
    assert net.rnn.weight_ih_l0.grad is not None and dict(program.named_parameters()).keys() == dict(net.named_parameters()).keys()


def test_a_trace_is_saved_and_loaded(traced, tmp_path):
    net, program = traced
    x = torch.randn(3, 1, 8, 8)
    program.save(tmp_path / "net.pt", _extra_files={"note.txt": "hello"})
    extra = {"note.txt": ""}
    loaded = torch.jit.load(tmp_path / "net.pt", _extra_files=extra)
    assert extra["note.txt"] == b"hello" and loaded.state_dict().keys() == net.state_dict().keys()
    same(net(x, torch.ones(2)), loaded(x, torch.ones(2)))
    again = io.BytesIO()
    torch.jit.save(loaded, again)
    again.seek(0)
    same(net(x, torch.ones(2)), torch.jit.load(again)(x, torch.ones(2)))


def test_functions_are_traced():
    constant = torch.arange(3.0)

    def f(x, pair):
        y = x.clone()
        y[0] += 1
        a, b = y.split(1, dim=1)[:2]
        return y.max(dim=1)[0] + constant.sum(), a.to(torch.float64), b * pair[0] + pair[1], torch.zeros(2)

    x = torch.randn(4, 3)
    program = torch.jit.trace(f, (x, (torch.ones(1), torch.ones(4, 1))))
    assert isinstance(program, torch.jit.ScriptFunction) and "def f(x: Tensor, pair: Tuple[Tensor, Tensor])" in program.code
    same(f(x, (x[0, :1], x[:, :1])), program(x, (x[0, :1], x[:, :1])))


def test_what_a_trace_does_not_see_is_warned_of():
    with pytest.warns(torch.jit.TracerWarning, match="does not match"):
        torch.jit.trace(lambda x: x + len(calls.append(1) or calls), torch.ones(2)) if (calls := []) is not None else None
    with pytest.warns(torch.jit.TracerWarning, match="Only tensors"):
        assert torch.jit.trace(lambda x: "text", torch.ones(2))(1) == "text"


def test_what_the_layers_ask_of_a_trace_is_not_said():
    x = torch.randn(2, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.jit.trace(torch.nn.BatchNorm1d(3), x)
    with pytest.warns(torch.jit.TracerWarning, match="to a Python boolean"):
        torch.jit.trace(lambda x: x + 1 if x.size(0) == 2 else x, x)


def test_a_trace_leaves_the_module_as_after_one_run():
    a, b = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    x = torch.randn(5, 3)
    b(x)
    program = torch.jit.trace(a, x)
    same(dict(b.state_dict()), dict(a.state_dict()))
    program(x), b(x)
    same(dict(b.state_dict()), dict(a.state_dict()))


def test_a_text_becomes_functions():
    unit = torch.jit.CompilationUnit("""
        def twice(x: Tensor) -> Tensor:
            return x * 2

        def f(x: Tensor, n: int = 2) -> Tensor:
            for i in range(n):
                x = twice(x) + i
            return x.relu().sum(dim=0)
    """)
    x = torch.tensor([[1.0, -5.0], [2.0, 3.0]], requires_grad=True)
    y = unit.f(x, n=3)
    same(torch.tensor([32.0, 28.0]), y.detach())
    y.sum().backward()
    same(torch.tensor([[8.0, 0.0], [8.0, 8.0]]), x.grad)
    with pytest.raises(AttributeError):
        unit.g


def test_a_module_with_a_program_is_copied():
    import copy
    module = torch.jit.load(DATA / "cnn_traced.pt")
    other, x = copy.deepcopy(module), torch.load(DATA / "cnn_traced.io")[0][0]
    same(module(x), other(x))
    with torch.no_grad():
        other.l.weight.zero_()
    assert not torch.equal(module(x), other(x))


def test_a_graph_of_fx_keeps_its_slices_and_is_compiled_whole():
    class Cut(torch.nn.Module):
        def forward(self, x):
            return x[..., :1] + x[:, None, 1:3, 0][:, :, None].sum() + x[0, ..., -1:]

    x = torch.arange(24.).reshape(2, 3, 4)
    assert torch.equal(torch.jit.script(torch.fx.symbolic_trace(Cut()))(x), Cut()(x))
