"""Loading: order of samples, workers, and errors of workers that fail."""
import contextlib
import gc
import math
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
        if i == 7 and self.trouble == "memory":
            torch.zeros(10 ** 14)
        if i == 7 and self.trouble == "leave":
            sys.exit(3)
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
    loader = DataLoader(TensorDataset(torch.randn(16, 200, 200)), batch_size=8, num_workers=1, worker_type="process")
    assert all(batch.is_shared() for batch, in loader)


def test_worker_info_is_read_only():
    info = torch.utils.data._utils.worker.WorkerInfo(id=1)
    with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
        info.id = 2


@pytest.mark.parametrize("trouble,error,words", [("raise", ValueError, "bad sample"), ("memory", torch.OutOfMemoryError, "sample 7"), ("kill", RuntimeError, "sample 7"),
                                                 ("hang", RuntimeError, "sample 7")])
def test_failing_workers_are_named_at_once(trouble, error, words):
    start = time.time()
    with pytest.raises(error, match=words):
        list(DataLoader(Numbers(trouble=trouble), batch_size=2, num_workers=2, timeout=6 if trouble == "hang" else 0))  # a worker starts within that
    assert time.time() - start < 60


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
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry))
    return found


def wait_until(true, seconds):
    end = time.time() + seconds
    while not true() and time.time() < end:
        time.sleep(0.02)
    return true()


