"""How fast single operations run on all cores: GB/s where memory bounds them, GFLOP/s where arithmetic does."""
import torch
import torch.nn.functional as F
from clock import DEVICE, run

torch.manual_seed(1)
big, square = torch.randn(4_000_000), torch.randn(2048, 2048)
positive, result = big.abs() + 0.1, torch.empty(4_000_000)
m = {n: torch.randn(n, n) for n in (64, 256, 512, 1024)}
row = torch.randn(1, 2048)
stack, stack2 = torch.randn(64, 128, 64), torch.randn(64, 64, 128)
image, filters, thin = torch.randn(8, 64, 56, 56), torch.randn(64, 64, 3, 3), torch.randn(64, 1, 3, 3)
scale, shift, mean, var = torch.randn(64), torch.randn(64), torch.zeros(64), torch.ones(64)
ones, zeros = torch.ones(2048), torch.zeros(2048)
table, ids = torch.randn(50_000, 256), torch.randint(50_000, (4096,))
q, k, v = (torch.randn(4, 8, 256, 64) for _ in range(3))
half = m[1024].bfloat16()
spd = m[512] @ m[512].t() + 512 * torch.eye(512)
if not DEVICE: # products of small integers are the CPU's
    bytes_, few, nibbles = (torch.randint(0, n, (4096, 4096), dtype=torch.int32) for n in (100, 100, 16))
    bytes_, few = bytes_.to(torch.int8), few[:32].to(torch.int8)
    nibbles, pairs = torch._convert_weight_to_int4pack_for_cpu(nibbles, 2), torch.rand(128, 4096, 2).bfloat16()
    token, scales = torch.randn(1, 4096).bfloat16(), torch.rand(4096).bfloat16()
MB4 = 4e-9 * big.numel()
conv, att = 2 * 8 * 64 * 64 * 9 * 56 * 56e-9, 4 * 4 * 8 * 256 * 256 * 64e-9


def back(fn, *tensors):
    """A forward and a backward of fn."""
    leaves = [t.clone().requires_grad_() for t in tensors]

    def step():
        for leaf in leaves:
            leaf.grad = None
        fn(*leaves).sum().backward()
    return step


