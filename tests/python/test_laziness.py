"""Compiled functions give what they give uncompiled, bit for bit: src/op/later.h."""
import threading
import warnings

import laziness
import pytest
import rushlight as torch

C = torch._C


def large(*more):
    return torch.randn(*more, 100, 80)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + 50):
            plain, compiled = laziness.run(seed), torch.compile(laziness.run)(seed)
            assert plain[1] == compiled[1], seed
            assert torch.equal(plain[2], compiled[2]), seed
            assert len(plain[0]) == len(compiled[0]) and all(map(laziness.same, plain[0], compiled[0])), seed


def test_work_waits_until_asked_for():
    x, seen = large(), []

    @torch.compile
    def f(x):
        y = torch.tanh(x * 2) + 1
        seen.append(C._later_waiting())
        z = y.sum()
        seen.append(C._later_waiting())
        w = y * 3
        seen.append(C._later_waiting())
        w.tolist()
        seen.append(C._later_waiting())
        return y + z
    f(x)
    assert seen == [3, 0, 1, 0] and C._later_waiting() == 0
    assert torch.equal(f(x), f._torchdynamo_orig_callable(x))


def test_memory_that_numpy_sees():
    x = large()
    array = x.numpy()

    @torch.compile
    def f():
        y = x + 1
        array[:] = 5
        return y
    before = x + 1
    assert torch.equal(f(), before) and torch.equal(x, torch.full_like(x, 5))


def test_changes_after_a_read():
    def f(x, w):
        y = x * 2
        x.add_(1)
        z = x.t() * 2
        x.mul_(3)
        w[3] = 0
        a = w * x
        w.copy_(x)
        return y, z, a, x.clone(), w.clone()
    torch.manual_seed(0)
    x, w = large(), large()
    plain, compiled = f(x.clone(), w.clone()), torch.compile(f)(x.clone(), w.clone())
    assert all(map(torch.equal, plain, compiled))


def test_running_statistics_are_read_before_they_change():
    """Of a batch norm, whose schema does not say that it writes them."""
    norm = torch.nn.BatchNorm1d(5000)

    def f(x):
        centred = norm.running_mean * 2 + 1
        return norm(x) + centred
    x = torch.randn(4, 5000)
    plain = f(x)
    norm.reset_running_stats()
    assert torch.equal(torch.compile(f)(x), plain)


def test_other_threads():
    x, ready, done, got = large(), threading.Event(), threading.Event(), []
    kept = []

    @torch.compile
    def f():
        kept.append(x * 2 + 1)
        kept.append(x - 1)
        ready.set()
        done.wait(10)
        return kept[1] * 2

    def other():
        ready.wait(10)
        got.append(kept[0].sum().item())
        x.zero_()
        done.set()
    before = (x * 2 + 1).sum().item(), (x - 1) * 2
    thread = threading.Thread(target=other)
    thread.start()
    result = f()
    thread.join()
    assert got[0] == before[0] and torch.equal(result, before[1])


def test_errors_come_from_their_calls():
    @torch.compile
    def f(x):
        y = x + 1
        try:
            y @ torch.ones(3)
        except RuntimeError:
            y = y * 2
        return y + torch.ones(7, 9)
    with pytest.raises(RuntimeError, match="must match"):
        f(large())
    assert C._later_waiting() == 0 and not C._later_set(False)


def test_backends():
    x, f = large(), lambda x: (x * 2 + 1, C._later_waiting())
    assert torch.compile(f)(x)[1] == 2 and torch.compile(f, backend="eager")(x)[1] == torch.compile(f, backend="aot_eager")(x)[1] == 0
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="Invalid backend: 'nope'"):
        torch.compile(f, backend="nope")
    with pytest.raises(RuntimeError, match="Unrecognized mode=nope"):
        torch.compile(f, mode="nope")
    assert "inductor" in torch.compiler.list_backends() and "eager" in torch._dynamo.list_backends(None)


def test_disabled_parts():
    seen = []

    @torch.compiler.disable
    def plainly(x):
        y = x * 2
        seen.append(C._later_waiting())
        return y + 1

    @torch.compile
    def f(x):
        y = plainly(x)
        z = y * 2
        seen.append(C._later_waiting())
        return z
    x = large()
    assert torch.equal(f(x), (x * 2 + 1) * 2) and seen == [0, 1]


def test_backward_of_compiled_functions_waits_too():
    seen = []

    @torch.compile
    def f(x):
        y = torch.tanh(x) * 2
        y.register_hook(lambda g: seen.append(C._later_waiting()))
        return torch.sin(y * y)
    x = large().requires_grad_()
    f(x).backward(torch.ones_like(x))
    lazily, x.grad = x.grad, None
    f._torchdynamo_orig_callable(x).backward(torch.ones_like(x))
    assert torch.equal(x.grad, lazily) and seen[0] > 0 and seen[1] == 0 and C._later_waiting() == 0


def test_compiled_modules_train_as_they_do():
    def train(wrap):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(80, 100), torch.nn.GELU(), torch.nn.LayerNorm(100), torch.nn.Linear(100, 10))
        model = torch.compile(net) if wrap else net
        opt, x, y = torch.optim.Adam(net.parameters(), lr=1e-2), torch.randn(128, 80), torch.randint(10, (128,))
        losses = []
        for _ in range(4):
            opt.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        return losses, list(net.state_dict().values())
    plain, compiled = train(False), train(True)
    assert plain[0] == compiled[0] and all(map(torch.equal, plain[1], compiled[1]))