@contextlib.contextmanager
def started(program):
    """A Python in a session of its own, that takes Ctrl-C even where the tests, in the background, do not, and ends with the block."""
    before = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.path[:0] = %r\n" % ([os.path.dirname(__file__)] + sys.path)
    child = subprocess.Popen([sys.executable, "-c", before + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        child.stdout.readline()
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.skipif(not os.path.isdir("/proc/self") or not os.path.isdir("/dev/shm"), reason="looks at /proc and /dev/shm")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_interrupted_program_leaves_nothing(sign, kind):
    def shared():   # what multiprocessing makes there; other programs may come and go meanwhile
        return {name for name in os.listdir("/dev/shm") if name.startswith(("sem.mp-", "psm_"))}
    before = shared()
    program = ("from test_data import Slow, DataLoader\n"
               "for batch in DataLoader(Slow(100000), batch_size=4, num_workers=2, worker_type=%r):\n"
               "    print(batch.shape, flush=True)\n" % kind)
    with started(program) as child:
        workers = children_of(child.pid)
        assert len(workers) >= 2 or kind == "thread" and not workers
        start = time.time()
        child.send_signal(sign)
        words = child.communicate(timeout=60)[1].decode()
        assert child.returncode != 0 and time.time() - start < 20 and words.count("Traceback") <= 1
    # Workers of a program that was killed outright look after their parent once a second.
    assert wait_until(lambda: not [w for w in workers if os.path.exists("/proc/%d" % w)], 30)
    assert wait_until(lambda: shared() <= before, 30)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at /proc")
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_ctrl_c_at_any_moment(kind):
    """Also while workers are started or ended; the terminal sends it to the workers too.

    Python's own import loses an interruption in rare moments, so the first loader comes before the first signal."""
    program = ("from test_data import Slow, DataLoader\n"
               "next(iter(DataLoader(Slow(2), num_workers=1, worker_type=%r)))\n"
               "print('go', flush=True)\n"
               "for epoch in range(10 ** 6):\n"
               "    for batch in zip(DataLoader(Slow(100), batch_size=1, num_workers=2, worker_type=%r), range(2)): pass\n" % (kind, kind))
    for moment in range(5):
        with started(program) as child:
            time.sleep(0.05 * moment + 0.01)
            os.killpg(child.pid, signal.SIGINT)
            words = child.communicate(timeout=60)[1].decode()
            assert child.returncode == -signal.SIGINT and words.count("Traceback") == 1, words
            assert not children_of(child.pid)


def test_what_workers_leave_is_dropped_without_interrupts(monkeypatch):
    """Python loses an interruption within what it runs for an object that goes, as multiprocessing has it do."""
    from multiprocessing import util
    blocked, before, others = [], util.Finalize.__call__, set(map(id, util._finalizer_registry.values()))

    def called(self, *args, **kwargs):
        if self._key in util._finalizer_registry and id(self) not in others:
            blocked.append(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return before(self, *args, **kwargs)
    monkeypatch.setattr(util.Finalize, "__call__", called)
    assert len(list(DataLoader(Numbers(), num_workers=2, worker_type="process"))) == 20
    gc.collect()
    assert len(blocked) >= 2 and all(blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_pipes_that_the_collector_closed_are_not_closed_again():
    """Of a cycle it finalises all, in any order; the numbers are soon other files'."""
    loader = iter(DataLoader(Numbers(), num_workers=2, worker_type="process"))
    next(loader)
    ends = [*loader._task_pipes, *loader._result_pipes]
    numbers = {end.fileno() for end in ends}
    for end in ends:
        end.__del__()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in ends]
    assert numbers & set(others)
    loader._shutdown_workers()
    for other in others:
        os.fstat(other)
        os.close(other)
    assert not children_of(os.getpid())


def test_ctrl_c_while_a_worker_ends():
    """Python's own end of a process told of it, beside what the program told."""
    program = ("import multiprocessing.util as util, os, signal, sys\n"
               "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
               "from test_data import DataLoader, Numbers\n"
               "def late(worker): util.Finalize(None, os.kill, args=(os.getpid(), signal.SIGINT), exitpriority=1)\n"
               "print(len(list(DataLoader(Numbers(), num_workers=1, worker_type='process', worker_init_fn=late))))\n")
    path = os.pathsep.join([os.path.dirname(__file__)] + sys.path)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=dict(os.environ, PYTHONPATH=path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "20\n", "")


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_many_failures_leave_nothing(kind):
    threads, handles = threading.active_count(), len(os.listdir("/proc/self/fd"))   # a loader's threads before may still be about to end
    for trouble in ("kill" if kind == "process" else "leave", "raise") * 4:
        start = time.time()
        with pytest.raises((RuntimeError, ValueError), match="worker") as caught:
            list(DataLoader(Numbers(trouble=trouble), batch_size=2, num_workers=2, worker_type=kind))
        assert time.time() - start < 30     # at once, on a busy machine
        del caught
    gc.collect()
    assert not children_of(os.getpid()) and wait_until(lambda: threading.active_count() <= threads, 30)
    assert len(os.listdir("/proc/self/fd")) <= handles + 2


class Deaf(Numbers):
    def __getitem__(self, i):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)


def test_workers_that_must_be_killed_leave_nothing():
    handles = len(os.listdir("/proc/self/fd"))
    with pytest.raises(RuntimeError, match="timed out") as caught:
        list(DataLoader(Deaf(), batch_size=2, num_workers=2, worker_type="process", timeout=1))
    del caught
    gc.collect()
    assert not children_of(os.getpid())
    assert len(os.listdir("/proc/self/fd")) <= handles + 2


def test_failing_thread_is_named():
    with pytest.raises(ValueError, match="(?s)worker process [01].*bad sample.*a thread.*sample 7"):
        list(DataLoader(Numbers(trouble="raise"), batch_size=2, num_workers=2, worker_type="thread"))
    with pytest.raises(RuntimeError, match=r"worker \d was reading .*sample 7\b"):
        list(DataLoader(Numbers(trouble="hang"), batch_size=2, num_workers=2, worker_type="thread", timeout=3))


class Waiting(Numbers):
    def __getitem__(self, i):
        time.sleep(0.005)
        return i


class Together(Numbers):
    """Threads wait for each other until as many are inside as there are."""

    def __init__(self, n, threads):
        super().__init__(n)
        self.threads, self.inside, self.most, self.moved = threads, 0, 0, threading.Condition()

    def __getitem__(self, i):
        if threading.current_thread() is threading.main_thread():
            time.sleep(0.005)    # slow enough for threads to be started
            return i
        with self.moved:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.moved.notify_all()
            self.moved.wait_for(lambda: self.most == self.threads, timeout=10)
            self.inside -= 1
        return i


def test_threads_wait_side_by_side():
    data = Together(80, 4)
    assert len(list(DataLoader(data, batch_size=4, num_workers=4, worker_type="thread"))) == 20 and data.most == 4


class Noise(Numbers):
    """Draws from the worker's generator; slow enough, where asked, that threads are started."""

    def __init__(self, n=24, pause=0.0):
        super().__init__(n)
        self.pause = pause

    def __getitem__(self, i):
        if self.pause:
            time.sleep(self.pause)
        info = get_worker_info()
        assert info is None or info.seed == torch.initial_seed() and torch.get_num_threads() == 1
        return torch.tensor([float(i), float(-1 if info is None else info.id)]), torch.rand(2), torch.randint(100, (1,))


@pytest.mark.parametrize("pause", [0.0, 0.0005])
@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}, {"prefetch_factor": 1}, {"timeout": 5}])
def test_threads_draw_what_processes_draw(pause, options):
    def epochs(kind):
        torch.manual_seed(11)
        loader = DataLoader(Noise(pause=pause), batch_size=3, num_workers=2, shuffle=True, worker_type=kind, **options)
        seen = [[b[0][0].tolist() for b in zip(loader, range(3))]]     # an epoch that is left early
        seen += [[[x.tolist() for x in batch] for batch in loader] for _ in range(2)]
        return seen, torch.rand(1).item(), torch.get_num_threads(), get_worker_info()
    before = torch.get_num_threads()
    got = epochs("thread")
    assert got == epochs("process") and got[2] == before and got[3] is None


