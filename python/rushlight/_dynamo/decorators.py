"""torch._dynamo.decorators: what files with nested tensors name."""


class _DimRange:
    """What a compiler was told of the size of one dimension."""

    def __setstate__(self, state):
        self.dim, self.min, self.max = state
