"""What PyTorch answered to some thousand calls: values, dtypes, shapes and gradients (tests/golden/README.md).

One test per operation. A result is also compared with that of the in-place form and with what `out=` receives.
"""
import functools
import math
import pathlib
import sys

import numpy as np
import pytest

import rushlight as torch
from rushlight._library import forms

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import golden  # noqa: E402

CARRIED = {"bfloat16": np.int16}    # NumPy lacks it: it travels as whole numbers of the same width


def tensor(node):
    """The tensor of a node, with the strides that it had."""
    dtype, raw = node["T"], node["data"]
    array = raw.view(CARRIED.get(dtype, dtype)).copy()
    made = torch.from_numpy(array)
    made = made.view(getattr(torch, dtype)) if dtype in CARRIED else made
    made = made.as_strided(node["shape"], node["strides"], node["offset"]) if "strides" in node else made.reshape(node["shape"])
    made = made.conj() if node.get("conj") else made
    return made.detach().requires_grad_() if node.get("grad") else made


class Call:
    """The arguments of a case, made anew for each form of the call."""

    def __init__(self, case):
        self.tensors = []
        self.args = self.build(case["args"])
        self.kwargs = {k: self.build(v) for k, v in case.get("kwargs", ())}
        self.leaves = [t for t in self.tensors if t.requires_grad]

    def build(self, node):
        if isinstance(node, list):
            return [self.build(x) for x in node]
        if not isinstance(node, dict):
            return node
        (kind, value), *_ = node.items()
        if kind == "T":
            self.tensors.append(tensor(node))
            return self.tensors[-1]
        return BUILD[kind](self, value)


def named(call, path):
    value = torch
    for name in path.split("."):
        value = getattr(value, name)
    return value


BUILD = {
    "R": lambda call, k: call.tensors[k],
    "f": lambda call, text: float(text),
    "c": lambda call, parts: complex(*call.build(parts)),
    "size": lambda call, sizes: torch.Size(sizes),
    "tuple": lambda call, items: tuple(call.build(items)),
    "dict": lambda call, items: {k: call.build(v) for k, v in items},
    "slice": lambda call, ends: slice(*call.build(ends)),
    "name": named,
    "device": lambda call, name: torch.device(name),
    "...": lambda call, _: ...,
    "array": lambda call, node: call.build(node).numpy(),
}


def numbers_of(t):
    """(dtype, shape, numbers) of a tensor, as they are stored."""
    t = t.detach().resolve_conj().resolve_neg()
    dtype = str(t.dtype).rpartition(".")[2]
    shape = tuple(t.shape)
    flat = t.contiguous().reshape(-1)
    flat = flat.view(torch.int16) if dtype in CARRIED else flat
    return dtype, shape, flat.numpy().view(golden.STORED[dtype])


def compare(want, got, how, where="result"):
    """What differs, as lines; `how` are further arguments of golden.difference."""
    if isinstance(want, list) or "tuple" in want:
        kind, want = (list, want) if isinstance(want, list) else (tuple, want["tuple"])
        if not isinstance(got, kind) or len(got) != len(want):
            return [f"{where}: {type(got).__name__} instead of a {kind.__name__} of {len(want)}"]
        return [line for i, pair in enumerate(zip(want, got)) for line in compare(*pair, how, f"{where}[{i}]")]
    if "named" in want:
        return [line for name, w in want["named"] for line in compare(w, getattr(got, name), how, f"{where}.{name}")]
    if "is" in want:
        right = Call({"args": [want["is"]]}).args[0]
        same = got == right or got != got and right != right or (isinstance(right, float) and math.isclose(got, right, rel_tol=1e-6 * how["loose"]))
        return [] if same else [f"{where}: {got!r} instead of {right!r}"]
    if not isinstance(got, torch.Tensor):
        return [f"{where}: {type(got).__name__} instead of a tensor"]
    wrong = golden.difference(want, *numbers_of(got), **how)
    return [f"{where}: {wrong}"] if wrong else []


def gradients(call, out, parts=None):
    """The gradients of the sum of the results, or of some of them, times weights."""
    for i, t in enumerate(tensors_in(out)):
        if t.requires_grad and (parts is None or i in parts):
            t.backward(torch.from_numpy(golden.weights(t.numel(), i)).reshape(t.shape).to(t.dtype), retain_graph=True)
    return [torch.zeros_like(t) if t.grad is None else t.grad for t in call.leaves]


def tensors_in(x):
    if isinstance(x, torch.Tensor):
        return [x]
    return [t for y in x for t in tensors_in(y)] if isinstance(x, (list, tuple)) else []


