"""What test suites of other packages import: torch.testing._internal, and what programs find in the whole process."""
import subprocess
import sys
import unittest

import pytest

import rushlight as torch
from rushlight.testing._internal import common_device_type as device_type, common_utils as utils


def cases(cls):
    return sorted(name for name in dir(cls) if name.startswith("test"))


class Parametrized(utils.TestCase):
    __test__ = False

    @utils.parametrize("x,y", [(1, 2), (3, 4)])
    def test_two(self, x, y):
        assert y == x + 1

    @utils.parametrize("x", [1, 2.5])
    @utils.parametrize("y", ["a", torch.float32, None])
    def test_product(self, x, y):
        assert (x, y) not in self.seen
        self.seen.append((x, y))

    @utils.parametrize("x", [utils.subtest(1, name="one"), utils.subtest((2,), decorators=[unittest.expectedFailure])])
    def test_subtests(self, x):
        assert x == 1


class Devices(utils.TestCase):
    __test__ = False

    @device_type.dtypes(torch.float32, torch.int64)
    @utils.parametrize("n", [1, 2])
    def test_dtype(self, device, dtype, n):
        assert torch.zeros(n, device=device, dtype=dtype).dtype == dtype

    @device_type.onlyCUDA
    def test_elsewhere(self, device):
        raise AssertionError

    @device_type.precisionOverride({torch.float32: 0.5})
    @device_type.dtypes(torch.float32, torch.float64)
    def test_precision(self, device, dtype):
        self.assertEqual(torch.tensor(1.0, dtype=dtype), torch.tensor(1.4, dtype=dtype))

    @device_type.skipCPUIf(True, "not here")
    def test_skipped(self, device):
        raise AssertionError


def run(cls):
    """Name -> how it ended."""
    result = {}
    for test in unittest.defaultTestLoader.loadTestsFromTestCase(cls):
        outcome = unittest.TestResult()
        test.run(outcome)
        result[test._testMethodName] = ("failure" if outcome.failures or outcome.errors else "skip: " + outcome.skipped[0][1] if outcome.skipped
                                        else "expected failure" if outcome.expectedFailures else "success")
    return result


def test_parametrized_tests():
    Parametrized.seen = []
    utils.instantiate_parametrized_tests(Parametrized)
    ended = run(Parametrized)
    assert ended == {"test_two_x_1_y_2": "success", "test_two_x_3_y_4": "success", "test_product_x_1_y_a": "success",
                     "test_product_x_1_float32": "success", "test_product_x_1_y2": "success", "test_product_x_2_5_y_a": "success",
                     "test_product_x_2_5_float32": "success", "test_product_x_2_5_y2": "success", "test_subtests_one": "success",
                     "test_subtests_x_2": "expected failure"}
    assert len(Parametrized.seen) == 6


def test_tests_of_each_device():
    scope = {"Devices": Devices}
    device_type.instantiate_device_type_tests(Devices, scope, only_for="cpu")
    assert list(scope) == ["DevicesCPU"]
    assert run(scope["DevicesCPU"]) == {
        "test_dtype_n_1_cpu_float32": "success", "test_dtype_n_1_cpu_int64": "success", "test_dtype_n_2_cpu_float32": "success",
        "test_dtype_n_2_cpu_int64": "success", "test_elsewhere_cpu": "skip: Only runs on cuda", "test_precision_cpu_float32": "success",
        "test_precision_cpu_float64": "failure", "test_skipped_cpu": "skip: not here"}


@pytest.mark.parametrize("x,y,options,equal", [
    (1, 1.0, {}, True), (1.0, 1.1, {}, False), (torch.ones(2), [1, 1], {}, True), (torch.ones(2), torch.ones(2).double(), {}, False),
    (torch.ones(2), torch.ones(2).double(), {"exact_dtype": False}, True), (torch.ones(2), torch.ones(2) + 1e-3, {"atol": 1e-2, "rtol": 0}, True),
    ({"a": torch.ones(2)}, {"a": torch.zeros(2)}, {}, False), ((1, 2), [1, 2], {}, True), ([1], [1, 2], {}, False), (None, 1, {}, False),
    (float("nan"), float("nan"), {}, True), (torch.tensor(2), 2, {}, True), ("a", "b", {}, False), (torch.eye(2), torch.eye(2).to_sparse(), {}, True)])
