"""Fetchers: from indices (or a stream) to a collated batch.

`at` names the sample being read, for error messages; `progress`, in worker processes, is memory shared with the
loader that holds the position in the batch, for the case that the process does not live to tell.
"""


class _BaseDatasetFetcher:
    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.at = None
        self.progress = [0, 0]

    def fetch(self, possibly_batched_index):
        raise NotImplementedError


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False
        self.count = 0

    def fetch(self, possibly_batched_index):
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            self.at = "item %d of the stream" % self.count
            data = next(self.dataset_iter)
            self.count += 1
            self.at = None
            return self.collate_fn(data)
        data = []
        for _ in possibly_batched_index:
            self.at = "item %d of the stream" % self.count
            self.progress[1] = self.count
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
            self.count += 1
        self.at = None
        if not data or (self.drop_last and len(data) < len(possibly_batched_index)):
            raise StopIteration
        return self.collate_fn(data)


class _MapDatasetFetcher(_BaseDatasetFetcher):
    def fetch(self, possibly_batched_index):
        if not self.auto_collation:
            self.at = "sample %r" % (possibly_batched_index,)
            data = self.dataset[possibly_batched_index]
        elif hasattr(self.dataset, "__getitems__") and self.dataset.__getitems__:
            self.at = "samples %s" % (list(possibly_batched_index),)
            data = self.dataset.__getitems__(possibly_batched_index)
        else:
            data = []
            for position, index in enumerate(possibly_batched_index):
                self.at = index
                self.progress[1] = position
                data.append(self.dataset[index])
        self.at = None
        return self.collate_fn(data)


def where(fetcher):
    """What a fetcher was reading, in words, or None."""
    if fetcher is None or fetcher.at is None:
        return None
    return fetcher.at if isinstance(fetcher.at, str) else "sample %r" % (fetcher.at,)