def test_threads_do_not_hold_recorded_modes():
    class Graded(Numbers):
        def __getitem__(self, i):
            time.sleep(0.001)
            return torch.tensor(float(torch.is_grad_enabled()))
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            assert {x for b in DataLoader(Graded(), 2, num_workers=2, worker_type="thread") for x in b.tolist()} == {float(grad)}


class OwnIterator(IterableDataset):
    def __init__(self, n=20):
        self.i, self.n = 0, n

    def __iter__(self):
        return self

    def __next__(self):
        self.i += 1
        if self.i > self.n:
            raise StopIteration
        return self.i


@pytest.mark.parametrize("kind", [None, "process", "thread"])
def test_datasets_that_are_their_own_iterator(kind):
    data = OwnIterator()
    got = sorted(sum((b.tolist() for b in DataLoader(data, 3, num_workers=2, worker_type=kind)), []))
    assert got == sorted(2 * list(range(1, 21))) and data.i == 0


def test_who_gets_threads(tmp_path):
    """Threads where no dataset can tell, processes where it could."""
    import functools
    import random
    import numpy as np
    rng, lock = random.Random(1), threading.Lock()

    def reading(f, **attributes):
        cls = type("Reading", (Numbers,), {"__getitem__": f})
        data = cls()
        vars(data).update(attributes)
        return data

    def counts(self, i):
        self.count = i

    def keeps(self, i):
        self.cache[i] = i

    def local(self, i):
        total = [self[k] for k in range(3)] if i < 0 else math.sqrt(i)
        return torch.full((3,), float(i)) ** 2, {"a": np.float32(len(self)) + total, "b": self.part[i % 3].sum()}

    def inplace(self, i):
        x = self.part
        x += i
        return x

    def imports(self, i):
        import random as r
        return r.random()

    class Turn:
        def __call__(self, x):
            return x if random.random() < 0.5 else -x

    class Chain:
        def __init__(self, *parts):
            self.parts = parts

        def __call__(self, x):
            for part in self.parts:
                x = part(x)
            return x

    with open(tmp_path / "f", "wb+") as file:
        threads = [Numbers.__new__(Stream), reading(local, part=torch.ones(3)), [1, 2, 3], TensorDataset(torch.ones(3)), Subset(range(9), [1]),
                   reading(lambda self, i: torch.rand(3) + np.ones(3)), reading(lambda self, i: i, paths=["a"] * 1000),
                   ConcatDataset([reading(lambda self, i: i)])]
        processes = [reading(inplace, part=torch.ones(3)), reading(lambda self, i: self.change(i), change=torch.nn.ReLU()),
                     reading(lambda self, i: self.part.add_(1), part=torch.ones(3)), reading(lambda self, i: i, unused=file),
                     reading(lambda self, i: lock.locked()), reading(lambda self, i: os.fspath("a")), reading(lambda self, i: open(i)),
                     reading(lambda self, i: self.seen.append(i), seen=[]),
                     reading(counts), reading(keeps, cache={}), reading(imports), reading(lambda self, i: random.random()),
                     reading(lambda self, i: np.random.rand()), reading(lambda self, i: rng.random()), OwnIterator(),
                     reading(lambda self, i: self.change(i), change=Chain(abs, Turn())),
                     reading(lambda self, i: self.change(i), change=functools.partial(Turn.__call__, None)),
                     reading(lambda self, i: self.file.tell(), file=file), reading(lambda self, i: os.getpid()),
                     Subset(ConcatDataset([reading(counts)]), [0]), reading(lambda self, i: self.g, g=torch.Generator())]
        assert [DataLoader(d, num_workers=2)._worker_kind() for d in threads] == ["thread"] * len(threads)
        assert [DataLoader(d, num_workers=2)._worker_kind() for d in processes] == ["process"] * len(processes)
    plain = [1, 2, 3]
    assert DataLoader(plain, num_workers=2, collate_fn=lambda b: random.choice(b))._worker_kind() == "process"
    assert DataLoader(plain, num_workers=2, worker_init_fn=print)._worker_kind() == "process"
    assert DataLoader(plain, num_workers=2, multiprocessing_context="fork")._worker_kind() == "process"
    assert DataLoader(reading(counts), num_workers=2, worker_type="thread")._worker_kind() == "thread"


