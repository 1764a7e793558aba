"""Attention on a CUDA device: milliseconds and TFLOP/s of the way forward, and of both ways; the same program under PyTorch and under rushlight.

    python bench/gpu_attention.py [WORD...]                      # PyTorch, with the backend that it chooses, and with each that takes the case
    python -m rushlight bench/gpu_attention.py [WORD...]         # rushlight

WORD: only cases whose name contains one of them. Counted are 4 L S E operations for each head forward (half of it with a causal mask), 2.5 times that back.
"""
import contextlib
import sys

import torch
import torch.nn.functional as F

# name: dtype, batch, heads, heads of keys, rows, keys, width, causal, mask
CASES = {
    "f32 4x8x256x64 causal": (torch.float32, 4, 8, 8, 256, 256, 64, True, False),
    "f32 16x12x1024x64 causal": (torch.float32, 16, 12, 12, 1024, 1024, 64, True, False),
    "f32 8x16x1024x128": (torch.float32, 8, 16, 16, 1024, 1024, 128, False, False),
    "f32 16x12x512x64 mask": (torch.float32, 16, 12, 12, 512, 512, 64, False, True),
    "bf16 16x12x1024x64 causal": (torch.bfloat16, 16, 12, 12, 1024, 1024, 64, True, False),
    "bf16 16x16x2048x128": (torch.bfloat16, 16, 16, 16, 2048, 2048, 128, False, False),
    "bf16 16x16x2048x128 causal": (torch.bfloat16, 16, 16, 16, 2048, 2048, 128, True, False),
    "bf16 2x32x8192x128 causal": (torch.bfloat16, 2, 32, 32, 8192, 8192, 128, True, False),
    "bf16 8x32x2048x128 causal, 8 heads of keys": (torch.bfloat16, 8, 32, 8, 2048, 2048, 128, True, False),
    "f16 16x16x2048x64": (torch.float16, 16, 16, 16, 2048, 2048, 64, False, False),
    "bf16 4x16x2048x256": (torch.bfloat16, 4, 16, 16, 2048, 2048, 256, False, False),
    "bf16 8x16x2048x64 mask": (torch.bfloat16, 8, 16, 16, 2048, 2048, 64, False, True),
    "bf16 32x32x1x4096x128": (torch.bfloat16, 32, 32, 8, 1, 4096, 128, False, False),
}


def timed(f):
    """Milliseconds of a call, the best of five runs that last some 20 ms each."""
    f()
    torch.cuda.synchronize()
    best, n = float("inf"), 1
    for k in range(6):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(n):
            f()
        end.record()
        torch.cuda.synchronize()
        ms = begin.elapsed_time(end) / n
        if k == 0:
            n = max(1, min(1000, int(20 / ms)))
        else:
            best = min(best, ms)
    return best


def backends():
    """Words and contexts: what is chosen, and with PyTorch each backend by its name."""
    yield "", contextlib.nullcontext
    if torch.__name__ == "torch" and "rushlight" not in torch.__file__:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        for name, backend in ("flash", SDPBackend.FLASH_ATTENTION), ("efficient", SDPBackend.EFFICIENT_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION):
            yield name, lambda backend=backend: sdpa_kernel(backend)


def main(words):
    torch.manual_seed(0)
    print(f"{torch.__version__} on {torch.cuda.get_device_name(0)}")
    for name, (dtype, b, heads, kv_heads, rows, keys, width, causal, masked) in CASES.items():
        if words and not any(w in name for w in words):
            continue
        q, k, v, g = (torch.randn(b, h, n, width, device="cuda").to(dtype) for h, n in ((heads, rows), (kv_heads, keys), (kv_heads, keys), (heads, rows)))
        how = {"is_causal": causal, **({"enable_gqa": True} if heads != kv_heads else {}), **({"attn_mask": torch.randn(b, 1, rows, keys, device="cuda").to(dtype)} if masked else {})}
        work = 4e-9 * b * heads * rows * keys * width / (2 if causal else 1)

        def both():
            leaves = [t.detach().requires_grad_() for t in (q, k, v)]
            F.scaled_dot_product_attention(*leaves, **how).backward(g)

        for backend, chosen in backends():
            try:
                with chosen():
                    with torch.no_grad():
                        forward = timed(lambda: F.scaled_dot_product_attention(q, k, v, **how))
                    whole = timed(both)
            except RuntimeError as e:
                print(f"{name:<44} {backend:<10} {'does not take it' if backend else str(e)[:100]}", flush=True)
                continue
            print(f"{name:<44} {backend:<10} forward {forward:8.3f} ms {work / forward:7.1f} TFLOP/s   both {whole:8.3f} ms {3.5 * work / whole:7.1f} TFLOP/s", flush=True)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("there is no CUDA device")
    main(sys.argv[1:])
