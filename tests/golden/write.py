#!/usr/bin/env python3
"""Write the golden values: write.py ORACLE [pointwise|database|snippets...], by a Python that has PyTorch.

ORACLE is the folder of opinfo.py, which knows what of PyTorch's operator database cannot be compared. The calls come
from that database, from the rows of src/kernels/pointwise.def, and from snippets.txt.
"""
import collections
import itertools
import math
import pathlib
import random
import re
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), sys.argv[1]]
import golden  # noqa: E402
import torch  # noqa: E402
import torch.overrides  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
import special_cases  # noqa: E402

torch.set_num_threads(1)
# Two dtypes of each class: the first sample is of the first one, the second of the second.
CLASSES = {"float": ("float32", "float64"), "complex": ("complex64", "complex128"), "half": ("bfloat16", "float16"),
           "integer": ("int64", "uint8"), "bool": ("bool", "bool")}
SAMPLES = {"float": 8, "complex": 2, "half": 2, "integer": 3, "bool": 1}
LARGEST = 1500  # numbers in the arguments of a case
RAW = {torch.bfloat16: torch.int16}


class Unsuitable(Exception):
    """A call that the format does not cover."""


def dtype_name(t):
    return str(t.dtype).removeprefix("torch.")


# ---------------------------------------------------------------- numbers

def rounded(array, bits):
    """Floating numbers with only so many significant bits, which pack better."""
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        return array
    mantissa, exponent = np.frexp(array)
    with np.errstate(all="ignore"):
        short = np.ldexp(np.rint(mantissa * 2.0**bits) / 2.0**bits, exponent).astype(array.dtype)
    return np.where(np.isfinite(array), short, array)


def raw_numbers(t):
    """The numbers of a contiguous tensor as they are stored."""
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    if t.is_complex():
        t = torch.view_as_real(t)
    return t.view(RAW.get(t.dtype, t.dtype)).numpy().ravel().view(golden.STORED[dtype_name(t)])


def coarse(t):
    """t with its numbers rounded to 12 bits, or to 16 where that would make equal what was not."""
    if not (t.is_floating_point() or t.is_complex()) or t.element_size() < 4 or t.numel() == 0:
        return t
    grad, flat = t.requires_grad, torch.view_as_real(t.detach()) if t.is_complex() else t.detach()
    for bits in (12, 16):
        short = torch.from_numpy(rounded(flat.contiguous().numpy(), bits))
        if short.unique().numel() == flat.unique().numel():
            break
    with torch.no_grad():
        flat.copy_(short)
    return t.requires_grad_(grad)


def stored(t):
    """How many numbers the memory of a tensor has."""
    if t.layout is not torch.strided:
        raise Unsuitable
    return t.untyped_storage().nbytes() // t.element_size()


def each_tensor(f, x):
    if isinstance(x, torch.Tensor):
        return f(x)
    if isinstance(x, (list, tuple)) and not isinstance(x, torch.Size):
        items = [each_tensor(f, y) for y in x]
        return items if isinstance(x, list) else type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return {k: each_tensor(f, y) for k, y in x.items()} if isinstance(x, dict) else x


def tensors_in(x):
    found = []
    each_tensor(found.append, x)
    return found


def copied(x):
    """Arguments with tensors of their own; one that is met twice stays one."""
    memo = {}

    def copy(t):
        if id(t) not in memo:
            n, whole = stored(t), t.detach()
            if t.is_neg() or t._is_zerotensor() or dtype_name(t) not in golden.STORED:
                raise Unsuitable
            if n != t.numel() or not t.is_contiguous():
                made = whole.as_strided((n,), (1,), 0).clone().as_strided(t.shape, t.stride(), t.storage_offset())
            else:
                made = whole.clone(memory_format=torch.contiguous_format)
            memo[id(t)] = (t, made.requires_grad_(t.requires_grad))
        return memo[id(t)][1]

    return each_tensor(copy, x)


