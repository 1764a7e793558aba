"""Tests of distributed tensors."""
import functools

import rushlight as torch
import rushlight.distributed as dist

from ...common_distributed import MultiProcessTestCase

NUM_DEVICES = 4


class DTensorTestBase(MultiProcessTestCase):
    """Each rank of a test that is decorated by with_comms has a mesh of all."""

    @property
    def world_size(self):
        return NUM_DEVICES

    @property
    def device_type(self):
        return "cuda" if torch.cuda.is_available() and torch.cuda.device_count() >= self.world_size else "cpu"

    def build_device_mesh(self):
        return dist.device_mesh.init_device_mesh(self.device_type, (self.world_size,))

    def init_pg(self):
        dist.init_process_group("gloo", init_method=self.init_method(), rank=self.rank, world_size=self.world_size)

    def destroy_pg(self):
        dist.barrier()
        dist.destroy_process_group()


def with_comms(test):
    """A decorator: the group of all ranks, before and after the test."""
    @functools.wraps(test)
    def run(self, *args, **kwargs):
        self.init_pg()
        test(self, *args, **kwargs)
        self.destroy_pg()
    return run
