"""ShapeProp: shapes and dtypes of all values, by running the graph."""
from typing import Any, Dict, NamedTuple, Optional, Tuple

import rushlight as torch
from rushlight.fx.node import map_aggregate

__all__ = ["TensorMetadata", "ShapeProp"]


class TensorMetadata(NamedTuple):
    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: Tuple[int, ...]
    memory_format: Optional[torch.memory_format]
    is_quantized: bool
    qparams: Dict[str, Any]


def _extract_tensor_metadata(result, include_contiguity=True):
    memory_format = None
    if include_contiguity and result.layout is torch.strided:
        for candidate in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
            wanted = {torch.channels_last: 4, torch.channels_last_3d: 5}.get(candidate)
            if (wanted is None or result.dim() == wanted) and result.is_contiguous(memory_format=candidate):
                memory_format = candidate
                break
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), memory_format,
                          result.is_quantized, {})


class ShapeProp(torch.fx.Interpreter):
    """propagate(*args): runs the graph and leaves node.meta["tensor_meta"]."""

    def __init__(self, gm, fake_mode=None):
        super().__init__(gm)
        self.module = gm

    def run_node(self, n):
        result = super().run_node(n)
        found = [False]

        def note(x):
            if isinstance(x, torch.Tensor):
                found[0] = True
                return _extract_tensor_metadata(x)
            return x
        meta = map_aggregate(result, note)
        if found[0]:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args):
        return super().run(*args)
