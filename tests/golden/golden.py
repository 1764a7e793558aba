"""The files of golden values: calls of operations, and what PyTorch answered. README.md describes the format.

Needs NumPy only. `python tests/golden/golden.py FILE [NAME]` prints the cases whose operation contains NAME.
"""
import json
import lzma
import math
import pathlib
import re
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FILES = ("pointwise", "database", "snippets")

# How a dtype's numbers are stored: NumPy has no bfloat16, and its complex numbers are pairs.
STORED = {"float32": "<f4", "float64": "<f8", "float16": "<f2", "bfloat16": "<u2", "complex64": "<f4", "complex128": "<f8",
          "int64": "<i8", "int32": "<i4", "int16": "<i2", "int8": "<i1", "uint8": "<u1", "bool": "<u1",
          "uint16": "<u2", "uint32": "<u4", "uint64": "<u8"}
WHOLE = 48      # results of more numbers than this are stored as some of them and sums over all
SOME = 16
SUMS = 3

# (relative, absolute) error allowed by dtype
TOLERANCE = {"float32": (2e-5, 2e-5), "complex64": (2e-5, 2e-5), "float64": (2e-7, 2e-7), "complex128": (2e-7, 2e-7),
             "float16": (4e-3, 1e-3), "bfloat16": (2e-2, 1e-2)}
# Half types: PyTorch rounds between the steps of some operations, so that the error goes with the largest number.
OF_LARGEST = {"float16": 3e-3, "bfloat16": 2.5e-2}


def is_complex(dtype):
    return dtype.startswith("complex")


def is_inexact(dtype):
    return dtype in TOLERANCE


