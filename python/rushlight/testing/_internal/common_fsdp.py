"""Tests of sharded models."""
import rushlight.distributed as dist

from .common_distributed import MultiProcessTestCase


class FSDPTest(MultiProcessTestCase):
    """Each rank has the group of all, of GPUs if there are enough of them."""

    @property
    def world_size(self):
        import rushlight as torch
        return min(torch.cuda.device_count(), 8) if torch.cuda.is_available() else 2

    @property
    def process_group(self):
        return dist.distributed_c10d._get_default_group()

    def setUpRank(self):
        dist.init_process_group("gloo", init_method=self.init_method(), rank=self.rank, world_size=self.world_size)

    def run_subtests(self, subtest_config, test_fn, *test_args, **test_kwargs):
        """test_fn with each combination of the values that the names of the dict may have."""
        import itertools
        for values in itertools.product(*subtest_config.values()):
            chosen = dict(zip(subtest_config, values))
            with self.subTest(**chosen):
                test_fn(*test_args, **test_kwargs, **chosen)
            dist.barrier()