def test_assert_equal(x, y, options, equal):
    case = utils.TestCase()
    if equal:
        case.assertEqual(x, y, **options)
    else:
        with pytest.raises(AssertionError):
            case.assertEqual(x, y, **options)
        case.assertNotEqual(x, y, **options)


@pytest.mark.parametrize("call", [
    lambda: torch.sum(torch.ones(2, 2), 0, dtype=torch.float64, out=torch.empty(2)), lambda: torch.zeros(3, dtype=torch.float64, out=torch.empty(3)),
    lambda: torch.cumsum(torch.ones(2), 0, dtype=torch.float64, out=torch.empty(2)), lambda: torch.zeros(3, device="meta", out=torch.empty(3)),
    lambda: torch.randperm(3, dtype=torch.int32, out=torch.empty(3, dtype=torch.int64)),
    lambda: torch.zeros(3, layout=torch.sparse_coo, out=torch.empty(3))])
def test_out_of_another_kind(call):
    with pytest.raises(RuntimeError, match="out "):
        call()


def test_saving_to_an_open_file_flushes_it(tmp_path):
    for zipped in (True, False):
        with open(tmp_path / "file", "wb") as f:
            torch.save(torch.ones(100000), f, _use_new_zipfile_serialization=zipped)
            assert torch.load(tmp_path / "file").sum() == 100000


def test_fused_modules_compute_the_same():
    from rushlight.ao.quantization import fuse_modules, fuse_modules_qat
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2), torch.nn.ReLU())
    net[1].running_mean.fill_(0.5)
    x = torch.randn(2, 1, 3, 3)
    fused = fuse_modules(net.eval(), ["0", "1", "2"])
    assert [type(part).__name__ for part in fused] == ["ConvReLU2d", "Identity", "Identity"]
    torch.testing.assert_close(fused(x), net(x))
    assert type(fuse_modules_qat(net.train(), ["0", "1", "2"])[0]).__name__ == "ConvBnReLU2d"
    with pytest.raises(AssertionError, match="did not find fuser method"):
        fuse_modules(net, ["2", "0"])


def test_settings():
    config = torch._inductor.config
    assert config.triton.cudagraphs is False
    with config.patch({"triton.cudagraphs": True}, max_autotune=True):
        assert config.triton.cudagraphs is True and config.max_autotune is True
    assert config.triton.cudagraphs is False and config.max_autotune is False
    torch._dynamo.config.cache_size_limit = 64
    assert torch._dynamo.config.recompile_limit == 64
    torch._dynamo.config.recompile_limit = 8
    with pytest.raises(AttributeError, match="does not exist"):
        config.no_such_setting


ONCE = """
import warnings
import rushlight as torch
x = torch.ones(2)
for call in (lambda: torch.add(x, 2, x), lambda: x.addcmul(1, x, x), lambda: torch.cholesky(torch.eye(2)), lambda: torch.lu(torch.eye(2)),
             lambda: torch.qr(torch.eye(2)), lambda: torch.triangular_solve(torch.ones(2, 1), torch.eye(2)),
             lambda: torch.chain_matmul(torch.eye(2), torch.eye(2)), lambda: torch.ones(2, 3, 2).T, lambda: torch.meshgrid(x, x)):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
        call()
        print(*(str(w.message)[:30].split(chr(10))[0] for w in seen), sep="|")
"""


def test_warnings_given_once():
    said = subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["This overload of add is deprec", "", "torch.cholesky is deprecated i", "torch.lu is deprecated in favo", "torch.qr is deprecated in favo",
                    "torch.triangular_solve is depr", "torch.chain_matmul is deprecat", "The use of `x.T` on tensors of", "torch.meshgrid: in an upcoming"]
