"""Names of what PyTorch's code generator makes kernels of; there is none here, and no such value is ever made."""

__all__ = ["TensorBox", "Pointwise"]


class TensorBox:
    """A tensor in the code generator."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch._inductor.ir: there is no code generator")

    create = classmethod(lambda cls, *args, **kwargs: cls(*args, **kwargs))


class Pointwise(TensorBox):
    """A computation of each element."""
