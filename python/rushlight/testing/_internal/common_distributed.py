"""Tests that run in several processes: each process runs the test as one rank, and the test passes if it does in all."""
import functools
import os
import tempfile
import unittest

import rushlight as torch
import rushlight.distributed as dist
from rushlight import multiprocessing as mp

from .common_utils import TestCase

TIMEOUT = 300  # seconds for one test


def skip_if_lt_x_gpu(x, *, allow_cpu=False):
    """A decorator: the test needs so many GPUs."""
    enough = torch.cuda.is_available() and torch.cuda.device_count() >= x or allow_cpu and not torch.cuda.is_available()
    return unittest.skipUnless(enough, "Need at least %d CUDA devices" % x)


def requires_gloo():
    return unittest.skipUnless(dist.is_gloo_available(), "c10d was not compiled with the Gloo backend")


def _as_rank(kind, name, rank, path):
    test = kind(name)
    test.rank, test.file_name = rank, path
    torch.set_num_threads(1)
    test.setUpRank()
    try:
        getattr(test, name).as_rank(test)
    finally:
        test.tearDownRank()


class MultiProcessTestCase(TestCase):
    """The test methods run in `world_size` processes."""

    @property
    def world_size(self):
        return 4

    def init_method(self):
        return "file://" + self.file_name

    def setUpRank(self):
        """What each process does before the test."""

    def tearDownRank(self):
        if dist.is_initialized():
            dist.destroy_process_group()

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        for name, test in list(vars(cls).items()):
            if name.startswith("test") and callable(test) and not hasattr(test, "as_rank"):
                setattr(cls, name, cls._in_processes(name, test))

    @staticmethod
    def _in_processes(name, test):
        @functools.wraps(test)
        def run(self):
            if getattr(test, "__unittest_skip__", False):
                raise unittest.SkipTest(test.__unittest_skip_why__)
            with tempfile.TemporaryDirectory() as folder:
                ranks = [mp.get_context("spawn").Process(target=_as_rank, args=(type(self), self._testMethodName, rank, os.path.join(folder, "store"))) for rank in range(self.world_size)]
                for process in ranks:
                    process.start()
                for process in ranks:
                    process.join(TIMEOUT)
                    if process.is_alive():
                        process.kill()
                self.assertEqual([0] * len(ranks), [process.exitcode for process in ranks])
        run.as_rank = test
        return run
