"""masked_tensor and as_masked_tensor: a leaf of copies, and a step of the graph."""
from rushlight.masked.maskedtensor.core import AsMasked, MaskedTensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data, mask, requires_grad=False):
    """data where mask is true; a leaf, of copies."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """data where mask is true; gradients reach data, as masked tensors."""
    return AsMasked.apply(data, mask)
