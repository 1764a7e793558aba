"""Arguments that are broken on purpose: an error or a result, never a crash. What the fuzzers found stands here, one case for each cause."""
import collections
import io
import math
import pickle
import subprocess
import sys
import time
import zipfile

import pytest

import rushlight as torch

ENDLESS = 20  # seconds of a processor, on any machine and under any sanitizer: what once looped for minutes takes a small part of that


class Changing:
    """A number whose conversion changes the list that it is in."""
    def __init__(self, target, change):
        self.target, self.change = target, change

    def __index__(self):
        self.change(self.target)
        return 1

    def __float__(self):
        return float(self.__index__())


CHANGES = [lambda x: x.clear(), lambda x: x.extend([1] * 10000), lambda x: x.__setitem__(slice(None), [object() for _ in x])]
ONES = torch.ones(1, 1, 1, 1)
READERS = [
    lambda x: ONES.view(x), lambda x: torch.zeros(x), lambda x: ONES.sum(x), lambda x: ONES.permute(x), lambda x: ONES.expand(size=x),
    lambda x: torch.tensor(x), lambda x: torch.tensor(x, dtype=torch.float32), lambda x: torch.tensor([x, [1, 1, 1, 1]]), lambda x: torch.FloatTensor(x),
    lambda x: ONES.new_tensor(x), lambda x: torch.Size(x), lambda x: torch.zeros(3).index_add(0, torch.tensor([0]), torch.ones(1)).tile(x),
    lambda x: torch._foreach_add([torch.ones(1)] * 4, x), lambda x: torch.histogramdd(torch.rand(3, 2), [2, 2], range=x), lambda x: ONES[[None, *x[:0], x]],
    lambda x: torch.nn.functional.pad(ONES, x), lambda x: torch.nn.functional.interpolate(ONES, x), lambda x: torch.randn(x), lambda x: torch.as_strided(ONES, x, x),
    lambda x: torch.set_default_dtype(torch.float32) or torch.empty(x, names=None), lambda x: ONES[x], lambda x: ONES.__setitem__(x, 1),
]


@pytest.mark.parametrize("n", range(len(READERS)))
@pytest.mark.parametrize("change", range(len(CHANGES)))
def test_lists_that_change_while_they_are_read(n, change):
    for length in (1, 2, 4, 40):
        items = []
        items.extend(Changing(items, CHANGES[change]) for _ in range(length))
        try:
            READERS[n](items)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            pass


def test_in_place_forms_that_do_not_exist():
    for name in ("where_", "item_", "argmax_", "zeros_", "sum_", "_foreach_add__"):
        with pytest.raises(AttributeError):
            getattr(torch.ops.aten, name)


def pickled(function, *arguments, protocol=2):
    class Called:
        def __reduce__(self):
            return function, arguments
    return pickle.dumps(Called(), protocol)


def archive(pickled_object):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as z:
        z.writestr("archive/data.pkl", pickled_object)
        z.writestr("archive/version", "3\n")
        z.writestr("archive/byteorder", "little")
    return io.BytesIO(file.getvalue())


MEMORY = [b"cbuiltins\nbytearray\n(J\x00\x00\x00\x70tR.", b"ctorch\nFloatTensor\n(J\x00\x00\x00\x01tR.", b"ctorch.storage\nUntypedStorage\n(J\x00\x00\x00\x70tR.",
          b"ctorch\nFloatTensor\n)R(ctorch.storage\nUntypedStorage\n)RK\x00(J\x00\x00\x00\x70tq\x00(K\x01ttb."]


@pytest.mark.parametrize("n", range(len(MEMORY)))
def test_a_pickle_makes_no_memory_of_a_number(n):
    with pytest.raises((RuntimeError, pickle.UnpicklingError, TypeError)):
        torch.load(archive(b"\x80\x02" + MEMORY[n]), weights_only=True)


