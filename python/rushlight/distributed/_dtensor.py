"""Whether a value is a DTensor, for those who would not import torch.distributed.tensor to ask."""


def is_dtensor(value):
    return hasattr(value, "_local_tensor") and hasattr(value, "placements")