def test_threads_that_hold_each_other_up_are_told(monkeypatch):
    from rushlight.utils.data._utils import threads
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    for options, after in (({}, "process"), ({"worker_type": "thread"}, "thread"), ({"persistent_workers": True}, "thread")):
        loader = DataLoader(Waiting(12), batch_size=2, num_workers=2, **options)
        rest = iter(loader)
        list(zip(rest, range(3)))
        with pytest.warns(UserWarning, match="wait for each other.*worker_type"):
            # As after ten seconds of which the threads computed nearly all, one after the other.
            rest._began, rest._cpu, rest._waited = rest._began - 10, 9.5, 9.0
            next(rest)
        assert loader._worker_kind() == after and len(list(loader)) == 6


def test_threads_outlive_neither_a_fork_nor_a_break():
    loader = DataLoader(Waiting(40), batch_size=2, num_workers=2, worker_type="thread")
    rest = iter(loader)
    for _ in range(4):
        next(rest)
    child = os.fork()
    if not child:
        try:
            for _ in range(16):
                next(rest)
            os._exit(1)
        except RuntimeError as e:
            os._exit(0 if "another process" in str(e) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(rest)) == 16


@pytest.mark.parametrize("kind", [None, "process", "thread"])
def test_cases_give_what_pytorch_gives(kind, monkeypatch):
    """tests/python/loader.tsv holds a digest of PyTorch's answer to every case of loader_cases.py."""
    import loader_cases
    with open(os.path.join(os.path.dirname(__file__), "loader.tsv")) as f:
        wanted = dict(line.rstrip("\n").split("\t") for line in f)
    if kind:
        monkeypatch.setenv("RUSHLIGHT_WORKER_TYPE", kind)
    got = dict(loader_cases.answers(torch))
    if kind == "thread":    # where Python's or NumPy's generators are drawn from, threads cannot give the same
        drawing = ("noise", "noise twice", "init", "generator", "prefetch 1", "persistent")
        got = {name: wanted[name] if name.split(", ")[0] in drawing else digest for name, digest in got.items()}
    assert got.keys() == wanted.keys()
    assert [name for name in got if got[name] != wanted[name]] == []
