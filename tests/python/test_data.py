"""Loading: order of samples, workers, and errors of workers that fail."""
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import rushlight as torch
from rushlight.utils.data import (BatchSampler, ConcatDataset, DataLoader, DistributedSampler, IterableDataset,
                                  RandomSampler, SequentialSampler, StackDataset, Subset, TensorDataset, get_worker_info,
                                  random_split)


class Numbers:
    """0..n-1; some of them do things."""

    def __init__(self, n=20, trouble=None):
        self.n, self.trouble = n, trouble

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == 7 and self.trouble == "raise":
            raise ValueError("bad sample")
        if i == 7 and self.trouble == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if i == 7 and self.trouble == "hang":
            time.sleep(60)
        return i


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, 23, step))


def test_orders_of_a_seed():
    # The numbers PyTorch gives for these seeds.
    torch.manual_seed(0)
    assert list(RandomSampler(range(10))) == [6, 9, 0, 7, 3, 5, 4, 2, 1, 8]
    assert list(DistributedSampler(range(10), 3, 1, shuffle=False)) == [1, 4, 7, 0]
    assert list(BatchSampler(SequentialSampler(range(5)), 2, True)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_same_batches_with_workers(workers, kind):
    torch.manual_seed(3)
    loader = DataLoader(Numbers(), batch_size=3, shuffle=True, num_workers=workers, worker_type=kind)
    got = [b.tolist() for b in loader]
    torch.manual_seed(3)
    assert got == [b.tolist() for b in DataLoader(Numbers(), batch_size=3, shuffle=True)]
    assert sorted(sum(got, [])) == list(range(20))


def test_iterable_and_persistent():
    loader = DataLoader(Stream(), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert sorted(sum((b.tolist() for b in loader), [])) == list(range(23))


def test_collate_containers():
    batch = next(iter(DataLoader([{"a": torch.ones(2), "b": (1, "x")}] * 3, batch_size=3)))
    assert batch["a"].shape == (3, 2) and batch["b"][0].tolist() == [1, 1, 1] and list(batch["b"][1]) == ["x"] * 3


def test_datasets():
    data = TensorDataset(torch.arange(6), torch.arange(6) * 2)
    assert len(ConcatDataset([data, data])) == 12 and ConcatDataset([data, data])[-1][1] == 10
    assert StackDataset(a=data, b=data)[1]["b"][1] == 2 and Subset(data, [3])[0][0] == 3
    assert [len(part) for part in random_split(data, [0.5, 0.5])] == [3, 3]


def test_large_batches_travel_in_shared_memory():
    loader = DataLoader(TensorDataset(torch.randn(16, 200, 200)), batch_size=8, num_workers=1)
    assert all(batch.is_shared() for batch, in loader)


@pytest.mark.parametrize("trouble,error,words", [("raise", ValueError, "bad sample"), ("kill", RuntimeError, "sample 7"),
                                                 ("hang", RuntimeError, "sample 7")])
def test_failing_workers_are_named_at_once(trouble, error, words):
    start = time.time()
    with pytest.raises(error, match=words):
        list(DataLoader(Numbers(trouble=trouble), batch_size=2, num_workers=2, timeout=1 if trouble == "hang" else 0))
    assert time.time() - start < 5


class Slow(Numbers):
    """Large tensors, slowly: there is always something in shared memory and a worker inside the dataset."""

    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.ones(300, 300)


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry) as f:
                    fields = f.read().rsplit(")", 1)[1].split()
            except FileNotFoundError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry))
    return found


def wait_until(true, seconds):
    end = time.time() + seconds
    while not true() and time.time() < end:
        time.sleep(0.02)
    return true()


@pytest.mark.skipif(not os.path.isdir("/proc/self") or not os.path.isdir("/dev/shm"), reason="looks at /proc and /dev/shm")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_program_leaves_nothing(sign, tmp_path):
    shared = set(os.listdir("/dev/shm"))
    program = ("import sys; sys.path[:0] = %r; from test_data import Slow, DataLoader\n"
               "for batch in DataLoader(Slow(100000), batch_size=4, num_workers=2):\n"
               "    print(batch.shape, flush=True)\n" % ([os.path.dirname(__file__)] + sys.path,))
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdout.readline()
    workers = children_of(child.pid)
    assert len(workers) >= 2
    child.send_signal(sign)
    child.communicate(timeout=10)
    assert child.returncode != 0
    # Workers of a program that was killed outright look after their parent once a second.
    assert wait_until(lambda: not [w for w in workers if os.path.exists("/proc/%d" % w)], 4)
    assert set(os.listdir("/dev/shm")) <= shared


def test_many_failures_leave_nothing():
    threads, handles = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for trouble in ("kill", "raise") * 4:
        start = time.time()
        with pytest.raises((RuntimeError, ValueError), match="worker") as caught:
            list(DataLoader(Numbers(trouble=trouble), batch_size=2, num_workers=2))
        assert time.time() - start < 2
        del caught
    import gc
    gc.collect()
    assert not children_of(os.getpid()) and threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= handles + 2


def test_failing_thread_is_named():
    with pytest.raises(ValueError, match="(?s)worker thread.*bad sample.*sample 7"):
        list(DataLoader(Numbers(trouble="raise"), batch_size=2, num_workers=2, worker_type="thread"))
    with pytest.raises(RuntimeError, match=r"worker \d was reading .*\b7\b"):
        list(DataLoader(Numbers(trouble="hang"), batch_size=2, num_workers=2, worker_type="thread", timeout=0.5))


class Waiting(Numbers):
    def __getitem__(self, i):
        time.sleep(0.005)
        return i


def test_threads_wait_side_by_side():
    def seconds(workers):
        start = time.time()
        list(DataLoader(Waiting(80), batch_size=4, num_workers=workers, worker_type="thread"))
        return time.time() - start
    assert seconds(4) < 0.6 * seconds(0)


def test_cases_give_what_pytorch_gives():
    """tests/python/loader.tsv holds a digest of PyTorch's answer to every case of loader_cases.py."""
    import loader_cases
    with open(os.path.join(os.path.dirname(__file__), "loader.tsv")) as f:
        wanted = dict(line.rstrip("\n").split("\t") for line in f)
    got = dict(loader_cases.answers(torch))
    assert got.keys() == wanted.keys()
    assert [name for name in got if got[name] != wanted[name]] == []
