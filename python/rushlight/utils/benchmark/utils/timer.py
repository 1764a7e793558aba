"""Timer: timeit for tensors, with a fixed number of threads and runs long enough to measure."""
import enum
import textwrap
import timeit

import rushlight as torch
from rushlight.utils.benchmark.utils import common


class Language(enum.Enum):
    PYTHON = 0
    CPP = 1


def timer():
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Timer("x @ x", globals={"x": x}).blocked_autorange()"""

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None, sub_label=None,
                 description=None, env=None, num_threads=1, language=Language.PYTHON):
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError("Timer: only Python code is timed")
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        space = dict(globals or {})
        space.setdefault("torch", torch)
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._globals = space
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=space)
        self._task_spec = common.TaskSpec(stmt=stmt, setup=setup, global_setup=global_setup, label=label,
                                          sub_label=sub_label, description=description, env=env, num_threads=num_threads)

    def _timeit(self, number):
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number=1000000):
        """One run of `number` executions."""
        with common.set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))     # warm-up
            return common.Measurement(number, [self._timeit(number)], self._task_spec)

    def _block_size(self, min_run_time):
        """How many executions make a run that can be measured well."""
        with common.set_torch_threads(self._task_spec.num_threads):
            overhead = sorted(self._timeit(0) for _ in range(5))[2]
            number = 1
            while True:
                taken = self._timeit(number)
                if overhead <= taken * 1e-4 and taken >= min_run_time / 1000 or taken > min_run_time:
                    return number
                number *= 10

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Runs of one size for at least min_run_time seconds."""
        number = self._block_size(min_run_time)
        times = []
        with common.set_torch_threads(self._task_spec.num_threads):
            total = 0.0
            while total < min_run_time:
                taken = self._timeit(number)
                times.append(taken)
                total += taken
                if callback is not None:
                    callback(number, taken)
        return common.Measurement(number, times, self._task_spec)

    autorange = blocked_autorange

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0, callback=None):
        """Runs until their spread is small, at most for max_run_time seconds."""
        number = self._block_size(min_run_time)
        times, total = [], 0.0
        with common.set_torch_threads(self._task_spec.num_threads):
            while total < max_run_time:
                taken = self._timeit(number)
                times.append(taken)
                total += taken
                if callback is not None:
                    callback(number, taken)
                if total >= min_run_time and len(times) > 3 and common.Measurement(number, times, self._task_spec).meets_confidence(threshold):
                    break
        return common.Measurement(number, times, self._task_spec)

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        raise NotImplementedError("Timer.collect_callgrind: run valgrind on the program instead")