@pytest.mark.parametrize("kind", [dict, set, list])
def test_keys_that_have_one_hash(kind):
    keys = [(2**61 - 1) * i for i in range(1, 20000)]
    data = pickle.dumps(dict.fromkeys(keys) if kind is dict else set(), 2) if kind is not list else pickled(collections.OrderedDict, [[k, 1] for k in keys])
    if kind is set:
        data = pickled(set, keys)
    began = time.process_time()
    with pytest.raises(pickle.UnpicklingError, match="same hash"):
        torch.load(archive(data), weights_only=True)
    assert time.process_time() - began < ENDLESS
    many = {i: 1 for i in range(5000)}
    many.update({float(i) / 3: 1 for i in range(5000)})
    many.update({(i, str(i)): 1 for i in range(5000)})
    assert torch.load(archive(pickle.dumps(many, 2)), weights_only=True) == many


def test_an_old_file_whose_storages_are_missing():
    file = io.BytesIO()
    torch.save([torch.ones(3), torch.ones(3)], file, _use_new_zipfile_serialization=False)
    data = file.getvalue()
    at = data.index(b"]", data.rindex(b"FloatStorage"))  # the list of keys
    keys = pickle.loads(data[data.rindex(b"\x80\x02", 0, at):])
    begin = data.rindex(b"\x80\x02", 0, at)
    for other in ([], keys[:1], [keys[0], keys[0]], None, {}):
        with pytest.raises((RuntimeError, EOFError)):
            torch.load(io.BytesIO(data[:begin] + pickle.dumps(other, 2) + (3).to_bytes(8, "little") + b"\0" * 100), weights_only=True)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_singular_values_of_what_is_not_finite(bad):
    x = torch.eye(4)
    x[0, 1] = bad
    for f in (torch.linalg.svd, torch.linalg.svdvals, torch.linalg.pinv, torch.svd, torch.linalg.cond, torch.linalg.matrix_rank, lambda a: torch.linalg.matrix_norm(a, 2),
              lambda a: torch.linalg.lstsq(a, a, driver="gelsd")):
        with pytest.raises(RuntimeError, match="non-finite"):
            f(x)
    assert not torch.linalg.qr(x)[1].isfinite().all() and not torch.linalg.inv(x).isfinite().all()


def test_loops_over_nothing():
    many, began = 2**40, time.process_time()
    assert torch.triu_indices(many, 4).tolist() == torch.triu_indices(4, 4).tolist() and torch.tril_indices(many, 4, -many + 1).tolist() == [[many - 1], [0]]
    assert torch.linalg.qr(torch.empty(many, 0, 5)).Q.shape == (many, 0, 0)
    with pytest.raises(RuntimeError, match="pieces"):
        torch.empty(0).chunk(2**31)
    assert torch._sample_dirichlet(torch.tensor([math.inf, 1.0])).isfinite().all()
    assert torch.binomial(torch.tensor([math.nan, math.inf]), torch.tensor([0.5, 0.5])).tolist()[1] == math.inf
    assert time.process_time() - began < ENDLESS
    wide = torch.empty((0, 4, 2**40), device="meta")
    assert torch.diff(wide, 2**62, append=wide).shape == (0, 4, 0) and torch.diff(torch.empty(0, 10**6), 10**6 - 2).shape == (0, 2)


@pytest.mark.parametrize("made, work, kilobytes", [
    ("torch.rand(2**20)", "torch.diff(x, 200)", 200 << 10),  # 200 results would be 800 MB
    ("(torch.rand(2, 20) + 2**20).requires_grad_()", "torch.mvlgamma(x, 2**20).sum().backward()", 100 << 10),  # all terms would be 160 MB
])
def test_a_long_work_takes_little_memory(made, work, kilobytes):
    code = f"""import resource, rushlight as torch
x, most = {made}, lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = most()
{work}
print(most() - before)"""
    assert int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) < kilobytes


def test_mvlgamma_by_parts():
    x = (torch.rand(3, 30, dtype=torch.float64) + 20000).requires_grad_()  # more numbers than it takes at once
    by_parts = torch.mvlgamma(x, 30000)
    one_by_one = torch.stack([torch.mvlgamma(v, 30000) for v in x.detach().flatten()]).view(3, 30)
    assert by_parts.tolist() == one_by_one.tolist()
    slope, = torch.autograd.grad(by_parts.sum(), x)
    assert torch.allclose(slope, torch.digamma(x.detach().unsqueeze(-1) - torch.arange(30000, dtype=torch.float64) / 2).sum(-1), rtol=1e-13, atol=0)


