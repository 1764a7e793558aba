"""Several epochs as one iterator."""

__all__ = ["CyclingIterator"]


class CyclingIterator:
    """What generator_fn(epoch) iterates over, for n epochs from start_epoch on."""

    def __init__(self, n, generator_fn, start_epoch=0):
        self._items = (item for epoch in range(start_epoch, n) for item in generator_fn(epoch))

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)
