"""Convolutions of a CUDA device against the CPU, with their gradients: python3 -m rushlight tests/gpu/convolution.py [WORD...]

On an NVIDIA device, where cuDNN computes them, or an emulated one (RUSHLIGHT_CUDA=emulated, as tests/python/test_cuda.py runs it). The words
float64, float32, float16 and bfloat16 choose dtypes. The word "time" prints how long those of common networks take, instead; PyTorch runs
this file, too, for the other column.
"""
import sys
import threading
import time

import torch
import torch.nn.functional as F

PLAIN, UP = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}, {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
# (batch, channels in, out, space, kernel, arguments); "up": transposed
CASES = [(2, 3, 4, (9, 11), (3, 3), {"padding": 1}), (2, 3, 5, (9, 11), (1, 1), {}), (2, 8, 16, (12, 10), (3, 2), {"stride": (2, 3), "padding": (1, 0)}),
         (1, 3, 8, (23, 23), (7, 7), {"stride": 2, "padding": 3}), (2, 4, 6, (9, 11), (3, 2), {"groups": 2, "padding": (0, 1), "dilation": (1, 2)}),
         (2, 6, 6, (9, 7), (3, 3), {"groups": 6, "padding": 1}), (2, 4, 8, (9, 8), (3, 3), {"groups": 4, "stride": 2}), (2, 3, 2, (6, 6), (3, 3), {"padding": 4}),
         (1, 1, 1, (1, 1), (1, 1), {}), (3, 2, 2, (5, 5), (5, 5), {}), (2, 3, 4, (16, 16), (3, 3), {"dilation": 3, "padding": 3, "stride": 2}), (2, 4, 4, (8, 8), (1, 1), {"stride": 2}),
         (2, 3, 4, (17,), (3,), {"padding": 1}), (2, 4, 6, (20,), (4,), {"stride": 3, "groups": 2, "dilation": 2}), (1, 1, 2, (30,), (1,), {}),
         (1, 2, 3, (5, 6, 7), (3, 3, 3), {"padding": 1}), (2, 4, 4, (5, 6, 7), (3, 2, 1), {"stride": (2, 2, 1), "groups": 2, "dilation": (2, 1, 1), "padding": (1, 0, 0)}),
         (2, 3, 4, (5, 6), (3, 3), {"up": True}), (2, 4, 6, (5, 6), (3, 2), {"up": True, "stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2), "groups": 2}),
         (2, 4, 2, (4, 4), (2, 2), {"up": True, "stride": 2}), (1, 3, 2, (5, 5), (3, 3), {"up": True, "stride": 2, "dilation": 3, "output_padding": 2}),
         (2, 3, 4, (9,), (3,), {"up": True, "stride": 2, "output_padding": 1}), (1, 2, 3, (3, 4, 3), (2, 2, 2), {"up": True, "stride": 2, "padding": 1})]
LARGE = [(16, 64, 64, (56, 56), (3, 3), {"padding": 1}), (8, 3, 64, (112, 112), (7, 7), {"stride": 2, "padding": 3}), (8, 64, 256, (28, 28), (1, 1), {}),
         (8, 128, 128, (28, 28), (3, 3), {"padding": 1, "groups": 32}), (8, 96, 96, (28, 28), (7, 7), {"padding": 3, "groups": 96}), (4, 16, 32, (8, 28, 28), (3, 3, 3), {"padding": 1}),
         (4, 64, 32, (14, 14), (4, 4), {"up": True, "stride": 2, "padding": 1}), (8, 80, 384, (500,), (3,), {"padding": 1})]
CLOSE = {torch.float64: 1e-12, torch.float32: 3e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2} # of the largest number
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def results(x, w, b, g, how, device, dtype, layout):
    """The result and the gradients of image, weight and bias, in float64 on the CPU."""
    x, w, b, g = (t.to(dtype).to(device) for t in (x, w, b, g))
    if layout in ("last", "last weight") and x.dim() in LAST:
        x, w = x if layout == "last weight" else x.to(memory_format=LAST[x.dim()]), w.to(memory_format=LAST[x.dim()])
    if layout == "holes": # every other channel of a larger image, and every other image of a larger gradient
        x = torch.stack((x, x), 2).flatten(1, 2)[:, ::2]
        g = torch.stack((g, g), 1).flatten(0, 1)[::2]
    if layout == "aside": # the first element is not where 16 bytes begin
        x, w = (torch.cat((t.flatten()[:1], t.flatten()))[1:].view(t.shape) for t in (x, w))
    x, w, b = (t.detach().requires_grad_() for t in (x, w, b))
    how = dict(how)
    f = (UP if how.pop("up", False) else PLAIN)[x.dim() - 2]
    y = f(x, w, b, **how)
    assert y.dtype == dtype and y.device.type == device
    if layout == "last" and x.dim() in LAST and min(y.shape[1:]) > 1: # a weight of one pixel or channel says nothing
        assert y.is_contiguous(memory_format=LAST[x.dim()]), layout
    return [t.detach().cpu().double() for t in (y, *torch.autograd.grad(y, (x, w, b), g))]


def arguments(case, dtype):
    n, c, out, space, kernel, how = case
    weight = (c, out // how.get("groups", 1)) if how.get("up") else (out, c // how.get("groups", 1))
    x, w, b = (t.to(dtype).double() for t in (torch.randn(n, c, *space), torch.randn(*weight, *kernel), torch.randn(out)))
    plain = dict(how)
    shape = (UP if plain.pop("up", False) else PLAIN)[len(space)](x, w, b, **plain).shape
    return x, w, b, torch.randn(shape).to(dtype).double(), how


def compare(case, dtype, layouts, close=None):
    x, w, b, g, how = arguments(case, dtype)
    want = results(x, w, b, g, how, "cpu", torch.float64, "plain")
    for layout in layouts:
        got = results(x, w, b, g, how, "cuda", dtype, layout)
        for name, wanted, made in zip(("result", "image's gradient", "weight's gradient", "bias's gradient"), want, got):
            assert made.shape == wanted.shape, (case, layout, name)
            far, most = (made - wanted).abs().max().item() / max(1, wanted.abs().max().item()), close or CLOSE[dtype]
            assert far <= most, f"{name} of {case} {dtype} {layout}: {far:.2g} is more than {most:.2g}" # NaN is not close, either


def check_switches():
    """TF32 rounds float32, and does not when it is switched off; each way to choose an algorithm is near the others."""
    case = LARGE[0]
    x, w, b, g, how = arguments(case, torch.float32)
    of = lambda: results(x, w, b, g, how, "cuda", torch.float32, "plain")
    torch.backends.cudnn.allow_tf32 = True
    rounded = of()
    torch.backends.cudnn.allow_tf32 = False
    exact = of()
    far = [(p - q).abs().max().item() / q.abs().max().item() for p, q in zip(rounded[:3], exact[:3])]
    assert torch.cuda.get_device_capability()[0] < 8 or all(1e-6 < f < 5e-3 for f in far), f"TF32 changes results by {far}"
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):
        compare(case, torch.float32, ("plain", "last"))
        compare(LARGE[1], torch.float16, ("plain", "last"))
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        assert all(torch.equal(p, q) for p, q in zip(of(), of()))
        compare(case, torch.float32, ("plain",))
    with torch.backends.cudnn.flags(enabled=False, allow_tf32=False):
        compare(case, torch.float32, ("plain",))
    assert torch.backends.cudnn.enabled and not torch.backends.cudnn.benchmark


def check_threads():
    """Threads and streams of their own, whose plans and handles go with them."""
    failed = []

    def work(seed):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for case in CASES[seed::4]:
                    compare(case, torch.float32, ("plain", "last"))
                    torch.cuda.current_stream().synchronize()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed


def check_second_derivatives():
    x, w = torch.randn(2, 3, 6, 6, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)

    def of(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        gx, gw = torch.autograd.grad(F.conv2d(x, w, padding=1, stride=2).pow(2).sum(), (x, w), create_graph=True)
        return [t.cpu() for t in torch.autograd.grad(gx.pow(2).sum() + gw.pow(2).sum(), (x, w))]

    for a, b in zip(of(x, w), of(x.cuda(), w.cuda())):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def milliseconds(f, runs=20):
    for _ in range(5):
        f()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(runs):
        f()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1000 / runs


def times():
    """Milliseconds of result, and of result and gradients, as float32 (TF32), float16 and float16 with channels last."""
    torch.backends.cudnn.allow_tf32 = True
    cases = [(64, 64, 64, (56, 56), (3, 3), {"padding": 1}), (64, 3, 64, (224, 224), (7, 7), {"stride": 2, "padding": 3}), (64, 256, 64, (56, 56), (1, 1), {}),
             (64, 512, 512, (7, 7), (3, 3), {"padding": 1}), (64, 96, 96, (56, 56), (7, 7), {"padding": 3, "groups": 96}), (64, 256, 256, (14, 14), (3, 3), {"padding": 1, "groups": 32}),
             (8, 32, 64, (16, 56, 56), (3, 3, 3), {"padding": 1}), (32, 80, 512, (3000,), (3,), {"padding": 1}), (32, 256, 128, (16, 16), (4, 4), {"up": True, "stride": 2, "padding": 1}),
             (1, 8, 8, (8, 8), (3, 3), {"padding": 1})]
    for n, c, out, space, kernel, how in cases:
        weight = (c, out // how.get("groups", 1)) if how.get("up") else (out, c // how.get("groups", 1))
        took = []
        for dtype, last in (torch.float32, False), (torch.float16, False), (torch.float16, True):
            x, w = torch.randn(n, c, *space, device="cuda", dtype=dtype), torch.randn(*weight, *kernel, device="cuda", dtype=dtype)
            if last and x.dim() in LAST:
                x, w = x.to(memory_format=LAST[x.dim()]), w.to(memory_format=LAST[x.dim()])
            x, w, plain = x.requires_grad_(), w.requires_grad_(), dict(how)
            f = (UP if plain.pop("up", False) else PLAIN)[len(space)]
            with torch.no_grad():
                g = torch.ones_like(f(x, w, **plain))
                took.append(milliseconds(lambda: f(x, w, **plain)))
            took.append(milliseconds(lambda: torch.autograd.grad(f(x, w, **plain), (x, w), g)))
        print(f"{n}x{c}->{out} {'x'.join(map(str, space))} kernel {'x'.join(map(str, kernel))} {how}:", *(f"{ms:.3f}" for ms in took))


def main(words):
    torch.manual_seed(0)
    if "time" in words:
        return times()
    real = not getattr(torch.cuda.get_device_properties(0), "is_emulated", False)
    print("cuDNN", torch.backends.cudnn.version(), "on", torch.cuda.get_device_name(0))
    torch.backends.cudnn.allow_tf32 = False
    done = 0
    for dtype in CLOSE:
        if words and str(dtype).split(".")[1] not in words:
            continue
        for case in CASES + (LARGE if real else []):
            try:
                compare(case, dtype, ("plain", "last", "last weight", "holes", "aside"))
                done += 1
            except Exception as e: # a device's time is dear: all that fails is told at once
                print(f"FAILED {dtype} {case}: {type(e).__name__}: {e}", flush=True)
                failures.append(e)
    for check in (check_second_derivatives, check_threads, *((check_switches,) if real and torch.backends.cudnn.is_available() else ())):
        try:
            check()
            done += 1
        except Exception as e:
            print(f"FAILED {check.__name__}: {type(e).__name__}: {e}", flush=True)
            failures.append(e)
    print(f"{done} passed, {len(failures)} failed")
    return len(failures) > 0


failures = []
if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("convolution: skipped, there is no CUDA device")
        sys.exit()
    sys.exit(main(sys.argv[1:]))