def in_double(x):
    """The same arguments in double precision, or None where none is in single."""
    changed = []

    def double(t):
        wider = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(t.dtype)
        changed.extend([t] if wider else [])
        return t.detach().to(wider).requires_grad_(t.requires_grad) if wider else t.detach().clone()

    memo = {}
    made = each_tensor(lambda t: memo.setdefault(id(t), (double(t), t))[0], x)
    return made if changed else None


# ---------------------------------------------------------------- nodes

class Case:
    """One call on its way into a file."""

    def __init__(self, numbers):
        self.numbers, self.memo = numbers, {}

    def argument(self, x):
        """x as JSON; the numbers of tensors go to the numbers."""
        match x:
            case torch.Tensor():
                return self.tensor(x)
            case bool() | int() | str() | None:
                return x
            case float():
                return x if math.isfinite(x) else {"f": str(x)}
            case complex():
                return {"c": [self.argument(x.real), self.argument(x.imag)]}
            case torch.Size():
                return {"size": list(x)}
            case list():
                return [self.argument(y) for y in x]
            case tuple():
                return {"tuple": [self.argument(y) for y in x]}
            case dict():
                return {"dict": [[k, self.argument(y)] for k, y in x.items()]}
            case slice():
                return {"slice": [self.argument(y) for y in (x.start, x.stop, x.step)]}
            case torch.dtype() | torch.layout() | torch.memory_format():
                return {"name": str(x).removeprefix("torch.")}
            case torch.device():
                return {"device": str(x)}
        if x is ...:
            return {"...": 0}
        if isinstance(x, np.ndarray):
            return {"array": self.tensor(torch.from_numpy(x.copy()))}
        if isinstance(x, np.generic):
            return self.argument(x.item())
        raise Unsuitable(type(x))

    def tensor(self, t):
        if id(t) in self.memo:
            return {"R": self.memo[id(t)][0]}
        node = {"T": dtype_name(t), "shape": list(t.shape)}
        if node["T"] not in golden.STORED or t.layout is not torch.strided:
            raise Unsuitable
        whole = t.detach()
        if whole.is_conj():
            node["conj"], whole = 1, whole.conj()
        n = stored(whole)
        if t.numel() and (n != t.numel() or not t.is_contiguous()):
            whole = whole.as_strided((n,), (1,), 0)
            node.update(n=n, strides=list(t.stride()), offset=t.storage_offset())
        if t.requires_grad:
            node["grad"] = 1
        self.memo[id(t)] = (len(self.memo), t)
        self.numbers.put(golden.STORED[node["T"]], raw_numbers(whole))
        return node

    def result(self, x, how=None):
        """A result as JSON: names of a namedtuple's fields, tensors as numbers to compare with."""
        if isinstance(x, torch.Tensor):
            if x.layout is not torch.strided or dtype_name(x) not in golden.STORED:
                raise Unsuitable
            node = {"V": dtype_name(x), "shape": list(x.shape)}
            if how:
                node[how] = 1
            raw = raw_numbers(x)
            if how == "any":
                raw = np.zeros_like(raw)
            elif how == "abs":
                raw = np.abs(raw)
            n = len(raw)
            part = raw if n <= golden.WHOLE else raw[golden.chosen(n)]
            self.numbers.put(golden.STORED[node["V"]], rounded(part, 27 if part.dtype.itemsize == 8 else 18))
            if n > golden.WHOLE:
                self.numbers.put("<f8", golden.sums(node["V"], raw) if not golden.is_inexact(node["V"]) else rounded(golden.sums(node["V"], raw), 30))
            return node
        if isinstance(x, tuple) and (hasattr(x, "_fields") or hasattr(type(x), "__match_args__")):
            names = getattr(x, "_fields", None) or type(x).__match_args__
            how = how or [None] * len(names)
            return {"named": [[name, self.result(y, h)] for name, y, h in zip(names, x, how)]}
        if isinstance(x, (list, tuple)):
            how = how if isinstance(how, list) else [how] * len(x)
            items = [self.result(y, h) for y, h in zip(x, how)]
            return items if isinstance(x, list) else {"tuple": items}
        return {"is": self.argument(x)}


