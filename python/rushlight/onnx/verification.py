"""How far the results of an exported model are from those of its program."""
import dataclasses
import typing

import rushlight as torch
from rushlight.utils import _pytree as pytree

__all__ = ["VerificationInfo", "verify_onnx_program"]

_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)
_LEAST = 1e-7  # expected numbers nearer to zero than this: relative differences are to it


def _numbers(t):
    if t.dtype == torch.bool:
        return t.to(torch.float32)
    return torch.view_as_real(t) if t.is_complex() else t


def _histogram(t):
    return torch.histogram(t.float().flatten(), torch.tensor(_EDGES))


@dataclasses.dataclass
class VerificationInfo:
    """Of one value: the largest differences, and how many there are of each size (counts, edges of the bins)."""
    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[torch.Tensor, torch.Tensor]
    rel_diff_hist: tuple[torch.Tensor, torch.Tensor]
    expected_dtype: torch.dtype
    actual_dtype: torch.dtype

    @classmethod
    def from_tensors(cls, name, expected, actual):
        """Of two tensors of one shape."""
        a, b = _numbers(expected), _numbers(actual)
        absolute = (a - b).abs()
        relative = absolute / a.abs().clamp(min=_LEAST)
        largest = [d.max().item() if d.numel() else float("inf") for d in (absolute, relative)]
        return cls(name, *largest, _histogram(absolute), _histogram(relative), expected.dtype, actual.dtype)

    def asdict(self) -> dict[str, typing.Any]:
        """As plain values."""
        return {"name": self.name, "max_abs_diff": self.max_abs_diff, "max_rel_diff": self.max_rel_diff,
                "abs_diff_hist": [t.tolist() for t in self.abs_diff_hist], "rel_diff_hist": [t.tolist() for t in self.rel_diff_hist],
                "expected_dtype": str(self.expected_dtype), "actual_dtype": str(self.actual_dtype)}


def _results(onnx_program, args, kwargs):
    """(names, what the program gives, what the model gives)"""
    exported = onnx_program.exported_program
    if args is None and kwargs is None:
        args, kwargs = exported.example_inputs
    args, kwargs = args or (), kwargs or {}
    want = [x.detach() for x in pytree.tree_leaves(exported.module()(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    got = onnx_program(*args, **kwargs)
    return [v.name for v in onnx_program._session.get_outputs()], want, got


def verify_onnx_program(onnx_program, args=None, kwargs=None, compare_intermediates=False):
    """A VerificationInfo for each result of the model, with these arguments or those that it was exported with."""
    if compare_intermediates:
        raise NotImplementedError("verify_onnx_program(compare_intermediates=True): values inside a model do not keep their names here")
    return [VerificationInfo.from_tensors(name, a, b) for name, a, b in zip(*_results(onnx_program, args, kwargs))]