@pytest.mark.parametrize("p", [255, 256, 257, 1000])
def test_mvlgamma_of_a_large_dimension_is_the_sum_of_its_terms(p):
    inf, constant = float("inf"), p * (p - 1) / 4 * math.log(math.pi)
    x = torch.tensor([600.25, 128.25, 128.75, 100.1, 1.3, -7.9, 1e10, 127., 1e308, inf, -inf], dtype=torch.float64, requires_grad=True)
    terms = x.detach().unsqueeze(-1) - torch.arange(p, dtype=torch.float64) / 2
    result = torch.mvlgamma(x, p)
    torch.testing.assert_close(result, torch.lgamma(terms).sum(-1) + constant, rtol=1e-12, atol=1e-10)
    slope, = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(slope[:7], torch.digamma(terms).sum(-1)[:7], rtol=1e-11, atol=1e-9)


F32 = torch.ones(4, 4)
CSR, COO = F32.to_sparse_csr(), F32.to_sparse()
BROKEN = [  # what once read or wrote outside, or crashed; all are errors in some words
    "torch.abs(F32, out=COO)", "aten.rsqrt(F32, out=CSR)", "aten.threshold_backward(F32, COO, 1)", "aten.threshold_backward(COO, F32, 1)", "aten.nan_to_num(F32, out=CSR)",
    "aten._embedding_bag(F32, torch.tensor([0]), torch.tensor([0, 5, 1]), mode=1)", "aten._embedding_bag(F32, torch.tensor([0]), torch.tensor([0, -5, 1]))",
    "aten.im2col(F32[None], [3, 2**63 - 1], [1, 2], [2, 17], [2, 2])", "aten.im2col(F32[None], [1, 1], [1, 1], [2**62, 2**62], [2**62, 1])",
    "aten.col2im(F32, [2**63 - 1, 4], [2, 2], [1, 1], [0, 0], [1, 1])",
    "torch.arange(8, dtype=torch.float8_e5m2)", "torch.fft.rfftfreq(2**31 - 1, dtype=torch.float8_e4m3fn)",
    "aten._grid_integers(F32, 1e-5, 4, torch.float16)", "aten._grid_integers.channels(F32, F32, F32, torch.int16)", "aten._grid_numbers(F32.half(), 2., 1)",
    "aten._grid_numbers.channels(F32.to(torch.int16), F32, F32)",
    "aten._reshape_alias(F32, [100], [100])", "aten._reshape_alias(F32, [2], [-1])", "aten._cdist_backward(F32, F32, F32, 2., F32)",
    "aten._cdist_backward(F32[None], F32[None], F32[None, :2], 2., F32[None])", "aten._pdist_backward(F32[0], F32, 2., F32[0])", "aten._pdist_backward(F32[0], F32[0], 2., F32[0])",
    "aten.batch_norm_update_stats(F32, F32[0, :2], F32[0], .1)", "aten.batch_norm_update_stats(F32, F32[:2, :2].t(), None, .1)", "aten._scaled_dot_product_flash_attention_for_cpu(F32, F32, F32)",
    "aten._scaled_dot_product_flash_attention_for_cpu(F32[None, None], F32[None, None], F32[None, None, :2])",
    "aten._segment_reduce_backward(F32, F32, F32, 'sum', lengths=torch.tensor([1, 3, 5]), axis=0)", "aten._segment_reduce_backward(F32, F32, F32, 'sum', axis=0)",
    "aten._segment_reduce_backward(F32[:1], F32, F32, 'prod', lengths=torch.tensor([4]))", "aten._lstm_layer(F32[None], F32, F32, F32, None, False)",
    "aten._lstm_layer(torch.ones(2, 3, 16), F32, F32, torch.ones(16, 4), None, False)", "aten._lstm_layer(torch.ones(2, 4, 16), F32.double(), F32, torch.ones(16, 4), None, False)",
    "aten._gru_layer(torch.ones(2, 3, 12), F32, torch.ones(12, 4), None, True)", "aten._gru_layer(torch.ones(2, 4, 12), F32, torch.ones(12, 4), F32[0], True)",
    "aten.rnn_tanh.data(F32, torch.tensor(4), F32[None], [F32, F32], False, 1, 0., False, False)", "aten.rnn_tanh.data(F32, torch.tensor([4]), F32[None], [F32[0], F32], False, 1, 0., False, False)",
    "aten.rnn_tanh.data(F32[0], torch.tensor([4]), F32[None], [F32, F32], False, 1, 0., False, False)", "aten.rnn_relu.data(F32, torch.tensor([4]).to('meta'), F32[None], [F32, F32], False, 1, 0., False, False)",
    "aten._pack_padded_sequence(F32, torch.tensor([4, 4, 4, 4]).to('meta'), False)", "aten.vision_resize(F32[None], [])", "aten._pad_packed_sequence(F32, torch.tensor([-1]), False, 0., -1)",
    "aten.put.out(F32, torch.tensor([0]), F32[0, :1], True, out=F32.double())", "aten.index_fill.int_Scalar_out(F32.half(), 0, torch.tensor([0]), 1, out=torch.zeros(4, 4, dtype=torch.complex64))",
    "aten.index_reduce.out(F32, 0, torch.tensor([0]), F32[:1], 'amax', out=F32.double())", "aten._adaptive_avg_pool3d_backward(torch.ones(2, 2, 2, 2), torch.ones(2, 2, 2, 2, 2))",
    "aten._adaptive_avg_pool1d_backward(F32[:2, :2], torch.ones(17, 2))", "torch.arange(-2**63, 3)", "torch.arange(0, -2**63, -1)", "aten.reflection_pad2d(F32[None], [-1, 2, -2**63, -2**63])",
    "aten.replication_pad3d_backward(F32[None], F32[None], [2, -2, 1, 2**63 - 1])", "aten._pad_circular(F32[None], [2**63 - 1, 2**63 - 1])", "torch.nn.functional.pad(F32, [2, 0, 7, 2**63 - 1])",
    "aten._pad_backward(F32[None], [1, 4, 1], [9, -6], 0)", "aten._pad_backward(F32[None], [1, 4, 0], [2, 2], 2)",
    "torch.sparse_compressed_tensor(torch.tensor([0, 1]), torch.tensor([2**63 - 1]), F32[0, :1], layout=torch.sparse_csr)",
    "torch.sparse_compressed_tensor(torch.tensor([0, 1], device='meta'), torch.tensor([1], device='meta'), F32[0, :1].to('meta'), layout=torch.sparse_csr)",
    "torch.ones(4, dtype=torch.float8_e5m2).index_reduce(0, torch.tensor([0]), torch.ones(1, dtype=torch.float8_e5m2), 'amax')",
    "aten.embedding_dense_backward(F32.to(torch.float8_e5m2), torch.tensor([0, 1, 2, 3]), 4, -1, False)", "torch.lu_unpack(F32, torch.tensor([1, 2, 3, -2**31], dtype=torch.int32))",
    "aten._fused_adam_([F32], [F32], [F32], [], [], [F32[0, 0]], lr=1., beta1=.9, beta2=.9, weight_decay=0., eps=1., amsgrad=False, maximize=False)",
    "aten._fused_rmsprop_([F32], [F32], [], [], [], lr=1., alpha=.5, eps=1., weight_decay=0., momentum=0., centered=False, maximize=False)",
    "aten._pad_packed_sequence(F32[0, :1], torch.tensor([], dtype=torch.int64), True, 0., 3)", "torch.ops.rushlight.pictures(torch.zeros(1, 4, dtype=torch.uint8), [])", "torch.ops.rushlight.pictures(torch.zeros(1, 4, dtype=torch.uint8), [2, 2, 2])",
    "aten._embedding_bag_backward(F32, torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([0, 1]), torch.ones(7, 3), F32, 2, False, 1, False, None)",
    "aten._embedding_bag_backward(torch.tensor(1.), torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([0, 1]), F32, F32, 2, False, 2, False, None)", "aten._embedding_bag_dense_backward(F32[0], torch.tensor([0, 1, 2]), torch.tensor(0), F32[0], F32[0], 3, True, 5, F32[0], -2)", "aten.vision_crop(F32[None], 4, 2**63 - 1, 4, 4)", "torch.repeat_interleave(F32, 2**63 - 1, output_size=2)", "torch.repeat_interleave(torch.tensor([2**63 - 1, 2**63 - 1]))",
    "aten._to_sparse(F32, layout=torch.strided, dense_dim=1)", "aten._to_sparse(COO, layout=torch.strided)", "aten._sparse_broadcast_to(COO, [4, 7, 2, 2**62, 4, 4])",
    "F32.to_sparse().sparse_resize_and_clear_([4, 4], 2**63 - 1, 3)", "torch.take(F32, torch.tensor([2**63 - 1]))", "torch.put(F32, torch.tensor([-2**63]), torch.ones(1))",    "torch._VF.lstm(F32[None], [F32[None], F32[None]], [F32, F32], True, 2**62, 0., True, False, True)", "torch._VF.gru(F32[None], F32[None], [F32, F32], True, -2**63, 0., True, True, True)",
    "torch.kron(torch.empty(2**32, 0), torch.empty(2**32, 0))", "torch.empty(0, 0).to_sparse_bsc((2**62, 2**40))", "aten._fft_c2r(F32.to(torch.complex64), [0], 0, 2**63 - 1)", "torch.fft.fftfreq(2**63 - 1)",
    "torch.bincount(torch.tensor([2**63 - 1]))", "torch.pdist(torch.empty(2**40, 0))", "aten._pdist_backward(F32[0], torch.empty(2**40, 0), 2., F32[0])", "aten._compressed_starts(torch.tensor([0]), 1, 2**63 - 1)",
    "aten._compressed_coordinates(torch.tensor([[0, 1]]), torch.tensor([[0]]), [], [2**40, 2**40], True)",
    "torch.nn.functional.conv1d(F32[None], F32[:, :, None].expand(4, 4, 3), padding='same', dilation=2**63 - 1)",
    "torch.empty(2**63 - 1, 0, layout=torch.sparse_csr)", "F32.new_empty([2**63 - 1, 0], layout=torch.sparse_csr)",
    "torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), F32[0, :1], size=(2**63 - 1, 1))",
]


