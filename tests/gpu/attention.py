"""Attention of a CUDA device against the CPU, with its gradients: python3 -m rushlight tests/gpu/attention.py [WORD...]

On an NVIDIA device, or an emulated one (RUSHLIGHT_CUDA=emulated, as tests/python/test_cuda.py runs it, where large cases are left out).
Widths are those of each kernel's tiles and between them; lengths stop before, at and behind a tile's end.
"""
import sys

import torch
import torch.nn.functional as F


def run(q, k, v, g, device, dtype, how):
    """Output and gradients, as float32 of the CPU."""
    q, k, v = (t.to(device, dtype).requires_grad_() for t in (q, k, v))
    how = {name: t.to(device) if isinstance(t, torch.Tensor) else t for name, t in how.items()}
    y = F.scaled_dot_product_attention(q, k, v, **how)
    assert y.dtype == dtype and y.device.type == device
    return [t.detach().cpu().float() for t in (y, *torch.autograd.grad(y, (q, k, v), g.to(device, dtype)))]


def compare(shapes, dtype, turned=False, **how):
    b, heads, kv_heads, rows, keys, width, value_width = shapes
    # (batch, rows, heads, width) seen as (batch, heads, rows, width): what projections give
    make = (lambda b, h, n, w: torch.randn(b, n, h, w).transpose(1, 2)) if turned else torch.randn
    q, k, v, g = make(b, heads, rows, width), make(b, kv_heads, keys, width), make(b, kv_heads, keys, value_width), make(b, heads, rows, value_width)
    if heads != kv_heads:
        how["enable_gqa"] = True
    exact = {name: t.float() if isinstance(t, torch.Tensor) and t.dtype != torch.bool else t for name, t in how.items()}
    want = run(*(t.to(dtype).float() for t in (q, k, v, g)), "cpu", torch.float32, exact) # of the same numbers, without rounding between
    got = run(q, k, v, g, "cuda", dtype, how)
    close = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
    for name, w, x in zip(("output", "dq", "dk", "dv"), want, got):
        far = (w - x).abs().max().item() / max(1, w.abs().max().item())
        assert far <= close, f"{name} of {shapes} {dtype} {sorted(how)}: {far:.2g} is more than {close}" # NaN is not close, either


def main(words):
    large = not getattr(torch.cuda.get_device_properties(0), "is_emulated", False)
    torch.manual_seed(0)
    done = 0
    for dtype in torch.float32, torch.float16, torch.bfloat16:
        if words and str(dtype).split(".")[1] not in words:
            continue
        mask = torch.rand(2, 1, 70, 66) > 0.5
        mask[:, :, 3] = False
        cases = [((2, 2, 2, 130, 65, 64, 64), {}), ((2, 2, 2, 130, 65, 64, 64), {"is_causal": True, "turned": True}), ((1, 4, 2, 63, 130, 80, 80), {"is_causal": True}),
                 ((1, 2, 2, 65, 1, 8, 8), {}), ((1, 2, 2, 1, 65, 5, 7), {}), ((1, 2, 1, 33, 130, 128, 128), {"is_causal": True}), ((1, 1, 1, 65, 63, 128, 64), {"turned": True}),
                 ((1, 2, 2, 33, 35, 256, 200), {"is_causal": True, "scale": 0.3}), ((1, 1, 1, 9, 8, 264, 8), {}), ((1, 3, 1, 130, 130, 32, 32), {"is_causal": True, "scale": -0.5}),
                 ((2, 2, 2, 70, 66, 16, 16), {"attn_mask": mask}), ((2, 2, 2, 70, 66, 64, 64), {"attn_mask": mask[0, 0, :, 5:6]}),
                 ((2, 2, 2, 70, 66, 16, 24), {"attn_mask": torch.randn(1, 66).to(dtype)}), ((2, 2, 2, 70, 66, 128, 128), {"attn_mask": torch.randn(2, 2, 70, 66)})]
        if large:
            cases += [((3, 4, 4, 1000, 777, width, width), {"is_causal": causal, "turned": True}) for width in (64, 96, 128, 256) for causal in (False, True)]
            cases += [((1, 16, 4, 2048, 2048, 128, 128), {"is_causal": True}), ((2, 4, 4, 512, 512, 64, 64), {"attn_mask": torch.randn(512, 512).to(dtype)})]
        for shapes, how in cases:
            compare(shapes, dtype, **how)
            done += 1
        # scores that the smallest number of a mask has made equal; and results have the same bits each time
        q = torch.randn(1, 2, 70, 64).to("cuda", dtype)
        lowest = torch.zeros(70, 70, device="cuda", dtype=dtype)
        lowest[5] = torch.finfo(dtype).min
        far = (F.scaled_dot_product_attention(q, q, q, lowest)[:, :, 5] - q.mean(2)).abs().max().item()
        assert far < 1e-2 or dtype == torch.float16, far # -65504 is not so small
        again = [run(*(q.cpu() for _ in range(4)), "cuda", dtype, {"is_causal": True}) for _ in range(2)]
        assert all(torch.equal(a, b) for a, b in zip(*again))
    print(f"attention: {done} cases on {torch.cuda.get_device_name(0)} are as on the CPU")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        print("attention: skipped, there is no CUDA device")
        sys.exit()
    main(sys.argv[1:])