conv_back = back(lambda x, w: F.conv2d(x, w, padding=1), image, filters)
norm_back = back(lambda x, s, t: F.batch_norm(x, mean, var, s, t, True), image, scale, shift)
softmax_back = back(lambda x: F.log_softmax(x, -1)[:, 0], square)
attention_back = back(lambda a, b, c: F.scaled_dot_product_attention(a, b, c, is_causal=True), q, k, v)
run([
    *((f"product {n}", f"m[{n}] @ m[{n}]", 2e-9 * n**3, "GFLOP/s") for n in (64, 256, 1024)),
    ("product 1024, bfloat16", "half @ half", 2e-9 * 1024**3, "GFLOP/s"),
    ("64 products 128x64x128", "torch.bmm(stack, stack2)", 2e-9 * 64 * 128 * 64 * 128, "GFLOP/s"),
    ("row times 2048x2048", "row @ square", 4e-9 * 2048 * 2048, "GB/s"),
    ("conv2d 3x3", "F.conv2d(image, filters, padding=1)", conv, "GFLOP/s"),
    ("conv2d 3x3, forward and backward", "conv_back()", 3 * conv, "GFLOP/s"),
    ("conv2d 3x3, depthwise", "F.conv2d(image, thin, padding=1, groups=64)", conv / 64, "GFLOP/s"),
    ("max_pool2d", "F.max_pool2d(image, 2)", 4e-9 * image.numel(), "GB/s"),
    ("batch_norm, forward and backward", "norm_back()", 4e-9 * image.numel(), "GB/s"),
    ("layer_norm", "F.layer_norm(square, (2048,), ones, zeros)", 2 * MB4, "GB/s"),
    ("attention, causal", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", att, "GFLOP/s"),
    ("attention, forward and backward", "attention_back()", 3 * att, "GFLOP/s"),
    ("add into a result", "torch.add(big, big, out=result)", 3 * MB4, "GB/s"),
    ("add a row", "square + square[0]", 2 * MB4, "GB/s"),
    ("add the transposed", "square + square.t()", 3 * MB4, "GB/s"),
    *((name, f"torch.{name}(positive)", 2 * MB4, "GB/s") for name in (
        "sqrt", "exp", "log", "sin", "tanh", "sigmoid", "erf", "lgamma", "digamma")),
    ("gelu", "F.gelu(big)", 2 * MB4, "GB/s"),
    ("pow 2.5", "positive ** 2.5", 2 * MB4, "GB/s"),
    ("floor division", "big // positive", 3 * MB4, "GB/s"),
    ("remainder", "big % positive", 3 * MB4, "GB/s"),
    ("fmod", "torch.fmod(big, positive)", 3 * MB4, "GB/s"),
    ("complex product", "torch.view_as_complex(square.view(-1, 2)) * torch.view_as_complex(square.view(-1, 2))", 3 * MB4, "GB/s"),
    ("sum", "big.sum()", MB4, "GB/s"),
    ("sum of columns", "square.sum(0)", MB4, "GB/s"),
    ("sum of rows", "square.sum(1)", MB4, "GB/s"),
    ("amax", "big.amax()", MB4, "GB/s"),
    ("max of rows", "square.max(1)", MB4, "GB/s"),
    ("argmax", "big.argmax()", MB4, "GB/s"),
    ("var of rows", "square.var(1)", MB4, "GB/s"),
    ("softmax", "torch.softmax(square, -1)", 2 * MB4, "GB/s"),
    ("log_softmax, forward and backward", "softmax_back()", 2 * MB4, "GB/s"),
    ("cumsum", "big.cumsum(0)", 2 * MB4, "GB/s"),
    ("sort 1,000,000", "big[:1_000_000].sort()", 1.0, "M/s"),
    ("topk 10 of rows", "square.topk(10)", MB4, "GB/s"),
    ("unique of 1,000,000 integers", "unique.unique()", 1.0, "M/s"),
    ("embedding", "F.embedding(ids, table)", 8e-9 * 4096 * 256, "GB/s"),
    ("index_add", "torch.zeros(50_000, 256).index_add_(0, ids, table[:4096])", 8e-9 * 4096 * 256, "GB/s"),
    ("masked select", "big[big > 0]", MB4, "GB/s"),
    ("nonzero", "(big > 0).nonzero()", MB4, "GB/s"),
    ("transposed copy", "square.t().contiguous()", 2 * MB4, "GB/s"),
    ("cat", "torch.cat([square, square], 1)", 4 * MB4, "GB/s"),
    ("to float64", "square.double()", 3 * MB4, "GB/s"),
    ("randn", "torch.randn(1_000_000)", 1e-3, "G/s"),
    ("cholesky 512", "torch.linalg.cholesky(spd)", 512**3 / 3e9, "GFLOP/s"),
    ("solve 512", "torch.linalg.solve(spd, m[512])", 8 / 3e9 * 512**3, "GFLOP/s"),
    ("svd 256", "torch.linalg.svd(m[256])", 1.0, "1/s"),
    ("fft 2^20", "torch.fft.fft(big[:1 << 20])", 1.0, "1/s"),
] + ([] if DEVICE else [
    ("int8 32x4096 by 4096x4096", "torch._int_mm(few, bytes_.t())", 2e-9 * 32 * 4096**2, "GFLOP/s"),
    ("row times int8 4096x4096", "torch._weight_int8pack_mm(token, bytes_, scales)", 1e-9 * 4096**2, "GB/s"),
    ("row times int4 4096x4096", "torch._weight_int4pack_mm_for_cpu(token, nibbles, 32, pairs)", 0.625e-9 * 4096**2, "GB/s"),
]), {**globals(), "unique": torch.randint(100_000, (1_000_000,))}, 0.6)
