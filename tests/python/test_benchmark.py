"""torch.utils.benchmark: tensors of drawn shapes."""
import pytest
import rushlight as torch
from rushlight.utils.benchmark import FuzzedParameter, FuzzedSparseTensor, FuzzedTensor, Fuzzer, ParameterAlias

pytest.importorskip("numpy", reason="NumPy draws")


def drawn(seed):
    return Fuzzer([FuzzedParameter("k0", 1, 10 * 1024, "loguniform"), [FuzzedParameter("k1", 1, 100, "uniform"), FuzzedParameter("s", 1, 4, "uniform")],
                   FuzzedParameter("d", 1, 2, "uniform"), FuzzedParameter("part", 0., 1., "uniform")],
                  [FuzzedTensor("x", size=("k0", "k1"), steps=("s", 1), min_elements=128, max_elements=100000, probability_contiguous=.4, dim_parameter="d"),
                   FuzzedTensor("y", size=(3, "s"), dtype=torch.int64, probability_contiguous=.2)], seed=seed)


def test_same_seed_same_tensors():
    first = [(t["x"].clone(), about, params) for t, about, params in drawn(0).take(6)]
    again = list(drawn(0).take(6))
    for (x, about, params), (tensors, about2, params2) in zip(first, again):
        assert torch.equal(x, tensors["x"]) and about == about2 and params == params2
        assert 128 <= x.numel() <= 100000 and x.dim() == params["d"] and x.shape == (params["k0"], params["k1"])[:x.dim()]
        assert about["x"]["steps"][0] == params["s"] and about["x"]["is_contiguous"] == tensors["x"].is_contiguous()
        assert tensors["y"].dtype is torch.int64 and tensors["y"].min() >= 1 and 0 <= params["part"] < 1
    assert any(about["x"]["order"] == [1, 0] for _, about, _ in first) and [p["k0"] for _, _, p in first] != [p["k0"] for _, _, p in drawn(1).take(6)]


def test_choices_aliases_and_constraints():
    fuzzer = Fuzzer([FuzzedParameter("n", 2, 9, "uniform"), FuzzedParameter("m", distribution={ParameterAlias("n"): 0.5, 1: 0.5}),
                     FuzzedParameter("strict", 0, 1, "uniform", strict=True)],
                    [FuzzedTensor("x", ("n", "m"), tensor_constructor=lambda size, dtype, n, **rest: torch.full(size, float(n), dtype=dtype))],
                    constraints=[lambda n, **rest: n % 2 == 0], seed=5)
    for tensors, _, params in fuzzer.take(20):
        assert params["n"] % 2 == 0 and params["m"] in (1, params["n"]) and (tensors["x"] == params["n"]).all() and tensors["x"].shape == (params["n"], params["m"])
    assert 0.2 < fuzzer.rejection_rate < 0.8


def test_sparse():
    fuzzer = Fuzzer([FuzzedParameter("n", 4, 9, "uniform"), FuzzedParameter("d", 1, 2, "uniform"), FuzzedParameter("c", 0, 1, "uniform"), FuzzedParameter("p", 0.1, 0.5, "uniform")],
                    [FuzzedSparseTensor("x", ("n", "n"), sparse_dim="d", density="p", coalesced="c")], seed=1)
    for tensors, about, params in fuzzer.take(12):
        x = tensors["x"]
        assert x.is_sparse and x.sparse_dim() == params["d"] == about["x"]["sparse_dim"] and x.is_coalesced() == bool(params["c"]) and x.shape == (params["n"], params["n"])
        assert abs(x._nnz() / params["n"] ** params["d"] - params["p"]) < 1 / params["n"] ** params["d"] + 1e-9


@pytest.mark.parametrize("make, error, told", [
    (lambda: FuzzedParameter("a", 1, 2), AssertionError, "Unknown distribution: None"), (lambda: FuzzedParameter("a", distribution={1: 0.5}), ValueError, "sum to one"),
    (lambda: FuzzedParameter("a", 1, 2, distribution={1: 1.}), ValueError, "no minval"),
    (lambda: Fuzzer([FuzzedParameter("a", 1, 2, "uniform")], [FuzzedTensor("a", (3,))]), ValueError, "Duplicate names"),
    (lambda: next(Fuzzer([], [FuzzedTensor("a", (3,), min_elements=4)]).take(1)), ValueError, "valid parameters")])
def test_what_is_wrong(make, error, told):
    with pytest.raises(error, match=told):
        make()
