"""Datasets of every kind, samplers, collation, loaders with workers."""
import random

import numpy as np
import torch
from torch.utils.data import (BatchSampler, ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, Subset,
                              SubsetRandomSampler, TensorDataset, WeightedRandomSampler, default_collate, get_worker_info, random_split)


class Faces(Dataset):
    def __init__(self, n, transform=None):
        self.n, self.transform = n, transform

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        sample = {"image": np.full((2, 2), i, dtype=np.float32), "landmarks": (i, float(i) / 2), "name": f"face{i}"}
        return self.transform(sample) if self.transform else sample


class ToTensor:
    def __call__(self, s):
        return {**s, "image": torch.from_numpy(s["image"])}


class Stream(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        step, first = (info.num_workers, info.id) if info else (1, 0)
        return iter(range(first, self.n, step))


if __name__ == "__main__":
    torch.manual_seed(12)
    faces = Faces(7, ToTensor())
    for batch in DataLoader(faces, batch_size=3):
        print(batch["image"].sum((1, 2)), batch["landmarks"], batch["name"])
    print([b["name"] for b in DataLoader(faces, batch_size=3, shuffle=True, drop_last=True)])
    print([b["name"] for b in DataLoader(faces, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(1))])
    print([b["name"] for b in DataLoader(faces, batch_size=4, num_workers=2)])
    print([b["image"].shape for b in DataLoader(faces, batch_size=4, num_workers=1, collate_fn=lambda l: default_collate(l[:1]))])
    print(sorted(x.item() for b in DataLoader(Stream(7), batch_size=2, num_workers=2) for x in b), list(DataLoader(Stream(3), batch_size=None)))
    t = TensorDataset(torch.arange(6), torch.arange(6.0) ** 2)
    print(t[2:4], len(ConcatDataset([t, t])), ConcatDataset([t, t])[7], Subset(t, [5, 0])[0], len(t))
    a, b = random_split(t, [4, 2])
    print(a.indices, b.indices, [len(s) for s in random_split(range(10), [0.3, 0.3, 0.4], generator=torch.Generator().manual_seed(42))])
    print(list(RandomSampler(range(5))), list(SequentialSampler(range(3))), list(RandomSampler(range(3), replacement=True, num_samples=6)))
    print(list(WeightedRandomSampler([0.1, 0.9, 0.4], 5)), list(SubsetRandomSampler([3, 5, 7])), list(BatchSampler(SequentialSampler(range(7)), 3, False)))
    print(list(DataLoader(ChainDataset([Stream(2), Stream(3)]), batch_size=4)))
    print(default_collate([{"a": 1, "b": [1.0, 2]}, {"a": 3, "b": [4.0, 5]}]), default_collate([np.float64(1), np.float64(2)]), default_collate([(1, "x"), (2, "y")]))
    loader = DataLoader(t, batch_sampler=BatchSampler(RandomSampler(t), 4, True))
    print(len(loader), [tuple(x.shape) for x in next(iter(loader))], loader.batch_size)