class Book:
    """The cases of one file, and their numbers."""

    def __init__(self):
        self.cases, self.numbers = [], golden.Numbers()

    def add(self, path, args, kwargs, how=None, compared=None, flags="", **more):
        """Call the function at `path` and write down the case. False: PyTorch refuses, or the format does."""
        f = find(path)
        scratch = golden.Numbers()
        case = Case(scratch)
        try:
            args, kwargs = copied((args, kwargs))
            leaves = [t for t in tensors_in((list(args), kwargs)) if t.requires_grad]
            leaves = list({id(t): t for t in leaves}.values())
            node = {"op": path, "args": case.argument(list(args))}
            if kwargs:
                node["kwargs"] = case.argument(kwargs)["dict"]
            torch.manual_seed(0)
            state = torch.get_rng_state()
            precise = in_double((args, kwargs))
            out = f(*args, **kwargs)
            if not torch.equal(state, torch.get_rng_state()):
                flags += "s"
                precise = None
                if any(t.dtype in (torch.float16, torch.bfloat16) for t in tensors_in(out)):
                    raise Unsuitable
            node["out"] = case.result(out, how)
            node["grads"] = self.gradients(case, out, leaves, compared)
            if compared is not None:
                node["from"] = compared
            loose = max(more.get("loose", 1), precise and self.rounding(f, precise, out, leaves, compared) or 1)
            if loose > 64:
                raise Unsuitable
            if loose > 1:
                more["loose"] = loose
        except Unsuitable:
            return False
        except Exception:
            return False
        if not node["grads"]:
            del node["grads"]
        if flags:
            node["flags"] = flags
        node.update(more)
        for kind, arrays in scratch.stored.items():
            self.numbers.stored.setdefault(kind, []).extend(arrays)
        self.cases.append(node)
        return True

    def rounding(self, f, precise, out, leaves, compared):
        """By how much PyTorch's own rounding exceeds half the tolerance: a factor, from the same call in double precision."""
        try:
            args, kwargs = precise
            right = f(*args, **kwargs)
            others = list({id(t): t for t in tensors_in((list(args), kwargs)) if t.requires_grad}.values())
            self.backward(right, compared)
        except Exception:
            return 1
        pairs = list(zip(tensors_in(out), tensors_in(right))) + [(a.grad, b.grad) for a, b in zip(leaves, others) if a.grad is not None and b.grad is not None]
        worst = 0.5
        for a, b in pairs:
            if dtype_name(a) in ("float32", "complex64") and a.shape == b.shape and a.numel():
                rtol, atol = golden.TOLERANCE["float32"]
                off = ((a.detach().to(b.dtype) - b.detach()).abs() / (atol + rtol * b.detach().abs())).nan_to_num(0, 0, 0).max().item()
                worst = max(worst, off)
        return 2 ** math.ceil(math.log2(2 * worst))

    def backward(self, out, compared):
        done = False
        for i, t in enumerate(tensors_in(out)):
            if t.requires_grad and (compared is None or i in compared):
                t.backward(torch.from_numpy(golden.weights(t.numel(), i)).reshape(t.shape).to(t.dtype), retain_graph=True)
                done = True
        return done

    def gradients(self, case, out, leaves, compared):
        """The gradients of the leaves, those of sum(output * weights)."""
        try:
            done = self.backward(out, compared)
        except RuntimeError:
            return []
        return [case.result(t.detach() * 0 if t.grad is None else t.grad) for t in leaves] if done else []


def find(path):
    f = torch
    for name in path.split("."):
        f = getattr(f, name)
    return f


# ---------------------------------------------------------------- PyTorch's operator database

