"""__torch_dispatch__: modes and tensor classes that see operations below autograd."""
import pytest

import rushlight as torch
from rushlight.utils._python_dispatch import TorchDispatchMode


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def seen(f):
    with Log() as log:
        f()
    return log.calls


def test_modes_see_forms_as_they_are():
    x, y = torch.ones(3), torch.empty(3)
    assert seen(lambda: x + 1) == ["aten.add.Tensor"]
    assert seen(lambda: x.add_(1)) == ["aten.add_.Tensor"]
    assert seen(lambda: torch.add(x, 1, out=y)) == ["aten.add.out"]
    assert y.tolist() == [3.0, 3.0, 3.0]
    assert seen(lambda: x.view(3, 1)) == ["aten.view.default"]


def test_nothing_is_seen_outside():
    log = Log()
    with log:
        pass
    torch.ones(2) + 1
    assert log.calls == []


def test_a_result_may_be_replaced_and_is_recorded():
    class Doubles(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.ops.aten.exp.default else out

    x = torch.zeros(2, requires_grad=True)
    with Doubles():
        y = x.exp()
    assert y.tolist() == [2.0, 2.0] and type(y.grad_fn).__name__ == "ExpBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_inner_modes_come_first_and_pass_on():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        torch.ones(2).neg()
    assert order == ["inner", "outer"] * 2


def test_what_a_mode_raises_comes_out_and_the_stack_is_as_it_was():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError("no")

    x = torch.ones(2)
    with pytest.raises(KeyError, match="no"):
        with Refuses():
            x + 1
    assert (x + 1).tolist() == [2.0, 2.0] and torch._C._len_torch_dispatch_stack() == 0


def test_wrong_answers_are_errors():
    class Wrong(TorchDispatchMode):
        def __init__(self, answer):
            super().__init__()
            self.answer = answer

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return self.answer

    x = torch.ones(2)
    for answer, op in ((3, x.neg), (None, lambda: torch.max(x, 0)), ((x,), lambda: torch.max(x, 0)), (NotImplemented, x.neg)):
        with pytest.raises((TypeError, RuntimeError)):
            with Wrong(answer):
                op()
    with Wrong("whatever"):
        assert x.add_(1) is x


def test_views_of_leaves_keep_their_base():
    x = torch.ones(2, 2, requires_grad=True)
    with Log():
        y = x.view(4)
    assert y._base is x and y.grad_fn is not None


def test_backward_is_seen():
    x = torch.ones(2, requires_grad=True)
    with Log() as log:
        y = x.exp().sum()
        n = len(log.calls)
        y.backward()
    assert "aten.mul.Tensor" in log.calls[n:]