UNUSUAL = [  # what once was undefined, or took long; all have a result
    "torch.arange(-2**63, 2**63 - 1, 2**62).numel() == 4", "torch.arange(0, -2**63, -2**62).tolist() == [0, -2**62]", "torch.arange(2**63 - 3, 2**63 - 1, 5).tolist() == [2**63 - 3]",
    "torch.special.polygamma(2**63 - 1, F32.clone().requires_grad_()).sum().backward() is None", "F32.clone().requires_grad_().pow(-2**63).sum().backward() is None",
    "torch.linalg.lstsq(torch.ones(5, 0), torch.ones(5, 2)).solution.shape == (0, 2)", "torch.pdist(F32[:1]).shape == (0,)",
    "aten._upsample_bilinear2d_aa(torch.ones(1, 1, 3, 3), [3, 1], False, None, 5e-324).shape == (1, 1, 3, 1)", "aten._upsample_bicubic2d_aa(torch.ones(1, 1, 3, 7), [2, 2], False, None, 1e-5).shape == (1, 1, 2, 2)",
    "aten.upsample_nearest1d(torch.ones(1, 1, 3), [3], 1e-300).tolist() == [[[1., 1., 1.]]]", "aten.upsample_bicubic2d(torch.ones(1, 1, 3, 3), [3, 1], False, None, 1e-300).shape == (1, 1, 3, 1)",
    "torch._dirichlet_grad(F32[0, 0] / 2, -F32[0, 0] * 1e9, F32[0, 0] * 2).isnan()", "abs(torch._dirichlet_grad(F32[0].double() / 2, F32[0].double() * 1e8, F32[0].double() * 2e8)[0].item() / 5e-9 - 1) < 1e-6",
    "abs(torch._standard_gamma_grad(F32[0].double() * 1e12, F32[0].double() * 1e12)[0].item() - 1) < 1e-6", "torch.tensor([2**31 - 1], dtype=torch.int32).index_add(0, torch.tensor([0]), torch.tensor([2**31 - 1], dtype=torch.int32)).item() == -2",
    "(lambda x: torch.autograd.grad(x.tensor_split(2**16), x, [*torch.ones(2**16, 1)], create_graph=True)[0].sum() == 2**16)(torch.ones(2**16, requires_grad=True))",
    "torch.ops.aten._grid_of_range(F32[0], F32[0], 2, 2**63 - 1, True)[0].shape == (4,)",
    "torch.roll(F32.clone().requires_grad_(), -2**63, 0).sum().backward() is None",
    "torch.nn.functional.conv3d(torch.full((1, 1, 1, 1, 2), 2**62), torch.full((1, 1, 1, 1, 2), 2)).item() == 0", "torch.nn.functional.conv_transpose1d(torch.full((1, 1, 1), 2**62), torch.full((1, 1, 1), 4)).item() == 0",
    "(torch.full((4, 4), -1, dtype=torch.int16) @ torch.full((4, 4), -1, dtype=torch.int16)).tolist() == [[4] * 4] * 4",
    "torch.fft.ihfft(torch.ones(20, 4, requires_grad=True), 2**18).abs().sum().backward() is None",
    "aten.vision_adjust_hue(torch.tensor([1., 2., torch.inf]).view(3, 1, 1), 0.).shape == (3, 1, 1)",
    "torch.nn.functional.scaled_dot_product_attention(torch.ones(1, 0, 3, 4).requires_grad_(), torch.ones(1, 0, 5, 4), torch.ones(1, 0, 5, 4)).sum().backward() is None",
    "aten._grid_product(F32.to(torch.int8), -2**31, F32.to(torch.int8))[0, 0] == 4", "aten._grid_product(F32[:, :3].to(torch.int8), 2**63 - 1, F32[:, :3].to(torch.int8))[3, 3] == 6",
]


