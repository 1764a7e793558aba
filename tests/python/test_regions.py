"""Boxes and regions of pictures under torchvision's names: numbers are those of torchvision 0.28 on PyTorch 2.13."""
import pytest
import rushlight as torch
from rushlight.autograd import gradcheck

ops = torch.ops.torchvision


def numbers(n, scale=1., shift=0.):
    return torch.frac(torch.arange(n, dtype=torch.float64) * 0.61803398875) * scale + shift


def pictures(dtype):
    return numbers(2 * 8 * 9 * 7).view(2, 8, 9, 7).to(dtype)


def regions(dtype):
    r = numbers(6 * 5, 9).view(6, 5)
    r[:, 0] = torch.arange(6) % 2
    r[:, 3:] = r[:, 1:3] + r[:, 3:] * 0.8
    r[0, 1:] = torch.tensor([-4., -5, 20, 30])
    r[1, 3:] = r[1, 1:3] - 1
    return r.to(dtype)


def told(t, step):
    return [round(v, 4) for v in t.double().flatten()[::step].tolist()]


CASES = {"roi_align": (1., 3, 2, 2, True), "roi_align adaptive": (.73, 3, 2, -1, False), "roi_pool": (1., 3, 2), "roi_pool smaller": (.6, 2, 3),
         "ps_roi_align": (1., 2, 2, 2), "ps_roi_align adaptive": (.6, 2, 2, -1), "ps_roi_pool": (1., 2, 2), "ps_roi_pool smaller": (.6, 2, 2)}
