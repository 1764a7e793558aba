"""A dataset without a length."""
from collections.abc import Iterator

from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Numbers(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        assert get_worker_info() is None
        return iter(range(5))


batches = [batch.tolist() for batch in DataLoader(Numbers(), batch_size=2, num_workers=0)]
assert batches == [[0, 1], [2, 3], [4]]