@pytest.mark.parametrize("call", UNUSUAL)
def test_what_is_unusual(call):
    began = time.process_time()
    assert eval(call, {"torch": torch, "aten": torch.ops.aten, "F32": F32})
    assert time.process_time() - began < ENDLESS


@pytest.mark.parametrize("call", BROKEN)
def test_what_does_not_fit(call):
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError)) as caught:
        eval(call, {"torch": torch, "aten": torch.ops.aten, "F32": F32, "COO": COO, "CSR": CSR})
    assert str(caught.value) and not isinstance(caught.value, SystemError)


class _Stubborn:
    """Neither true nor false, and of no length."""

    def __bool__(self):
        raise ZeroDivisionError

    __len__ = __bool__


@pytest.mark.parametrize("call", [
    lambda x, bad: torch.autograd.grad(x.sum(), x, allow_unused=bad), lambda x, bad: torch.autograd.grad(x.sum(), x, retain_graph=bad),
    lambda x, bad: torch.autograd.grad(x.sum(), x, create_graph=bad), lambda x, bad: x.sum().backward(inputs=bad), lambda x, bad: x.sum().backward(retain_graph=bad),
    lambda x, bad: setattr(x, "_backward_hooks", bad), lambda x, bad: torch.set_grad_enabled(bad), lambda x, bad: torch.autograd.set_detect_anomaly(bad),
])
@pytest.mark.parametrize("bad", [_Stubborn(), torch.ones(2).to_sparse(), torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))], ids=["object", "sparse", "uncoalesced"])
def test_arguments_that_do_not_say_whether_they_are_true(call, bad):
    x = torch.ones(3, requires_grad=True)
    hook = x.register_hook(lambda g: g * 2)
    with pytest.raises((ZeroDivisionError, RuntimeError, TypeError, AttributeError)) as caught:
        call(x, bad)
    assert not isinstance(caught.value, SystemError) and torch.is_grad_enabled() and not torch.is_anomaly_enabled()
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]  # the hook is there still
    hook.remove()


@pytest.mark.parametrize("switch, error", [
    (torch.set_grad_enabled, TypeError), (torch.autograd.set_detect_anomaly, TypeError), (torch.use_deterministic_algorithms, TypeError), (torch.set_warn_always, RuntimeError),
    (torch.autograd.set_multithreading_enabled, TypeError)])
def test_switches_take_bools_alone(switch, error):
    for x in (None, 1, "no", torch.tensor(True)):
        with pytest.raises(error, match="bool"):
            switch(x)
