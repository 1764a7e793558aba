"""Wrapper subclasses: tensors without memory of their own, whose class runs the operations in __torch_dispatch__."""
import copy
import io

import pytest
import rushlight as torch
from rushlight.utils._pytree import tree_map_only

LOG = []


class Wrapper(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data, requires_grad=False):
        r = torch.Tensor._make_wrapper_subclass(cls, data.size(), strides=data.stride(), dtype=data.dtype, device=data.device, requires_grad=requires_grad)
        r._data = data
        return r

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        assert types == (cls,)
        LOG.append((str(func), [type(a).__name__ for a in args], kwargs or {}))
        args, kwargs = tree_map_only(Wrapper, lambda x: x._data, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapper, func(*args, **kwargs))


def make(requires_grad=False):
    return Wrapper(torch.arange(6.).view(2, 3), requires_grad)


W = "Wrapper"
# What PyTorch's class is asked, of a wrapper w: the operations below composites, arguments as the schema has them left out.
CALLS = [
    (lambda w: w + 1, [("aten.add.Tensor", [W, "int"], {})]),
    (lambda w: w.add(w, alpha=2), [("aten.add.Tensor", [W, W], {"alpha": 2})]),
    (lambda w: w.sum(1, keepdim=True), [("aten.sum.dim_IntList", [W, "list", "bool"], {})]),
    (lambda w: w[:, 1:], [("aten.slice.Tensor", [W, "int", "int", "int"], {})]),
    (lambda w: w[None], [("aten.unsqueeze.default", [W, "int"], {})]),
    (lambda w: w[torch.tensor([0, 1])], [("aten.index.Tensor", [W, "list"], {})]),
    (lambda w: w.narrow(0, 0, 1), [("aten.slice.Tensor", [W, "int", "int", "int"], {})]),
    (lambda w: w.double(), [("aten._to_copy.default", [W], {"dtype": torch.float64})]),
    (lambda w: w.detach(), [("aten.detach.default", [W], {})]),
    (lambda w: w.add_(1), [("aten.add_.Tensor", [W, "int"], {})]),
    (lambda w: w.copy_(w), [("aten.copy_.default", [W, W], {})]),
    (lambda w: torch.cat([w, w]), [("aten.cat.default", ["list"], {})]),
    (lambda w: w.reshape(-1), [("aten.view.default", [W, "list"], {})]),
    (lambda w: w.cpu(), []),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_what_is_asked(number):
    call, wanted = CALLS[number]
    w = make()
    del LOG[:]
    result = call(w)
    assert LOG == wanted and type(result) is Wrapper
    assert torch.equal(result._data, call(torch.arange(6.).view(2, 3)))


def test_what_it_tells():
    w = make()
    assert (w.shape, w.stride(), w.dtype, w.layout, w.device.type, w.data_ptr(), len(w)) == ((2, 3), (3, 1), torch.float32, torch.strided, "cpu", 0, 2)
    assert w.is_contiguous() and w[1, 2].item() == 5 and bool(w[1, 2] > 4)
    for touch in (w.tolist, w.numpy):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            touch()


def test_gradients_are_recorded_above():
    w = make(requires_grad=True)
    (w * 2).sin().sum().backward()
    assert type(w.grad) is Wrapper and torch.allclose(w.grad._data, 2 * (2 * w._data).cos())


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), ()])
def test_a_broadcast_operand_has_a_gradient_of_its_size(shape):
    v = torch.ones(shape, requires_grad=True)
    (make() * v).sum().backward()
    assert v.grad.shape == shape and torch.equal(v.grad._data, make()._data.sum_to_size(shape))


def test_out():
    place = torch.empty(0)

    class Plain(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            args, kwargs = tree_map_only(Wrapper, lambda x: x._data, (args, kwargs or {}))
            return func(*args, **kwargs)

    r = torch.index_select(Plain(torch.arange(6.).view(2, 3)), 0, torch.tensor([1]), out=place)
    assert r is place and place.tolist() == [[3, 4, 5]]


def test_errors():
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        torch.Tensor._make_wrapper_subclass(torch.Tensor, (2,))

    class Refuses(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.relu.default:
                return NotImplemented
            raise KeyError(func)

    r = Refuses(torch.ones(2))
    with pytest.raises(KeyError, match="add"):
        r + 1
    with pytest.raises(TypeError, match="returned NotImplemented"):
        torch.relu(r)
    with pytest.raises(KeyError, match="set_"):
        torch.ones(2).set_(r)


def test_pickles_and_copies():
    f = io.BytesIO()
    torch.save(make(), f)
    f.seek(0)
    for w in (torch.load(f, weights_only=False), copy.copy(make())):
        assert type(w) is Wrapper and w._data.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_storages_of_wrappers_have_a_size_and_no_bytes():
    w = make()
    s = w.untyped_storage()
    assert s is w.untyped_storage() and s.nbytes() == len(s) == 24 and s.device == torch.device("cpu") and not s.is_shared()
    assert Wrapper(torch.ones(4, 4)[1:, 1:]).untyped_storage().nbytes() == 44 and Wrapper(torch.ones(0, 3)).untyped_storage().nbytes() == 0
    asks = [s.data_ptr, s.tolist, s.clone, s.share_memory_, lambda: s[0], lambda: s[1:], lambda: s.fill_(1), lambda: s.resize_(0), lambda: bytes(s),
            lambda: s.copy_(torch.UntypedStorage(24)), lambda: torch.UntypedStorage(24).copy_(s), lambda: torch.ones(1).set_(s), lambda: torch.Tensor(s),
            lambda: torch.asarray(s), lambda: torch.tensor(s), lambda: torch.frombuffer(s, dtype=torch.uint8), lambda: s.__setitem__(0, 1)]
    for ask in asks:
        with pytest.raises(RuntimeError, match="Attempted to access the data pointer on an invalid python storage"):
            ask()
    assert w.add_(1)._data.sum() == 21 and w._version == 1 and (w + 1)._data.sum() == 27
    copy.deepcopy(w)
    sized = torch.Tensor._make_wrapper_subclass(Wrapper, (2,), storage_size=400)
    assert sized.untyped_storage().nbytes() == 400 and sized.untyped_storage().device == torch.device("cpu")
