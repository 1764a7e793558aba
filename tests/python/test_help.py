"""help(), signatures and examples of operations."""
import inspect
import pydoc

import rushlight as torch
from rushlight import _examples


def test_help():
    text = pydoc.render_doc(torch.cumsum)
    for part in ("cumsum(Tensor input, int dim, *, torch.dtype dtype = None, Tensor out = None) -> Tensor", "Running sum along dim.",
                 ">>> torch.cumsum(torch.tensor([1, 2, 3]), 0)", "tensor([1, 3, 6])"):
        assert part in text
    assert "-> (Tensor values, Tensor indices)" in torch.max.__doc__
    assert torch.Tensor.add_.__doc__.startswith("add_(Tensor other, *, Number alpha = 1) -> Tensor")


def test_signatures():
    assert str(inspect.signature(torch.add)) == "(input, other, *, alpha=1, out=None)"
    assert str(inspect.signature(torch.Tensor.uniform_)).startswith("(self, from_=0")
    assert str(inspect.signature(torch.Tensor.backward)) == "(self, gradient=None, retain_graph=None, create_graph=False, inputs=None)"
    for space in (vars(torch._C._VariableFunctions), vars(torch.Tensor), vars(torch._C.TensorBase)):
        for value in space.values():
            if type(value).__name__ in ("function", "method") and hasattr(value, "__doc__"):
                assert value.__doc__ is None or isinstance(value.__doc__, str)


def test_examples_are_true():
    for _, expression, result in _examples.every():
        printed = repr(eval(expression, {"torch": torch}))
        assert " ".join(line.strip() for line in printed.split("\n")) == result, expression
