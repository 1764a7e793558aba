"""torch.ao.pruning: masks by norms and their schedules. The masks and levels are PyTorch's."""
import pytest
import rushlight as torch
from rushlight import nn
from rushlight.ao import pruning


def masked(sparsifier, shape, seed):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(shape[1], shape[0]))
    sparsifier.prepare(net, [{"tensor_fqn": "0.weight"}])
    sparsifier.step()
    return net, ["".join(map(str, row)) for row in net[0].parametrizations.weight[0].mask.int().tolist()]


@pytest.mark.parametrize("shape, seed, given, mask", [
    ((5, 7), 0, (.55, (1, 1), 1), "0111000 1000011 0001100 1010011 1001101"), ((5, 7), 1, (.5, (2, 3), None), "0001110 0001110 0001110 0001110 1111111"),
    ((4, 10), 2, (.35, (1, 4), None), "0000111111 1111111111 1111000011 1111000000"), ((7, 3), 3, (.45, (4, 4), None), "111 111 111 111 000 000 000")])
def test_smallest_norms_go(shape, seed, given, mask):
    net, found = masked(pruning.WeightNormSparsifier(*given), shape, seed)
    assert found == mask.split()
    before = net[0].weight.clone()
    assert ((before == 0) == (net[0].parametrizations.weight[0].mask == 0)).all()


def test_a_part_of_each_block_goes():
    net, found = masked(pruning.WeightNormSparsifier(1., (1, 4), 2), (4, 8), 0)
    assert all(row[:4].count("0") == row[4:].count("0") == 2 for row in found)
    small = net[0].parametrizations.weight.original.detach().abs().reshape(-1, 4)
    kept = net[0].parametrizations.weight[0].mask.reshape(-1, 4).bool()
    assert all(a[~k].max() <= a[k].min() for a, k in zip(small, kept))
    assert masked(pruning.WeightNormSparsifier(0.5, (1, 1), norm=lambda x: -x.abs()), (4, 8), 0)[1] != masked(pruning.WeightNormSparsifier(0.5, (1, 1), norm=1), (4, 8), 0)[1]


def test_diagonals():
    assert masked(pruning.NearlyDiagonalSparsifier(3), (4, 6), 0)[1] == ["110000", "111000", "011100", "001110"]
    assert masked(pruning.NearlyDiagonalSparsifier(), (3, 3), 0)[1] == ["100", "010", "001"]


def levels(make, steps):
    net = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 4))
    sparsifier = pruning.WeightNormSparsifier(0.8, (1, 1))
    sparsifier.prepare(net, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "1.weight", "sparsity_level": 0.4}])
    schedule = make(sparsifier)
    found = [[g["sparsity_level"] for g in sparsifier.groups]]
    for _ in range(steps):
        sparsifier.step()
        schedule.step()
        found.append([round(g["sparsity_level"], 5) for g in sparsifier.groups])
    assert [round(x, 5) for x in schedule.get_last_sl()] == found[-1]
    return found


def test_schedules():
    assert levels(lambda s: pruning.LambdaSL(s, lambda epoch: 0.9 ** epoch), 3)[1:] == [[0.72, 0.36], [0.648, 0.324], [0.5832, 0.2916]]
    assert levels(lambda s: pruning.CubicSL(s, delta_t=1, total_t=5), 6) == [[0, 0], [0.3904, 0.1952], [0.6272, 0.3136], [0.7488, 0.3744], [0.7936, 0.3968], [0.8, 0.4], [0.8, 0.4]]
    late = levels(lambda s: pruning.CubicSL(s, init_sl=[0.1, 0.3], init_t=2, delta_t=1, total_t=4, initially_zero=True), 4)
    assert late == [[0, 0], [0, 0], [0.1, 0.3], [0.50469, 0.35781], [0.7125, 0.3875]]


def test_a_schedule_goes_on_after_loading():
    net = nn.Sequential(nn.Linear(4, 4))
    sparsifier = pruning.WeightNormSparsifier(0.8, (1, 1))
    sparsifier.prepare(net, None)
    one = pruning.CubicSL(sparsifier, delta_t=1, total_t=9)
    one.step()
    kept = dict(one.state_dict())
    want = [one.step() or one.get_last_sl() for _ in range(3)]
    other = pruning.CubicSL(sparsifier, delta_t=1, total_t=9)
    other.load_state_dict(kept)
    assert [other.step() or other.get_last_sl() for _ in range(3)] == want


@pytest.mark.parametrize("make, error, told", [
    (lambda: pruning.WeightNormSparsifier(norm=7), NotImplementedError, "L-7 is not yet implemented"),
    (lambda: masked(pruning.WeightNormSparsifier(1., (1, 4), 9), (4, 4), 0), ValueError, "more than the total"),
    (lambda: masked(pruning.NearlyDiagonalSparsifier(4), (4, 4), 0), ValueError, "odd number"), (lambda: masked(pruning.NearlyDiagonalSparsifier(9), (4, 4), 0), ValueError, "larger than"),
    (lambda: levels(lambda s: pruning.LambdaSL(s, [abs]), 1), ValueError, "Expected 2 lr_lambdas, but got 1"), (lambda: levels(lambda s: pruning.CubicSL(s, init_sl=[0.]), 1), ValueError, "Expected")])
def test_what_is_wrong(make, error, told):
    with pytest.raises(error, match=told):
        make()
