"""Frozen programs give what the module gives, also where it changes tensors in place: `rushlight run --frozen`, and what `inspect --frozen` shows."""
import re
import subprocess

import numpy as np
import places
import pytest
import rushlight as torch
import rushlight.nn.functional as F


def frozen(tmp_path, f, *inputs):
    """The results of f as a frozen program, which a second run repeats, and the names of the calls that were left."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.more = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 3, padding=1)
            self.linear, self.w = torch.nn.Linear(8, 8), torch.nn.Parameter(torch.randn(8))

        def forward(self, *x):
            return f(self, *x)
    here, net = places.command(), Net().eval()
    torch.export.save(torch.export.export(net, inputs), tmp_path / "net.pt2")
    np.savez(tmp_path / "in.npz", **{f"in{i}": x.numpy() for i, x in enumerate(inputs)})
    subprocess.run([here, "run", tmp_path / "net.pt2", tmp_path / "in.npz", "--frozen", "-o", tmp_path / "out.npz"], check=True)
    with torch.no_grad():
        want = net(*[x.clone() for x in inputs])
    got = np.load(tmp_path / "out.npz")
    for i, y in enumerate(want if isinstance(want, tuple) else (want,)):
        np.testing.assert_allclose(got[f"out{i}"], y.numpy(), rtol=1e-5, atol=1e-6)
    text = subprocess.run([here, "inspect", "--frozen", tmp_path / "net.pt2"], check=True, text=True, capture_output=True).stdout
    return re.findall(r"= aten\.(\w+)", text)


def chained(net, x):
    return F.relu(F.elu(F.relu(net.linear(x), inplace=True), inplace=True), inplace=True)


def results_unused(net, x):
    y = net.linear(x)
    y.mul_(2)
    y.add_(x).sub_(net.w)
    return y, net.linear(y)


def read_before_and_after(net, x):
    y = net.linear(x)
    a = y.exp()
    y.mul_(a)
    b = y.exp()
    y.add_(b)
    return a, b, y


@pytest.mark.parametrize("f, writes", [(chained, 0), (results_unused, 0), (read_before_and_after, 0)])
def test_calls_in_place_on_what_nobody_else_sees_make_new_values(tmp_path, f, writes):
    calls = frozen(tmp_path, f, torch.randn(4, 8))
    assert sum(name.endswith("_") for name in calls) == writes and calls


def view_before(net, x):
    y = net.linear(x)
    v = y.view(2, 16)
    y.relu_()
    return v, y


def view_changed(net, x):
    y = net.linear(x)
    y.view(2, 16).relu_()
    return y


def same_object(net, x):
    y = net.linear(x)
    z = F.dropout(y, 0.5, False)  # y itself
    y.relu_()
    return z


def whole_slice(net, x):
    y = net.linear(x)
    y[1:].neg_()
    y.relu_()
    return y


def of_an_input(net, x):
    y = x.view(-1)
    y.relu_()
    return x + 1


def halves(net, x):
    y = net.linear(x)
    a, b = y.narrow(1, 0, 4), y.narrow(1, 4, 4)
    a.sigmoid_()
    return b.mul_(a), y


def of_integers(net, x):
    y = (x * 10).to(torch.int64)
    y.div_(3, rounding_mode="floor")
    y.add_(x.to(torch.int64))
    return y


def of_another_type(net, x):
    y = net.linear(x)
    y.add_(x.double())  # stays float32
    y.mul_(torch.tensor(3.0, dtype=torch.float64))
    return y


def in_a_list(net, x):
    y = net.linear(x)
    z = torch.cat([y, y])
    y.relu_()
    return z, torch.cat([y, z])


def einsum_is_a_view(net, x):
    y = net.linear(x)
    v = torch.einsum("ij->ji", y)
    y.relu_()
    return v


@pytest.mark.parametrize("f", [view_before, view_changed, same_object, whole_slice, of_an_input, halves, of_integers, of_another_type, in_a_list, einsum_is_a_view])
def test_calls_in_place_are_seen_through_all_that_shares_the_memory(tmp_path, f):
    frozen(tmp_path, f, torch.randn(4, 8))


def residual(net, x):
    y = F.relu(net.conv(x), inplace=True)
    z = F.relu(net.more(y), inplace=True)
    z += y
    return F.relu(z, inplace=True)


def test_pictures_with_relu_in_place_are_laid_out(tmp_path):
    for size in (8, 9, 1):
        calls = frozen(tmp_path, residual, torch.randn(2, 3, size, size + 1))
        assert calls.count("contiguous") == 2 and not any(name.endswith("_") for name in calls)  # there, and back


def squeezed(net, x):
    y = F.hardswish(net.conv(x), inplace=True)
    y = F.relu6(F.conv2d(y, net.more.weight[:, :1], net.more.bias, stride=2, padding=1, groups=16), inplace=True)
    return torch.flatten(F.adaptive_avg_pool2d(F.hardsigmoid(F.adaptive_avg_pool2d(y, 1), inplace=True) * y, 1), 1)


def test_channels_by_themselves_stay_last(tmp_path):
    calls = frozen(tmp_path, squeezed, torch.randn(2, 3, 13, 10))
    assert calls.count("contiguous") == 2 and not any(name.endswith("_") for name in calls)


def test_dropout_that_drops_nothing_goes(tmp_path):
    calls = frozen(tmp_path, lambda net, x: F.dropout(F.dropout(net.linear(x), 0.5, False, inplace=True).view(-1), 0.5, False), torch.randn(4, 8))
    assert calls == ["linear", "view"]


def test_pictures_of_one_channel(tmp_path):
    calls = frozen(tmp_path, lambda net, x: net.more(F.conv2d(x, net.more.weight[:, :1], padding=1)), torch.randn(2, 1, 9, 6))
    assert calls.count("contiguous") == 2
