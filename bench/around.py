"""What surrounds the arithmetic: start, memory, data loading, files, NumPy."""
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from clock import measure, show, wanted
from torch.utils.data import DataLoader, Dataset, TensorDataset

MODULE = torch.__name__  # the real name of what is imported here as torch


class Squares(Dataset):
    """Samples that take a little Python each."""

    def __len__(self):
        return 4096

    def __getitem__(self, i):
        return torch.full((32,), float(i)) ** 2, i % 10


def passes(loader, n):
    return lambda: sum(1 for _ in loader) or n


def main():
    if wanted("import"):  # in an interpreter of its own, NumPy already there
        code = f"import numpy, time; t = time.perf_counter(); import {MODULE}; print(time.perf_counter() - t)"
        show("import", min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout) for _ in range(5)), "s")
    if wanted("memory after import"):
        show("memory after import", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB")
    rows = TensorDataset(torch.randn(20000, 64), torch.randint(10, (20000,)))
    for name, loader, n in (("loader, tensors", DataLoader(rows, 64, shuffle=True), 20000),
                            ("loader, a Python dataset", DataLoader(Squares(), 64), 4096),
                            ("loader, two workers", DataLoader(Squares(), 64, num_workers=2), 4096)):
        if wanted(name):
            measure(name, passes(loader, n), n, "sample/s", 1.5)
    if wanted("file"):
        weights = {f"layer{i}.weight": torch.randn(1024, 1024) for i in range(32)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.pt"
            measure("file, save 128 MB", lambda: torch.save(weights, path), 0.134, "GB/s", 2)
            measure("file, load 128 MB", lambda: torch.load(path), 0.134, "GB/s", 2)
            measure("file, map 128 MB", lambda: torch.load(path, mmap=True), 0.134, "GB/s", 2)
    if wanted("numpy"):
        import numpy
        array = numpy.zeros(1000, numpy.float32)
        measure("numpy there and back", lambda: torch.from_numpy(array).numpy())


if __name__ == "__main__":
    main()
