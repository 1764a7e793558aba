"""Fused layers of float inputs with quantized weights."""
import rushlight as torch
from rushlight.ao.nn.quantized import dynamic as nnqd

__all__ = ["LinearReLU"]


class LinearReLU(nnqd.Linear):
    """A linear layer of float inputs with a quantized weight, and relu."""

    def forward(self, x):
        ops, packed = torch.ops.quantized, self._packed_params._packed_params
        if self._packed_params.dtype == torch.qint8:
            return ops.linear_relu_dynamic(x, packed, reduce_range=True)
        return ops.linear_relu_dynamic_fp16(x, packed)

    def _get_name(self):
        return "DynamicQuantizedLinearReLU"