class Recorder(torch.overrides.TorchFunctionMode):
    """Writes down the outermost calls of functions of torch."""

    def __init__(self):
        self.calls = []

    def __torch_function__(self, f, types, args=(), kwargs=None):
        before = copied((args, kwargs or {}))
        out = f(*args, **(kwargs or {}))
        self.calls.append((torch.overrides.resolve_name(f), *before, out))
        return out


def named_path(op):
    try:
        return op.name if find(op.name) is op.op else None
    except AttributeError:
        return None


def call_of(op, sample):
    """(path, args, kwargs) of what a sample calls, or None."""
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    path = named_path(op)
    if path:
        return path, args, kwargs
    with Recorder() as recorder:
        out = op.op(*args, **kwargs)
    for name, args, kwargs, result in recorder.calls:
        if result is out and name:
            path = name.removeprefix("torch.")
            path = "ops." + path if path.startswith("aten.") else path
            find(path)
            return path, args, kwargs
    return None


def signature(x):
    """The kind of a call: what of its arguments chooses a way through the code."""
    if isinstance(x, torch.Tensor):
        return "T", x.dim(), x.is_contiguous(), dtype_name(x)
    if isinstance(x, (list, tuple)):
        return type(x).__name__, *map(signature, x)
    if isinstance(x, dict):
        return tuple((k, signature(v)) for k, v in sorted(x.items()))
    if isinstance(x, (bool, str)) or x is None:
        return x
    if isinstance(x, (int, float)):
        return type(x).__name__, (x > 0) - (x < 0)
    return str(x)


def worth(call):
    """Samples with between 17 and 300 numbers first: they reach the loops that work on many at once, and the rest."""
    _, args, kwargs = call
    sizes = [t.numel() for t in tensors_in((list(args), kwargs))]
    n = sum(sizes)
    return (0 < n <= 320, max(sizes, default=0) >= 17, min(n, 40), -n)


def samples_of(op, dtype, grad, n):
    """Up to n calls of an operation, each of another kind if there are as many."""
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(0)
    calls = []
    samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
    while len(calls) < 160:
        try:
            sample = next(samples, None) if hasattr(samples, "__next__") else next(samples := iter(samples), None)
            if sample is None:
                break
            call = call_of(op, sample)
            if call and sum(map(stored, tensors_in((list(call[1]), call[2])))) <= LARGEST:
                calls.append(call)
        except Exception:
            continue    # PyTorch refuses it, or the format does not cover it
    groups = collections.OrderedDict()
    for call in sorted(calls, key=worth, reverse=True):
        groups.setdefault(signature(call[1:]), []).append(call)
    rounds = itertools.chain.from_iterable(itertools.zip_longest(*groups.values()))
    return [call for call in rounds if call is not None][:3 * n]


def database():
    book = Book()
    for op in sorted(op_db, key=lambda op: op.full_name):
        if op.name in special_cases.UNSUPPORTED or op.name.startswith(("sparse.", "masked.")) and False:
            continue
        before = len(book.cases)
        for which, dtypes in CLASSES.items():
            done = 0
            for turn in range(2):
                dtype = getattr(torch, dtypes[turn])
                if dtype not in op.supported_dtypes("cpu"):
                    continue
                grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
                share = (SAMPLES[which] + 1) // 2
                calls = samples_of(op, dtype, grad, share)
                took = 0
                for path, args, kwargs in calls[turn * share if len(calls) > share and turn else 0:]:
                    if took == share or done == SAMPLES[which]:
                        break
                    took += database_case(book, op, path, args, kwargs)
                done += took
        print(op.full_name, len(book.cases) - before, flush=True)
    return book


def database_case(book, op, path, args, kwargs):
    how = compared = None
    if op.name in special_cases.UNDEFINED:
        how = "any"
    elif op.name in special_cases.GAUGE:
        how, compared = ["abs"] * 3, [1] if "svd" in op.name else [0]
    elif op.name in special_cases.TIES:
        if sample_has_ties(args[0]):
            return False
    if op.name.startswith("empty"):
        how = "any"
    flags = ("o" if op.supports_out else "") + ("i" if op.inplace_variant and path == op.name else "")
    loose = special_cases.WIDER.get(op.name, (1, 0))[0]
    more = {"loose": loose} if loose != 1 else {}
    short = each_tensor(coarse, copied((args, kwargs)))
    return book.add(path, *short, how, compared, flags, **more) or book.add(path, args, kwargs, how, compared, flags, **more)


