"""Calls of a module per second, from several threads."""
import threading
import time

import rushlight as torch

__all__ = ["ThroughputBenchmark", "ExecutionStats"]


class ExecutionStats:
    def __init__(self, latency_avg_ms, num_iters, threads):
        self.latency_avg_ms, self.num_iters, self.threads = latency_avg_ms, num_iters, threads

    @property
    def iters_per_second(self):
        return 1000 * self.threads / self.latency_avg_ms

    @property
    def total_time_seconds(self):
        return self.num_iters * self.latency_avg_ms / 1000 / self.threads

    def __str__(self):
        return "Average latency per example: %.3f ms\nTotal number of iterations: %d" % (self.latency_avg_ms,
                                                                                         self.num_iters)


class ThroughputBenchmark:
    """add_input(...) one or more times, then benchmark()."""

    def __init__(self, module):
        self._module, self._inputs = module, []

    def add_input(self, *args, **kwargs):
        self._inputs.append((args, kwargs))

    def run_once(self, *args, **kwargs):
        return self._module(*args, **kwargs)

    def benchmark(self, num_calling_threads=1, num_warmup_iters=10, num_iters=100, profiler_output_path=""):
        if not self._inputs:
            raise RuntimeError("add_input was not called")
        share = max(1, num_iters // num_calling_threads)

        def work(count):
            with torch.no_grad():
                for i in range(count):
                    args, kwargs = self._inputs[i % len(self._inputs)]
                    self._module(*args, **kwargs)

        work(num_warmup_iters)
        start = time.perf_counter()
        threads = [threading.Thread(target=work, args=(share,)) for _ in range(num_calling_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ExecutionStats(1000 * (time.perf_counter() - start) / share, share * num_calling_threads,
                              num_calling_threads)
