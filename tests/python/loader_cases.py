"""Loaders, samplers and collation by cases; each answer is reduced to a digest, which PyTorch's must equal.

    python tests/python/loader_cases.py >tests/python/loader.tsv

writes PyTorch's digests (the one use of PyTorch); test_data.py compares rushlight's with them. A case's digest covers
the batches and the state in which the generators of torch, random and NumPy are left.
"""
import collections
import hashlib
import random
import sys
import warnings

import numpy as np


def show(x):
    """Plain Python of a batch: classes, dtypes, shapes, numbers."""
    if hasattr(x, "tolist") and hasattr(x, "stride"):
        return str(x.dtype).split(".")[-1], tuple(x.shape), x.tolist()
    if isinstance(x, dict):
        return {k: show(v) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x).__name__, [show(v) for v in x]
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [show(v) for v in x]
    return x


class Own:
    """A batch of a class of its own."""

    def __init__(self, samples):
        self.x = samples[0][0] * len(samples)


Point = collections.namedtuple("Point", "a b")


def answers(torch):
    """Yields (name, digest) of all cases."""
    from importlib import import_module
    data = import_module(torch.__name__ + ".utils.data")
    cases = []

    class Squares(data.Dataset):
        def __init__(self, n=23):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            return torch.full((3,), float(i)) ** 2, i % 10

    class Noise(data.Dataset):
        def __len__(self):
            return 12

        def __getitem__(self, i):
            return i, torch.rand(2), random.random(), float(np.random.rand())

    class Stream(data.IterableDataset):
        def __init__(self, n=17):
            self.n = n

        def __iter__(self):
            worker = data.get_worker_info()
            first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
            for i in range(first, self.n, step):
                yield i, torch.rand(1)

    class Measured(Stream):
        def __len__(self):
            return self.n

    class Lists(Squares):
        def __getitems__(self, indices):
            return [self[i] for i in indices]

    class Info(data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            w = data.get_worker_info()
            if w is None:
                return i, -1, 0
            return i, w.id, w.num_workers, w.seed, len(w.dataset), torch.initial_seed() - w.seed, torch.get_num_threads()

    class Bad(Squares):
        def __getitem__(self, i):
            if i == 9:
                raise KeyError("nine")
            return i

    def case(name, run):
        cases.append((name, run))

    def load(*args, **kwargs):
        return list(data.DataLoader(*args, **kwargs))

    def epochs(n, *args, **kwargs):
        loader = data.DataLoader(*args, **kwargs)
        return [list(loader) for _ in range(n)]

    def seeded(n):
        return torch.Generator().manual_seed(n)

    def seed_numpy(worker):
        np.random.seed(worker)

    add_loaders(case, load, epochs, seeded, seed_numpy, torch, data,
                dict(Squares=Squares, Noise=Noise, Stream=Stream, Measured=Measured, Lists=Lists, Info=Info, Bad=Bad))
    add_samplers(case, seeded, data)
    add_errors(case, torch, data, Squares, Stream)
    add_collation(case, torch, data)
    case("stack", lambda: data.StackDataset(a=Squares(5), b=range(5))[3])
    case("concat", lambda: data.ConcatDataset([range(3), range(5)])[-2])
    case("chain", lambda: [a for a, _ in data.ChainDataset([Stream(3), Stream(2)])])
    case("subset", lambda: data.Subset(Squares(), [4, 2]).__getitems__([0, 1]))
    case("add", lambda: (Squares(3) + Squares(4))[5])

    for name, run in cases:
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                got = show(run())
            except Exception as error:
                got = type(error).__name__
            text = repr((got, torch.rand(1).item(), random.random(), float(np.random.rand())))
        yield name, hashlib.sha1(text.encode()).hexdigest()[:12]


def add_loaders(case, load, epochs, seeded, seed_numpy, torch, data, kinds):
    """Every way to load, with 0, 1, 2 and 4 workers."""
    squares, noise, stream, measured = kinds["Squares"](), kinds["Noise"](), kinds["Stream"](), kinds["Measured"]()
    for w in (0, 1, 2, 4):
        k = {"num_workers": w}
        for name, run in {
            "map": lambda k: load(squares, 4, **k),
            "shuffle": lambda k: load(squares, 4, shuffle=True, **k),
            "drop last": lambda k: load(squares, 4, shuffle=True, drop_last=True, **k),
            "no batches": lambda k: load(squares, None, shuffle=True, **k),
            "noise": lambda k: load(noise, 3, shuffle=True, **k),
            "noise twice": lambda k: epochs(2, noise, 3, shuffle=True, **k),
            "init": lambda k: load(noise, 3, worker_init_fn=seed_numpy, **k),
            "generator": lambda k: load(noise, 3, shuffle=True, generator=seeded(5), **k),
            "stream": lambda k: load(stream, 4, **k),
            "stream, drop last": lambda k: load(stream, 4, drop_last=True, **k),
            "stream, no batches": lambda k: load(stream, None, **k),
            "stream with length": lambda k: (len(data.DataLoader(measured, 4, **k)), len(data.DataLoader(measured, 4, drop_last=True, **k)),
                                             load(measured, 4, **k)),
            "batch sampler": lambda k: load(squares, batch_sampler=[[1, 2], [5], [0, 3, 4]], **k),
            "sampler": lambda k: load(squares, 2, sampler=[3, 1, 2], **k),
            "weights": lambda k: load(squares, 2, sampler=data.WeightedRandomSampler([.1] * 23, 9), **k),
            "lists": lambda k: load(kinds["Lists"](), 4, **k),
            "info": lambda k: load(kinds["Info"](), 2, collate_fn=list, **k),
            "own batches": lambda k: [b.x for b in load(squares, 5, collate_fn=Own, **k)],
            "tensors": lambda k: load(data.TensorDataset(torch.arange(20).view(10, 2), torch.arange(10.)), 3, shuffle=True, **k),
            "shares": lambda k: [load(squares, 3, sampler=data.DistributedSampler(squares, 3, r, seed=3), **k) for r in range(3)],
            "first only": lambda k: next(iter(data.DataLoader(squares, 4, shuffle=True, **k))),
            "raising": lambda k: load(kinds["Bad"](), 4, **k),
            "pinned without a device": lambda k: load(squares, 4, pin_memory=True, **k),
        }.items():
            case("%s, %d workers" % (name, w), lambda run=run, k=k: run(k))
        for name, run in {
            "prefetch 1": lambda k: load(noise, 3, prefetch_factor=1, **k),
            "persistent": lambda k: epochs(3, noise, 3, shuffle=True, persistent_workers=True, **k),
            "persistent stream": lambda k: epochs(2, stream, 3, persistent_workers=True, **k),
            "timeout": lambda k: load(squares, 4, timeout=30, **k),
            "context": lambda k: load(squares, 4, multiprocessing_context="fork", **k),
            "any order": lambda k: sorted(str(show(b)) for b in load(squares, 4, in_order=False, **k)),
        }.items() if w else ():
            case("%s, %d workers" % (name, w), lambda run=run, k=k: run(k))


def add_samplers(case, seeded, data):
    case("random", lambda: list(data.RandomSampler(range(9))))
    case("random, replaced", lambda: list(data.RandomSampler(range(9), True, 40)))
    case("random, more", lambda: list(data.RandomSampler(range(9), num_samples=25)))
    case("random, generator", lambda: list(data.RandomSampler(range(9), generator=seeded(1))))
    case("random subset", lambda: list(data.SubsetRandomSampler([5, 3, 8])))
    case("weighted once each", lambda: list(data.WeightedRandomSampler([1., 2, 3, 4], 3, replacement=False)))
    case("split", lambda: [p.indices for p in data.random_split(range(10), [3, 7])])
    case("split fractions", lambda: [p.indices for p in data.random_split(range(10), [.3, .3, .4], generator=seeded(42))])
    case("distributed", lambda: [list(data.DistributedSampler(range(11), 4, r, shuffle=s, drop_last=d, seed=2))
                                 for r in range(4) for s in (False, True) for d in (False, True)])

    def later():
        sampler = data.DistributedSampler(range(11), 2, 1)
        sampler.set_epoch(5)
        return list(sampler)
    case("distributed, epoch 5", later)


def add_errors(case, torch, data, Squares, Stream):
    """Arguments that are refused; compared is the class of the exception."""
    d = Squares()
    for name, run in {
        "workers < 0": lambda: data.DataLoader(d, num_workers=-1),
        "timeout < 0": lambda: data.DataLoader(d, timeout=-1),
        "prefetch without workers": lambda: data.DataLoader(d, prefetch_factor=2),
        "persistent without workers": lambda: data.DataLoader(d, persistent_workers=True),
        "shuffled stream": lambda: data.DataLoader(Stream(), shuffle=True),
        "stream and sampler": lambda: data.DataLoader(Stream(), sampler=[1]),
        "stream and batch sampler": lambda: data.DataLoader(Stream(), batch_sampler=[[1]]),
        "sampler and shuffle": lambda: data.DataLoader(d, shuffle=True, sampler=[1]),
        "batch sampler and size": lambda: data.DataLoader(d, 2, batch_sampler=[[1]]),
        "drop without batches": lambda: data.DataLoader(d, None, drop_last=True),
        "context": lambda: data.DataLoader(d, num_workers=1, multiprocessing_context="bad"),
        "context without workers": lambda: data.DataLoader(d, multiprocessing_context="fork"),
        "random of nothing": lambda: data.RandomSampler([]),
        "0 samples": lambda: data.RandomSampler([1], num_samples=0),
        "split sum": lambda: data.random_split(range(5), [1, 2]),
        "batches of 0": lambda: data.BatchSampler([1], 0, False),
        "fixed attribute": lambda: setattr(data.DataLoader(d), "batch_size", 3),
        "objects": lambda: data.default_collate([object()]),
        "uneven lists": lambda: data.default_collate([[1], [1, 2]]),
        "uneven tensors": lambda: data.default_collate([torch.ones(2), torch.ones(3)]),
        "0 weighted": lambda: data.WeightedRandomSampler([1.], 0),
        "rank": lambda: data.DistributedSampler([1], 2, 2),
        "tensors of two lengths": lambda: data.TensorDataset(torch.ones(2), torch.ones(3)),
        "stack of two lengths": lambda: data.StackDataset(range(2), range(3)),
        "concat of nothing": lambda: data.ConcatDataset([]),
    }.items():
        case("error: " + name, lambda run=run: run() and None)


def add_collation(case, torch, data):
    for name, batch in {
        "ints": [1, 2], "bools": [True, False], "floats": [1., 2.], "mixed": [1, 2.5], "numpy numbers": [np.float32(1), np.float32(2)],
        "arrays": [np.ones(2, np.int16)] * 2, "texts": ["a", "b"], "bytes": [b"a", b"b"], "dicts": [{"a": 1, "b": torch.ones(1)}] * 2,
        "named tuples": [Point(1, 2.), Point(3, 4.)], "tuples": [(1, torch.zeros(2)), (2, torch.ones(2))], "lists": [[1, 2], [3, 4]],
        "nested": [{"a": [1, (2, "x")]}] * 2, "numpy bools": [np.bool_(True)] * 2, "0-d arrays": [np.array(3.)] * 2, "large": [2**40, 1],
        "half": [torch.ones(2, dtype=torch.float16)] * 2, "complex": [torch.ones(1, dtype=torch.complex64)] * 2,
        "empty": [torch.ones(0)] * 3, "ordered": [collections.OrderedDict(a=1)] * 2, "default": [collections.defaultdict(int, a=1)] * 2,
        "text arrays": [np.array("a")] * 2, "nothing": [None, None], "uneven": [torch.ones(1), torch.ones(1, 1)],
    }.items():
        case("collate " + name, lambda batch=batch: data.default_collate(batch))
        case("convert " + name, lambda batch=batch: data.default_convert(batch))


if __name__ == "__main__":
    import torch
    for line in answers(torch):
        print("\t".join(line))
    sys.exit(0)