def sample_has_ties(t):
    return isinstance(t, torch.Tensor) and t.unique().numel() < t.numel()


# ---------------------------------------------------------------- the rows of pointwise.def

# Operations that run loops of pointwise.def which have no schema of their own.
MORE = ["div.Tensor_mode", "div.Scalar_mode", "clamp", "clamp.Tensor", "clamp_min", "clamp_max", "clamp_min.Tensor", "clamp_max.Tensor",
        "nan_to_num", "round.decimals", "gelu", "gelu_backward", "log_sigmoid", "softplus", "prelu",
        "rrelu", "celu", "selu", "relu6", "mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "where.self",
        "masked_fill.Scalar", "isin.Tensor_Tensor", "isclose", "float_power.Tensor_Tensor", "float_power.Tensor_Scalar", "real", "imag",
        "polar", "complex", "logical_not", "add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar", "remainder.Scalar", "fmod.Scalar", "mvlgamma",
        "logaddexp", "ldexp.Tensor", "frexp.Tensor", "special_log_softmax", "glu", "hardswish", "dist", "rsub.Scalar", "lerp.Scalar"]

# Numbers for the arguments that are no tensors, by their names.
NUMBERS = {"alpha": 1.5, "beta": 1.3, "value": 0.75, "threshold": 0.25, "negative_slope": 0.125, "lambd": 0.375, "min_val": -0.625,
           "max_val": 1.125, "eps": 0.0625, "input_scale": 0.75, "scale": 1.375, "is_result": False, "self_is_result": False, "n": 2,
           "self": 1.75, "exponent": 2.5, "weight": 0.375, "other": 1.25, "min": -0.875, "max": 1.375, "nan": 0.5, "posinf": 9.0,
           "neginf": -8.0, "decimals": 1, "approximate": "tanh", "rounding_mode": "floor", "p": 2, "lower": 0.125, "upper": 0.375,
           "training": False, "reduction": 1, "delta": 0.75, "dim": -1, "rtol": 0.05, "atol": 0.02, "equal_nan": True, "assume_unique": False,
           "invert": False, "x": 1.75}
CHOICES = {"n": (0, 1, 2, 3), "is_result": (False, True), "approximate": ("none", "tanh"), "rounding_mode": ("floor", "trunc"),
           "decimals": (1, -1), "exponent": (2.5, 2, 3, -2, 0.5, -1, 0, 1, -0.5), "eps": (None, 0.0625, 0.0), "reduction": (0, 1, 2), "weight": (0.375, 0.75)}
RANGES = ((-4, 4), (-1, 1), (0, 1), (0.1, 6), (1.05, 6), (-30, 30))
ODD = {"float": [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, 1e-3, -1e-3, 25.0, -25.0, 100.0, -2.5, 1.5, 3.0, -3.0, 0.25, 0.375, -0.375, -0.625, 1.125],
       "complex": [0j, 1 + 0j, -1 + 0j, 1j, 1e-3 + 1e-3j, 20 - 3j, -2.5 + 0j], "half": [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 30.0]}


# Numbers that meet in two operands; every third of the other ones are equal, too. NaN and infinities only where they have a meaning of
# their own: elsewhere PyTorch's vector loops and its plain ones differ.
PAIRS = [(0.0, 0.0), (0.0, -1.0), (1.0, 0.0), (-0.0, 0.0), (0.0, -2.0), (-2.0, 0.0), (1.0, 0.25), (1.0, -0.625), (1.0, 1.125), (1.0, 0.375), (1.0, -0.375), (0.25, 1.0),
         (-0.625, 1.0), (1.125, 1.0), (0.375, 1.0), (-0.375, 1.0)]
