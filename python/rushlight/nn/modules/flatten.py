"""Joining dimensions into one and splitting one into several."""
from rushlight.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Join the dimensions from start_dim to end_dim.

    start_dim, end_dim: the first and the last of them.
    Shapes: input (*, a, ..., b, *); result (*, a ... b, *).

    >>> nn.Flatten()(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 12])
    """
    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split dimension dim into several.

    unflattened_size: the new sizes.
    Shapes: input (*, n, *); result (*, *unflattened_size, *).

    >>> nn.Unflatten(1, (2, 3))(torch.zeros(5, 6)).shape
    torch.Size([5, 2, 3])
    """
    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim, unflattened_size):
        super().__init__()
        if not isinstance(dim, (int, str)):
            raise TypeError("invalid argument type for dim parameter")
        self._require_tuple_int(unflattened_size)
        if isinstance(dim, str):
            raise NotImplementedError("Unflatten: named dimensions are not supported")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input):
        if not isinstance(input, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(input).__name__}")
        for place, element in enumerate(input):
            if not isinstance(element, int):
                raise TypeError("unflattened_size must be tuple of ints, but found element of type "
                                f"{type(element).__name__} at pos {place}")

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