WANTED = {
    'roi_align': ((6, 8, 3, 2), [0.0854, 0.0, 0.5733, 0.7714, 0.3424, 0.0, 0.0, 0.0, 0.0, 0.1266], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0001, 0.0, 0.2925], None),
    'roi_align adaptive': ((6, 8, 3, 2), [0.2501, 0.0, 0.5236, 0.5205, 0.4335, 0.4954, 0.3493, 0.0, 0.7941, 0.552], [0.0, 0.0075, 0.2791, 0.0056, 0.0072, 0.0053, 0.003, 0.0, 0.3208, 0.0, 0.0, 0.0, 0.0545], None),
    'roi_pool': ((6, 8, 3, 2), [0.9787, 0.0, 0.1122, 0.7929, 0.0, 0.0, 0.0, 0.0, 0.0, 0.7616], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [21, -1, 27, 27, -1, -1, -1, -1, -1, 59]),
    'roi_pool smaller': ((6, 8, 2, 3), [0.9787, 0.0, 0.5499, 0.2306, 0.933, 0.8843, 0.565, 0.928, 0.9907, 0.9075], [0.0, 0.0, 0.0, 0.5967, 0.0, 0.0, 0.8115, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [21, -1, 18, 18, 18, 33, 33, 55, 54, 56]),
    'ps_roi_align': ((6, 2, 2, 2), [0.1141, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0, 5]),
    'ps_roi_align adaptive': ((6, 2, 2, 2), [0.2881, 0.4924], [0.0, 0.0121, 0.0071, 0.0036, 0.0413, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0, 5]),
    'ps_roi_pool': ((6, 2, 2, 2), [0.4994, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0, 5]),
    'ps_roi_pool smaller': ((6, 2, 2, 2), [0.5279, 0.4018], [0.0, 0.0386, 0.0066, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0, 5]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", CASES)
def test_regions(case, dtype):
    x = pictures(dtype).requires_grad_()
    y = getattr(ops, case.split()[0])(x, regions(dtype), *CASES[case])
    y, index = y if isinstance(y, tuple) else (y, None)
    (y.nan_to_num() * numbers(y.numel()).view(y.shape).to(dtype)).sum().backward()
    shape, values, gradient, places = WANTED[case]
    assert tuple(y.shape) == shape and (None if index is None else index.flatten()[::29].tolist()) == places
    assert told(y, 29) == pytest.approx(values, abs=2e-4) and told(x.grad.nan_to_num(), 83) == pytest.approx(gradient, abs=2e-4)


@pytest.mark.parametrize("case", ["roi_align", "roi_align adaptive", "roi_pool", "ps_roi_align"])
def test_gradients(case):
    def first(x):
        y = getattr(ops, case.split()[0])(x, regions(torch.float64), *CASES[case])
        return y[0] if isinstance(y, tuple) else y
    assert gradcheck(first, (pictures(torch.float64).requires_grad_(),))


def test_non_maximum_suppression():
    b, s = numbers(4 * 40, 30).view(40, 4), numbers(40, 7.3).frac()
    b[:, 2:] = b[:, :2] + b[:, 2:] * .6 + 1
    got = [ops.nms(b, s, .3).tolist(), ops.nms(b.float(), s.float(), .1).tolist(), ops.qnms(b.to(torch.uint8), (s * 100).to(torch.uint8), .3).tolist()]
    assert got == [
        [15, 30, 18, 8, 11, 36, 14, 39, 5, 23, 38, 26, 10, 25, 28, 0],
        [15, 30, 18, 8, 36, 29, 5, 23, 26, 28],
        [15, 30, 18, 8, 11, 36, 14, 39, 5, 23, 26, 10, 25, 28, 21, 0]]
    assert ops.nms(torch.zeros(0, 4), torch.zeros(0), .5).tolist() == []


def test_quantized():
    q, r = (pictures(torch.float32)[:1] * 200).to(torch.uint8), (regions(torch.float32) * 10 + 60).clamp(0, 255).to(torch.uint8)
    r[:, 0] = 60
    assert ops.qroi_align(q, r, .5, 3, .1, 60, 1., 3, 2, 2, True).flatten()[::17].tolist() == [30, 3, 3, 131, 72, 94, 151, 117, 129, 3, 3, 3, 3, 3, 3, 56, 70]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_deformable_convolution(dtype):
    p = [numbers(2 * 6 * 7 * 6).view(2, 6, 7, 6), numbers(4 * 3 * 3 * 2, 1, -.5).view(4, 3, 3, 2), numbers(2 * 24 * 3 * 5, 4, -2).view(2, 24, 3, 5),
         numbers(2 * 12 * 3 * 5).view(2, 12, 3, 5), numbers(4)]
    p = [v.to(dtype).requires_grad_() for v in p]
    how = (2, 1, 1, 0, 2, 1, 2, 2, True)
    y = ops.deform_conv2d(*p, *how)
    w = numbers(y.numel()).view(y.shape).to(dtype)
    (y * w).sum().backward()
    assert tuple(y.shape) == (2, 4, 3, 5) and told(y, 23) == pytest.approx([0.1066, 0.5835, 0.5818, 0.3219, 0.1044, 1.1539], abs=2e-4)
    wanted = [[-0.0053, -0.0619, -0.0191, 0.0115, -0.0881, -0.1301], [2.8875, 2.6919, 2.3526, 2.0665, 2.4154, 3.1273], [0.0, 0.0901, -0.0136, 0.0113, -0.096], [0.0, 0.0, 0.001, 0.1363, 0.0], [14.0177, 15.133, 14.2483, 16.3636]]
    for t, values in zip(p, wanted):
        assert told(t.grad, max(1, t.numel() // 5)) == pytest.approx(values, abs=2e-3)
    for t, g in zip(p, ops._deform_conv2d_backward(w, *p, *how)):
        torch.testing.assert_close(t.grad, g)


def test_turned_boxes():
    a, b = torch.tensor([[0., 0, 4, 2, 30], [1, 1, 2, 2, 45], [0, 0, 0, 2, 0]]), torch.tensor([[0., 0, 4, 2, 30], [.5, 0, 4, 2, -60], [9, 9, 1, 1, 0], [1, 1, 2, 2, 0]])
    wanted = [1.0, 0.33333, 0.0, 0.10647, 0.11546, 0.41974, 0.0, 0.70711, 0.0, 0.0, 0.0, 0.0]
    for dtype in (torch.float32, torch.float64):
        assert ops.box_iou_rotated(a.to(dtype), b.to(dtype)).flatten().tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("call", [
    lambda x, r: ops.roi_align(x, r[:, :4], 1., 2, 2, 2, True), lambda x, r: ops.roi_align(x[0], r, 1., 2, 2, 2, True), lambda x, r: ops.roi_align(x, r.double(), 1., 2, 2, 2, True),
    lambda x, r: ops.roi_align(x, r + 2, 1., 2, 2, 2, True), lambda x, r: ops.roi_align(x, r * float("nan"), 1., 2, 2, 2, True), lambda x, r: ops.roi_align(x, r, 1., 0, 2, 2, True),
    lambda x, r: ops.roi_align(x, r, 1., 2, 2, 2**40, True), lambda x, r: ops.roi_align(x, r * 1e30, 1., 2, 2, 0, True), lambda x, r: ops.ps_roi_pool(x, r, 1., 3, 3),
    lambda x, r: ops._roi_pool_backward(x, r, x.int(), 1., 2, 2, 2, 8, 9, 7), lambda x, r: ops.roi_pool(x[:, :, :0], r, 1., 2, 2),
    lambda x, r: ops.nms(r, r[:, 0], .5), lambda x, r: ops.nms(r[:, :4], r[:3, 0], .5), lambda x, r: ops.nms(r[:, :4], r[:, 0].double(), .5),
    lambda x, r: ops.deform_conv2d(x, x, x, x, r[0], 1, 1, 0, 0, 1, 1, 1, 1, True), lambda x, r: ops.deform_conv2d(x, x[:, :, :3, :3], x, x, r[0], 0, 1, 0, 0, 1, 1, 1, 1, False)])
def test_refused(call):
    with pytest.raises((RuntimeError, IndexError, NotImplementedError)):
        call(pictures(torch.float32), regions(torch.float32))


def test_sizes_that_no_number_holds():
    """Of tensors without elements, whose sides may be of any length."""
    huge = torch.empty(0, 0, 2**20, 2**20)
    for x, weight, parts in ((torch.empty(0, 0, 9, 9), huge, 1), (torch.empty(0, 0, 9, 9), torch.empty(0, 0, 3, 3), 2**60), (huge, huge, 2**62),
                             (torch.empty(2**40, 0, 9, 9), torch.empty(0, 0, 3, 3), 2**30)):
        with pytest.raises(RuntimeError):
            ops.deform_conv2d(x, weight, torch.empty(x.shape[0], 0, 7, 7), torch.empty(0), torch.empty(0), 1, 1, 0, 0, 2**30, 1, 1, parts, False)


def test_infinite_boxes_are_no_trouble():
    x, r = pictures(torch.float32), regions(torch.float32)
    r[0, 3], r[1, 1], r[2, 2] = float("inf"), float("nan"), float("-inf")
    assert ops.roi_pool(x, r, 1., 2, 2)[0].shape == (6, 8, 2, 2) and ops.ps_roi_pool(x, r, 1., 2, 2)[0].shape == (6, 2, 2, 2)
    assert ops.roi_align(x, r, 1., 2, 2, 2, True).shape == (6, 8, 2, 2)


def test_a_package_may_register_its_rules_for_sizes():
    """torchvision does for what it has in C++: the library has rules of its own, and no other call is slower for it."""
    with torch.library._scoped_library("torchvision", "IMPL") as library:
        library.impl("roi_align", lambda *a: 1 / 0, "Meta")
        assert ops.roi_align(pictures(torch.float32).to("meta"), regions(torch.float32).to("meta"), 1., 2, 2, 2, True).shape == (6, 8, 2, 2)


def test_a_kernel_somewhere_leaves_composites_alone():
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("sinc", lambda x: x, "CPU")
        x = torch.tensor([.5, -1.], requires_grad=True)
        assert torch.nn.functional.logsigmoid(x).tolist() == pytest.approx([-.474077, -1.313262])
        assert torch.nn.functional.binary_cross_entropy_with_logits(x, torch.ones(2)).item() == pytest.approx(.893669)