# What is compared less strictly, and why.
LESS = {
    # a factor on the tolerance
    **dict.fromkeys(["ops.aten.special_airy_ai.default", "special.bessel_y1"], 20),     # PyTorch's own error
    "linalg.householder_product": 4,            # rounding of long products
    # PyTorch answers NaN for infinities, or a huge number instead of the infinity at a pole
    **dict.fromkeys(["ops.aten." + name for name in (
        "digamma.default", "special_digamma.default", "special_psi.default", "polygamma.default", "special_polygamma.default",
        "i0.default", "special_i0.default", "special_i1.default", "elu_backward.default", "gelu_backward.default", "ldexp.Tensor",
        "pow.Tensor_Tensor", "float_power.Tensor_Tensor", *(f"special_shifted_chebyshev_polynomial_{k}.default" for k in "uvw"))], "finite"),
    "as_strided_scatter": "values",             # PyTorch's gradient is that of the part that was written over
    # numbers at the bounds of cells; half types where PyTorch overflows or cancels in between
    **dict.fromkeys(["histc", "grid_sampler_2d", "nn.functional.grid_sample", "matrix_exp", "nn.functional.normalize",
                     "nn.functional.soft_margin_loss"], "wide"),
}
WIDE = {"float32", "float64", "complex64", "complex128"}


def left_out(case, less):
    """Is the case of a dtype that LESS leaves out?"""
    dtypes = {node["T"] for node in case["args"] if isinstance(node, dict) and "T" in node}
    return less == "wide" and not dtypes <= WIDE or less == "real" and any(map(golden.is_complex, dtypes))


def failures(case):
    """All that differs from what PyTorch answered."""
    less, flags, found = LESS.get(case["op"]), case.get("flags", ""), []
    if left_out(case, less):
        return []
    how = {"loose": case.get("loose", less if isinstance(less, (int, float)) else 1), "finite": less == "finite"}
    f, call = named(None, case["op"]), Call(case)
    torch.manual_seed(0)
    out = f(*call.args, **call.kwargs)
    found += compare(case["out"], out, how)
    if "grads" in case and less != "values":
        for i, (want, got) in enumerate(zip(case["grads"], gradients(call, out, case.get("from")))):
            found += compare(want, got, how, f"gradient {i}")
    if not found and "V" in case["out"] and "s" not in flags:
        found += other_forms(case, how, flags)
    return found


def other_forms(case, how, flags):
    """The in-place form and `out=` by the same values."""
    want, found, path = case["out"], [], case["op"]
    with torch.no_grad():
        into = inplace_form(path) if "i" in flags else None
        if into:
            call = Call(case)
            target = call.args[0]
            if isinstance(target, torch.Tensor) and list(target.shape) == want["shape"] and str(target.dtype).endswith("." + want["V"]) \
                    and "strides" not in case["args"][0]:
                target.requires_grad_(False)
                found += compare(want, into(*call.args, **call.kwargs), how, "in place")
        f = out_form(path) if "o" in flags else None
        if f:
            call = Call(case)
            room = torch.empty(want["shape"], dtype=getattr(torch, want["V"]))
            f(*call.args, **call.kwargs, **dict.fromkeys(getattr(f, "_out_names", ["out"]), room))
            found += compare(want, room, how, "out=")
    return found


def inplace_form(path):
    if path.startswith("ops.aten."):
        _, _, base, overload = path.split(".")
        form = forms.in_place(getattr(getattr(torch.ops.aten, base), overload)._schema)
        return form and getattr(getattr(torch.ops.aten, base + "_", None), form.overload_name or "default", None)
    return getattr(torch.Tensor, path.rpartition(".")[2] + "_", None)


def out_form(path):
    if path.startswith("ops.aten."):
        _, _, base, overload = path.split(".")
        packet = getattr(torch.ops.aten, base)
        form = forms.with_out(getattr(packet, overload)._schema)
        return form and getattr(packet, form.overload_name, None)
    return named(None, path)


DATABASES = ("pointwise", "database")
REFUSED = ["nn.functional.hardsigmoid"]     # PyTorch has no second derivative: it is compared with differences


@functools.cache
def cases():
    """{operation or snippet: its cases}, read by the first test that wants one."""
    found = {}
    for name in golden.FILES:
        for k, case in enumerate(golden.read(name)):
            case["number"] = f"{name} {k}"
            found.setdefault(case["op"], []).append(case)
    return found


@pytest.mark.parametrize("op", sorted({op for name in DATABASES for op in golden.operations(name)}))
def test_operation(op):
    wrong = []
    for k, case in enumerate(cases()[op]):
        try:
            wrong += [f"case {k} ({case['number']}): {line}" for line in failures(case)]
        except Exception as error:
            wrong.append(f"case {k} ({case['number']}): {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong[:12])


@pytest.mark.parametrize("line", sorted(golden.operations("snippets")))
def test_snippet(line):
    wrong = compare(cases()[line][0]["out"], golden.answer(torch, line), {"loose": 1})
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", REFUSED)
def test_second_derivative(name):
    x = torch.from_numpy(golden.weights(37) * 2.7).requires_grad_()
    assert torch.autograd.gradgradcheck(named(None, name), (x,))