def weights(n, k=0):
    """Numbers in [-1.5, 1.5] without zero, the same everywhere: what results are multiplied with before they are summed."""
    i = np.arange(n, dtype=np.uint64) + np.uint64(1 + 1009 * k)
    bits = (i * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    return (bits.astype(np.float64) / 2**24 - 0.5) * 2 + np.where(bits & np.uint64(1), 0.5, -0.5)


def chosen(n):
    """Places of the numbers that are stored of a large result: spread unevenly, the last ones among them."""
    spread = (np.arange(SOME - 4) * 2 + 1) ** 2 * n // (2 * (SOME - 4)) ** 2
    return np.unique(np.concatenate([spread, np.arange(n - 4, n)]))


def widened(dtype, raw):
    """Floating numbers as double; those of a complex dtype stay a row of pairs."""
    return ((raw.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else raw).astype(np.float64)


def sums(dtype, raw):
    """What stands for all numbers of a large result: a checksum where they are exact, else weighted sums, compressed by asinh
    so that no number hides another."""
    if not is_inexact(dtype):
        return np.array([zlib.crc32(raw.tobytes())], np.float64)
    flat = widened(dtype, raw)
    flat = np.where(np.isnan(flat), 0.7, np.where(np.isinf(flat), np.copysign(900.0, flat), flat))
    flat = np.arcsinh(flat)
    return np.array([np.dot(flat, weights(len(flat), k + 1)) for k in range(SUMS)])


# ---------------------------------------------------------------- the file

class Numbers:
    """Numbers by the way they are stored, written one behind the other and read in the same order."""

    def __init__(self, stored=None):
        self.stored = stored or {}
        self.at = dict.fromkeys(self.stored, 0)

    def put(self, kind, array):
        self.stored.setdefault(kind, []).append(np.ascontiguousarray(array).astype(kind).ravel())

    def get(self, kind, n):
        start = self.at[kind]
        self.at[kind] += n
        return self.stored[kind][start:start + n]


def write(name, cases, numbers):
    """The lines of JSON, then the numbers, all first bytes before all second bytes, which packs better."""
    parts, sizes = [], {}
    for kind in sorted(numbers.stored):
        whole = np.concatenate(numbers.stored[kind])
        sizes[kind] = len(whole)
        parts.append(np.ascontiguousarray(whole.view(np.uint8).reshape(-1, whole.itemsize).T).tobytes())
    lines = [json.dumps({"cases": len(cases), "numbers": sizes})] + [json.dumps(case, separators=(",", ":")) for case in cases]
    body = "\n".join(lines).encode() + b"\n" + b"".join(parts)
    packed = lzma.compress(body, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME)
    (HERE / f"{name}.xz").write_bytes(packed)
    return len(packed)


def lines_of(name):
    """(head, the lines of the cases, the numbers' bytes) of a file."""
    body = lzma.decompress((HERE / f"{name}.xz").read_bytes())
    end = body.index(b"\n")
    head = json.loads(body[:end])
    *lines, rest = body[end + 1:].split(b"\n", head["cases"])
    return head, lines, rest


def operations(name):
    """What the cases of a file call, without reading more of them."""
    return [json.loads(re.match(rb'{"op":("(?:[^"\\]|\\.)*")', line)[1]) for line in lines_of(name)[1]]


def read(name):
    """The cases of a file, with their numbers."""
    head, lines, rest = lines_of(name)
    stored, at = {}, 0
    for kind in sorted(head["numbers"]):
        size = np.dtype(kind).itemsize
        n = head["numbers"][kind]
        planes = np.frombuffer(rest, np.uint8, n * size, at).reshape(size, n)
        stored[kind] = np.ascontiguousarray(planes.T).view(kind).ravel()
        at += n * size
    cases, numbers = [json.loads(line) for line in lines], Numbers(stored)
    for case in cases:
        attach(case, numbers)
    return cases


# ---------------------------------------------------------------- tensors in a case

def tensor_numbers(node, numbers):
    """The stored numbers of an argument, in the order of its memory."""
    width = 2 if is_complex(node["T"]) else 1
    return numbers.get(STORED[node["T"]], node.get("n", math.prod(node["shape"])) * width)


def attach(node, numbers):
    """Give every tensor of a case its numbers, in the order in which they were written."""
    if isinstance(node, list):
        for item in node:
            attach(item, numbers)
    elif isinstance(node, dict):
        if "T" in node:
            node["data"] = tensor_numbers(node, numbers)
        elif "V" in node:
            attach_result(node, numbers)
        else:
            for item in node.values():
                attach(item, numbers)


def attach_result(node, numbers):
    n, dtype = math.prod(node["shape"]) * (2 if is_complex(node["V"]) else 1), node["V"]
    node["data"] = numbers.get(STORED[dtype], n if n <= WHOLE else len(chosen(n)))
    if n > WHOLE:
        node["sums"] = numbers.get("<f8", SUMS if is_inexact(dtype) else 1)


def difference(want, dtype, shape, raw, loose=1.0, finite=False):
    """None, or what differs between a stored result and the numbers `raw` of the given dtype and shape."""
    if dtype != want["V"]:
        return f"dtype {dtype} instead of {want['V']}"
    if list(shape) != want["shape"]:
        return f"shape {list(shape)} instead of {want['shape']}"
    if want.get("any"):
        return None
    if want.get("abs"):
        raw = np.abs(raw)
    n = len(raw)
    part = raw if n <= WHOLE else raw[chosen(n)]
    if not is_inexact(dtype):
        bad = part != want["data"]
        if n > WHOLE and not bad.any() and sums(dtype, raw) != want["sums"]:
            return "the checksum over all numbers differs"
        return None if not bad.any() else f"{part[bad][:3]} instead of {want['data'][bad][:3]}"
    rtol, atol = (loose * t for t in TOLERANCE[dtype])
    got, right = widened(dtype, part), widened(dtype, want["data"])
    if dtype in OF_LARGEST and len(right):
        atol += OF_LARGEST[dtype] * loose * np.abs(right[np.isfinite(right)]).max(initial=0)
    near = np.isclose(got, right, rtol=rtol, atol=atol, equal_nan=True)
    if finite:
        near |= ~np.isfinite(got) | ~np.isfinite(right)
    if not near.all():
        return f"{got[~near][:3]} instead of {right[~near][:3]}"
    if n > WHOLE and not (finite and not np.isfinite(widened(dtype, raw)).all()):
        off = np.abs(sums(dtype, raw) - want["sums"])
        if (off > (rtol + atol if dtype in OF_LARGEST else rtol) * n + atol).any():
            return f"sums over all numbers differ by {off}"
    return None


# ---------------------------------------------------------------- snippets

def words(torch):
    """What the lines of snippets.txt can say besides `torch`."""
    def numbers(*shape, scale=1.0, dtype="float32", k=0):
        """A tensor of fixed numbers within (-1.5, 1.5) times scale."""
        return (torch.from_numpy(weights(math.prod(shape), k)) * scale).to(getattr(torch, dtype)).reshape(shape)

    def optimize(name, steps=5, dtype="float32", sparse=False, **options):
        """Two parameters after some steps of an optimizer; the gradients are not symmetric and change sign."""
        params = [numbers(37, dtype=dtype).requires_grad_(), numbers(5, 7, dtype=dtype, k=1).requires_grad_()]
        optimizer = getattr(torch.optim, name)(params, **options)

        def loss():
            optimizer.zero_grad()
            value = sum(((p * (1 + 0.1 * p) - 0.3).square() * numbers(*p.shape, dtype=dtype, k=2).abs()).sum() for p in params)
            value.backward()
            return value

        for _ in range(steps):
            if name == "LBFGS":
                optimizer.step(loss)
            else:
                loss()
                optimizer.step()
        return [*params, *(optimizer.state[p][name] for p in params for name in sorted(optimizer.state[p]) if name != "step")]

    def module(name, *args, inputs=((3, 5),), call=(), **options):
        """A layer made with seed 0: its result, and the gradients of its parameters and inputs."""
        torch.manual_seed(0)
        layer = getattr(torch.nn, name)(*args, **options)
        given = [numbers(*shape, scale=2.0, k=i).requires_grad_() for i, shape in enumerate(inputs)]
        out = layer(*given, *call)
        flat = flattened(torch, out)
        sum((t * numbers(*t.shape, k=7)).sum() for t in flat if t.requires_grad).backward()
        return [*flat, *(p.grad for p in (*layer.parameters(), *given) if p.grad is not None), *layer.buffers()]

    def curve(name, steps=12, **options):
        """The learning rates of a scheduler."""
        optimizer = torch.optim.SGD([numbers(2).requires_grad_()], lr=0.1)
        scheduler, rates = getattr(torch.optim.lr_scheduler, name)(optimizer, **options), []
        for k in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step(*([1.0 + 0.01 * k] if name == "ReduceLROnPlateau" else []))
        return torch.tensor(rates)

    def slopes(f, *given):
        """A function's result and the gradients of what it was given."""
        leaves = [t.detach().requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in given]
        flat = flattened(torch, f(*leaves))
        sum((t * numbers(*t.shape, k=7)).sum() for t in flat if t.requires_grad).abs().backward()
        return [*flat, *(t.grad for t in leaves if t.requires_grad)]

    def bends(f, *given):
        """What slopes() tells, and derivatives of the gradients."""
        leaves = [t.detach().requires_grad_() for t in given]
        out = f(*leaves)
        weights = numbers(*out.shape, k=5, dtype=str(out.dtype).rpartition(".")[2]).requires_grad_()
        first = torch.autograd.grad(out, leaves, weights, create_graph=True)
        second = torch.autograd.grad([g for g in first if g.requires_grad], [*leaves, weights],
                                     [numbers(*g.shape, k=6, dtype=str(g.dtype).rpartition(".")[2]) for g in first if g.requires_grad], allow_unused=True)
        return [out, *first, *(torch.zeros(()) if g is None else g for g in second)]

    return {"torch": torch, "np": np, "bends": bends, "numbers": numbers, "optimize": optimize, "module": module, "curve": curve, "slopes": slopes,
            "F": torch.nn.functional}


def flattened(torch, x):
    if isinstance(x, (list, tuple)):
        return [t for y in x for t in flattened(torch, y)]
    return [x] if isinstance(x, torch.Tensor) else []


def answer(torch, line):
    """The tensors that a line of snippets.txt answers: an expression, or statements that end in one."""
    torch.manual_seed(0)
    *before, last = (part.strip() for part in line.split(";"))
    names = words(torch)
    exec("\n".join(before), names)
    return [t.detach() for t in flattened(torch, eval(last, names))]


def main():
    for name in FILES:
        if len(sys.argv) > 1 and sys.argv[1] not in (name, f"{name}.xz"):
            continue
        for case in read(name):
            if len(sys.argv) < 3 or sys.argv[2] in case["op"]:
                print(json.dumps(case, default=lambda a: [round(float(x), 6) for x in a]))


if __name__ == "__main__":
    main()
