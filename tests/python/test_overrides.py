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
