"""A dataset, split, and read in batches."""
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, random_split


class Squares(Dataset[tuple[Tensor, int]]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([float(index)]), index * index


train, test = random_split(Squares(10), [8, 2], generator=torch.Generator().manual_seed(0))
loader = DataLoader(train, batch_size=4, shuffle=True, drop_last=False)
for x, y in loader:
    assert x.shape == (4, 1) and y.dtype == torch.int64
assert len(loader) == 2 and len(test) == 2
