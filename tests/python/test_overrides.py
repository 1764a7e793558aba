"""__torch_function__: who is asked, for which calls, and with what."""
import pytest
import rushlight as torch


class Asked:
    """No tensor, but it answers for the functions of torch."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, len(args), sorted(kwargs or {})


def test_modes_see_backward_alone():
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))
    x = torch.ones(2, requires_grad=True)
    y = x.sum()
    with Mode():
        torch.autograd.backward(y, inputs=[x])
    assert seen == ["backward"] and x.grad.equal(torch.ones(2))


def test_types_may_be_any_iterable():
    class Kind(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return torch.Tensor.__torch_function__(func, (torch.Tensor for _ in types), args, kwargs or {})
    assert (torch.ones(2).as_subclass(Kind) + 1).equal(torch.full((2,), 2.))
    with pytest.raises(TypeError):
        torch.Tensor.__torch_function__(torch.add, 3, (torch.ones(2), 1))


@pytest.mark.parametrize("name", ["detach", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_signed", "nonzero", "numel",
                                  "abs", "exp", "sum"])
def test_what_is_no_tensor_may_answer(name):
    assert getattr(torch, name)(Asked()) == (name, 1, [])
    assert torch.split(Asked(), 2) == ("split", 2, ["dim"]) and torch.unravel_index(Asked(), 3) == ("unravel_index", 1, ["shape"])


def test_methods_as_functions_take_their_input_by_name():
    x = torch.tensor([1., 0., 2.])
    assert torch.numel(input=x) == 3 and not torch.is_complex(input=x) and torch.is_floating_point(input=x) and torch.get_device(input=x) == -1
    assert torch.nonzero(input=x).tolist() == [[0], [2]] and torch.nonzero(as_tuple=True, input=x)[0].tolist() == [0, 2]
    assert torch.detach(input=x).equal(x)
    with pytest.raises(TypeError):
        torch.numel(other=x)


def test_the_operators_are_a_module():
    from rushlight.ops import aten
    import rushlight.classes
    import rushlight.ops
    assert aten is torch.ops.aten is rushlight.ops.aten and rushlight.classes.__name__ == "torch.classes"


class Foreign:
    """No tensor, but it takes over what it is given to."""
    asked = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(func)
        return -1


def test_an_index_that_is_no_tensor_is_asked():
    Foreign.asked.clear()
    x, a = torch.arange(5), Foreign()
    assert [x[a], x[0, a], x[[a]], x[[a], ], x[a, None]] == [-1] * 5
    for where, value in ((a, 1), ((0, a), 1), ([a], 1), (0, a)):
        x[where] = value
    assert x.tolist() == [0, 1, 2, 3, 4]
    assert Foreign.asked == [torch.Tensor.__getitem__] * 5 + [torch.Tensor.__setitem__] * 4
    endless = [0]
    endless.append(endless)
    with pytest.raises((TypeError, ValueError, RecursionError, IndexError)):
        x[endless]


def test_iteration_gives_tensors_of_the_class():
    class Sub(torch.Tensor):
        pass

    assert [type(t) for t in torch.ones(3).as_subclass(Sub)] == [Sub] * 3


def test_gradients_of_what_is_no_tensor():
    a = Foreign()
    assert torch.autograd.grad(a, a) == -1 and torch.autograd.grad([a], torch.ones(1)) == -1
    Foreign.asked.clear()
    torch.autograd.backward(a)
    assert Foreign.asked == [torch.autograd.backward]


def test_a_mode_whose_method_is_of_the_class():
    class Mode(torch.overrides.TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args)

    x = torch.ones(1)
    with pytest.raises(RuntimeError, match="as a classmethod is not supported, please make it a plain method"):
        with Mode():
            x.neg()
    with pytest.raises(TypeError, match="expected a sequence"):
        torch.overrides.has_torch_function(object())