ODD_PAIRS = [(0.0, math.nan), (math.nan, 0.0), (2.0, math.nan), (math.nan, 2.0), (math.inf, math.inf), (math.inf, -math.inf), (math.nan, math.nan), (2.0, math.inf), (-math.inf, 3.0)]
ODD_MATTERS = re.compile(r"aten\.((f?max|f?min|maximum|minimum|eq|ne|lt|le|gt|ge|heaviside|copysign|nan_to_num)\.|greater|less|not_equal|logical|(special_)?xlog|is)")


def schemas():
    """Names of ATen's overloads for the rows of the table."""
    text = (HERE.parent.parent / "src/kernels/pointwise.def").read_text()
    names = []
    for line in text.splitlines():
        kind, _, rest = line.partition("(")
        if kind in ("ROW", "OVERLOAD"):
            found = re.search(r'"([\w.]+)\(', rest)
            names += [found.group(1)] if found else []
        elif kind in ("UNARY", "UNARY_REAL", "UNARY_ARGS", "TEST1", "BINARY_PLAIN"):
            names.append(rest.split(",")[0])
        elif kind in ("BINARY", "TEST2"):
            names += [rest.split(",")[0] + ".Tensor", rest.split(",")[0] + ".Scalar"]
        elif kind == "POLYNOMIAL":
            names.append("special_" + rest.split(")")[0])
        elif kind == "ALIAS":
            name = rest.split(",")[0]
            names += [name, name + ".Tensor"]
    return names + MORE


def numbers_in(draw, low, high, shape, dtype, odd):
    """A tensor of numbers that follow no symmetry; with `odd`, some of them special."""
    n = math.prod(shape)
    real = torch.rand(n, generator=draw, dtype=torch.float64) * (high - low) + low
    if dtype == torch.bool:
        t = real > low + 0.4 * (high - low)
    elif dtype.is_complex:
        t = torch.complex(real, torch.rand(n, generator=draw, dtype=torch.float64) * (high - low) + low)
        for i, v in enumerate(ODD["complex"] if odd else ()):
            t[(5 * i + 2) % n] = v
    elif dtype.is_floating_point:
        t = real
        for i, v in enumerate(ODD["float" if dtype.itemsize > 2 else "half"] if odd else ()):
            t[(5 * i + 2) % n] = v
    else:
        low, high = (0 if dtype == torch.uint8 else -19 if high > 1 else 1), 23
        t = torch.randint(low, high, (n,), generator=draw)
    return coarse(t.to(dtype)).reshape(shape)


def place(t, how):
    """The same numbers in another order of memory."""
    if how == "transposed":
        return t.t().contiguous().t()
    if how == "every second":
        wide = torch.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype)
        wide[..., ::2] = t
        return wide[..., ::2]
    return t


def number_for(a, dtype, choice):
    name = a.name
    if name in CHOICES:
        v = CHOICES[name][choice % len(CHOICES[name])]
    elif name in NUMBERS:
        v = NUMBERS[name]
    elif a.has_default_value():
        return a.default_value
    else:
        raise Unsuitable(name)
    if isinstance(v, float) and "int" in str(a.type):
        v = int(v) + 1
    if isinstance(v, float) and not (dtype.is_floating_point or dtype.is_complex) and str(a.type) in ("number", "Optional[number]"):
        v = int(v) + (2 if v > 0 else -1)
    return v


def pointwise():
    book, missing = Book(), []
    for name in dict.fromkeys(schemas()):
        base, _, overload = name.partition(".")
        path = f"ops.aten.{base}.{overload or 'default'}"
        try:
            schema = find(path)._schema
        except AttributeError:
            missing.append(name)
            continue
        before = len(book.cases)
        for which, dtypes in CLASSES.items():
            rounds = max([3] + [len(CHOICES[a.name]) for a in schema.arguments if a.name in CHOICES and "Tensor" not in str(a.type)])
            for turn in range(rounds if which in ("float", "integer") else 2):
                pointwise_case(book, path, schema, which, getattr(torch, dtypes[turn % 2]), turn)
        print(name, len(book.cases) - before, flush=True)
    print("not in PyTorch:", *missing)
    return book


