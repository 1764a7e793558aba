"""Small things for launchers: torch.distributed.elastic.utils and argparse_util. Numbers are PyTorch's."""
import argparse

import pytest
from rushlight.distributed.argparse_util import check_env, env
from rushlight.distributed.elastic import utils
from rushlight.distributed.elastic.utils import data, distributed, logging


def test_options_of_the_environment(monkeypatch):
    for name, value in (("FOO", "e"), ("N", "4"), ("V", "0"), ("W", "1")):
        monkeypatch.setenv("PET_" + name, value)
    p = argparse.ArgumentParser()
    p.add_argument("-f", "--foo", action=env, default="b")
    p.add_argument("--n", action=env, type=int, required=True)
    p.add_argument("--no-such", action=env, type=int, default=3)
    for flag in "vwu":
        p.add_argument("--" + flag, action=check_env)
    assert vars(p.parse_args([])) == {"foo": "e", "n": 4, "no_such": 3, "v": False, "w": True, "u": False}
    assert vars(p.parse_args(["--foo", "z", "--v", "--n", "9"])) == {"foo": "z", "n": 9, "no_such": 3, "v": True, "w": True, "u": False}


def test_names_ports_and_stores(monkeypatch):
    with pytest.raises(ValueError, match="Environment variable XYZ expected, but not set"):
        utils.get_env_variable_or_raise("XYZ")
    assert utils.macros.substitute(["a", "${local_rank}", "--x=${local_rank}b", "$y"], "3") == ["a", "3", "--x=3b", "$y"]
    store = distributed.create_c10d_store(True, "localhost", distributed.get_free_port())
    store.set("a", "b")
    other = distributed.create_c10d_store(False, "localhost", store.port, wait_for_workers=False)
    assert other.get("a") == b"b" and distributed.create_c10d_store(True, "localhost").port > 0
    assert (logging.get_logger().name, logging.get_logger("abc").level) == (__name__, 30)
    monkeypatch.setenv("LOGLEVEL", "INFO")
    assert logging.get_logger("abc").level == 20


def test_data_of_processes_that_come_and_go():
    assert list(data.CyclingIterator(2, lambda epoch: iter([epoch, 1, 2]))) == [0, 1, 2, 1, 1, 2] and list(data.CyclingIterator(2, lambda epoch: [epoch], 1)) == [1]
    sampler = data.ElasticDistributedSampler(list(range(10)), 2, 0, start_index=4)
    assert (len(sampler), list(sampler), sampler.total_size) == (3, [6, 7, 5], 6)
    sampler.set_epoch(1)
    assert list(sampler) == [5, 6, 7] and list(data.ElasticDistributedSampler(list(range(11)), 3, 2, start_index=1)) == [8, 10, 7, 2]
    with pytest.raises(ValueError, match="Start index 10 should be less than dataset size 10"):
        data.ElasticDistributedSampler(list(range(10)), 2, 0, start_index=10)
