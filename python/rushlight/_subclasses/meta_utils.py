"""Tensors to the meta device."""


class MetaConverter:
    """Called on a tensor: one of the same kind without data."""

    def __call__(self, t, *args, **kwargs):
        return t.to("meta")