def pointwise_case(book, path, schema, which, dtype, turn):
    """The first turn: 37 numbers in a row from the range that gives most finite results. The second: odd numbers, broadcast
    and strided. The third: equal numbers, and odd ones together."""
    differentiable = which in ("float", "complex", "half")
    second, third = turn % 3 == 1, turn % 3 == 2

    def arguments(low, high, odd, only=None):
        draw = torch.Generator().manual_seed(11 + turn)
        args, kwargs, k, first = [], {}, 0, None
        for a in schema.arguments:
            if "Tensor" in str(a.type):
                if a.name == "weight" and "prelu" in path and second is False:
                    shape = (1,)
                else:
                    shape = ((5, 7), (5, 1), (7,))[min(k, 2)] if second else (37,)
                if "backward" in path or "Optional" in str(a.type) or "loss" in path:
                    shape = (5, 7) if second else (37,)
                wanted = torch.bool if a.name in ("condition", "mask") else dtype
                v = numbers_in(draw, low, high, shape, wanted, odd and k < 2)
                if third and wanted == dtype and k < 2 and shape == (37,):
                    if first is not None:
                        v[::3] = first[::3]
                    first = v.clone()
                    for i, pair in enumerate((PAIRS + ODD_PAIRS if ODD_MATTERS.search(path) else PAIRS) if which == "float" else ()):
                        v[(2 * i + 1) % 37] = pair[k]
                v = v.abs() + 0.1 if a.name == "abs" and dtype.is_floating_point else v    # polar's
                v = place(v, ("transposed", "every second")[k % 2] if second and len(shape) > 1 and shape[1] > 1 else None)
                v = v.requires_grad_(differentiable and wanted == dtype and only in (None, k))
                k += 1
            else:
                v = number_for(a, dtype, turn)
            if a.kwarg_only or a.name == "alpha" and k < 2 and "Scalar" in path:
                kwargs[a.name] = v
            else:
                args.append(v)
        return args, kwargs

    def finite(span):
        try:
            args, kwargs = arguments(*span, False)
            out = tensors_in(find(path)(*args, **kwargs))[0]
            share = out.isfinite().double().mean().item() if out.dtype != torch.bool else 1
            return round(share * min(out.unique().numel(), 20) / 20, 2)
        except Exception:
            return -1

    try:
        spans = sorted(RANGES, key=finite, reverse=True)
        odd = bool(second) and differentiable
        args, kwargs = arguments(*spans[0], odd)
    except Unsuitable:
        return
    flags = "io" if not any(a.alias_info for a in schema.arguments) else ""
    operands = sum("Tensor" in str(a.type) for a in schema.arguments)
    if book.add(path, args, kwargs, flags=flags):
        for k in range(operands if differentiable and operands > 1 and "grads" not in book.cases[-1] else 0):
            book.add(path, *arguments(*spans[0], odd, k), flags=flags)     # some have a derivative by one operand only
    else:
        free = each_tensor(lambda t: t.detach(), (args, kwargs))
        book.add(path, *free, flags=flags)


# ---------------------------------------------------------------- snippets

def snippets():
    book = Book()
    lines = [line for line in (HERE / "snippets.txt").read_text().splitlines() if line and not line.startswith("#")]
    for line in lines:
        case = Case(book.numbers)
        torch.manual_seed(0)
        book.cases.append({"op": line, "out": case.result(golden.answer(torch, line))})
    return book


def main():
    for name in sys.argv[2:] or golden.FILES:
        book = globals()[name]()
        print(f"{name}: {len(book.cases)} cases, {golden.write(name, book.cases, book.numbers)} bytes")


if __name__ == "__main__":
    main()
