"""What the lines of the fuzzer of operations are made of: tensors from a size, a dtype and a seed, and what is called with them.

A line is one expression of Python over the names of run(). It says all that the call needs, so that what was found can be
repeated; tensors it made are numbered, so that again(0) is the first of them once more, or a view of it.
"""
import collections
import copy
import functools
import io
import math
import operator
import pickle
import random
import re

import rushlight as torch

FLOATS = ["float32", "float64", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128", "complex32"]
INTS = ["int64", "int32", "uint8", "int8", "int16"]
RARE = ["bool", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
SPARSE = ["coo", "csr", "csc", "bsr", "bsc"]
ODD_NUMBERS = [math.nan, math.inf, -math.inf, 1e308, -0.0, 5e-324]
ODD_INTS = [-1, 2**31 - 1, 2**31, -2**31, 2**40, 2**62, 2**63 - 1, -2**63, 2**63, 2**70]


class T(collections.namedtuple("T", "size dtype seed how")):
    """A tensor of a line: t(size, dtype, seed of its values, how it lies)."""
    def __repr__(self):
        return f"t({self.size}, {self.dtype!r}, {self.seed}{', ' + repr(self.how) if self.how else ''})"


class Again(collections.namedtuple("Again", "number how")):
    """A tensor that the line made before: again(its number, what of it)."""
    def __repr__(self):
        return f"again({self.number}, {self.how!r})"


class Code(str):
    __repr__ = str.__str__


@functools.lru_cache(None)
def table(kind, low=0, high=0):
    """Two thousand numbers of a kind, from which tensors take theirs."""
    rng = random.Random(f"{kind} {low} {high}")
    draw = {"odd": lambda: rng.choice(ODD_NUMBERS), "share": rng.random, "whole": lambda: float(rng.randint(-3, 3)), "zero": lambda: 0.0, "gauss": lambda: rng.gauss(0, 1),
            "bool": lambda: rng.random() < 0.5, "integer": lambda: rng.randint(low, high), "edge": lambda: rng.choice([low, high, -1 if low else 0])}[kind]
    return [draw() for _ in range(2000)]


def values(size, dtype, seed):
    """A flat list of numbers; the last decimal digit of the seed says of what kind."""
    n, digit = math.prod(size), seed % 10
    if dtype == "bool":
        numbers = table("bool")
    elif "int" in dtype:
        low, high = {0: (-3, 3), 1: (0, 1), 2: (0, 8), 9: (-100, 100)}.get(digit, (0, max(min(size, default=1) - 1, 0)))
        numbers = table("integer", 0 if dtype[0] == "u" else low, high)
        if digit == 8:
            bits = int(re.sub(r"\D", "", dtype))
            numbers = table("edge", *((0, 2**bits - 1) if dtype[0] == "u" else (-2**(bits - 1), 2**(bits - 1) - 1)))
    else:
        numbers = table({0: "odd", 1: "share", 2: "whole", 3: "zero"}.get(digit, "gauss"))
    at = seed // 10 * 7 % 1000  # seeds are below 1000
    if dtype in COMPLEX:
        numbers = [complex(a, b) for a, b in zip(numbers[at:at + min(n, 999)], numbers[at + 1:])]
    else:
        numbers = numbers[at:at + min(n, 999)]
    return numbers if n < 1000 else (numbers * (n // 999 + 1))[:n]


def t(size, dtype, seed, how=""):
    words = how.split()
    size, kind = tuple(size), getattr(torch, dtype)
    if "meta" in words:
        x = torch.empty(size, dtype=kind, device="meta")
    elif math.prod(size) > 1 << 18:
        raise MemoryError("a tensor too large for such a line")
    else:
        x = torch.tensor(values(size, dtype, seed), dtype=torch.complex64 if dtype == "complex32" else kind).to(kind).view(size)
    for w in words:
        if w == "turned" and x.dim() > 1:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        elif w == "stepped" and x.dim():
            x = torch.cat([x, x], -1)[..., ::2]
        elif w == "expanded" and x.dim() and x.size(0):
            x = x[:1].expand(size)
        elif w == "overlapping" and x.numel():
            x = x.as_strided(size, [1] * x.dim())
        elif w == "conj" and x.is_complex():
            x = x.conj()
        elif w == "coo":
            x = x.to_sparse()
        elif w == "uncoalesced":
            x = torch.sparse_coo_tensor(*(lambda y: (torch.cat([y._indices()] * 2, 1), torch.cat([y._values()] * 2)))(x.to_sparse()), size)
        elif w == "hybrid":
            x = x.to_sparse(1)
        elif w in ("csr", "csc"):
            x = getattr(x, "to_sparse_" + w)()
        elif w in ("bsr", "bsc"):
            x = getattr(x, "to_sparse_" + w)((1, 1))
        elif w == "grad":
            x = x.detach().requires_grad_()
        elif w == "inner":
            x = x.detach().requires_grad_() * 1
    return x


class Changing:
    """An item whose __index__ and __float__ change the list that it is in."""
    def __init__(self, target, value, how):
        self.target, self.value, self.how = target, value, how

    def __index__(self):
        if self.how == "clear":
            self.target.clear()
        elif self.how == "grow":
            self.target.extend([1] * 1000)
        elif self.how == "replace":
            self.target[:] = [object() for _ in self.target]
        return self.value

    def __float__(self):
        return float(self.__index__())


def changing(how, n):
    items = []
    items.extend(Changing(items, 1, how) for _ in range(n))
    return items


VIEWS = {
    "same": lambda x: x, "alias": lambda x: x.detach(), "flat": lambda x: x.view(-1), "turned": lambda x: x.transpose(0, -1), "half": lambda x: x[:x.size(0) // 2],
    "row": lambda x: x[-1], "later": lambda x: x.reshape(-1)[1:], "stepped": lambda x: x[..., ::2], "expanded": lambda x: x[:1].expand(x.shape), "last": lambda x: x.view(-1)[-1:],
    "bytes": lambda x: x.view(torch.uint8), "backwards": lambda x: x.as_strided(x.shape, x.stride()[::-1]), "windows": lambda x: x.unfold(-1, 2, 1), "values": lambda x: x._values(),
}


def again(number, how):
    return VIEWS[how](seen[number % len(seen)]) if seen else t((), "float32", 0)


def itself():
    """A list that is in itself."""
    items = [1]
    items.append(items)
    return items


def op(name, inplace=False):
    if name in PYTHON:
        return PYTHON[name][1]
    base, _, overload = name.partition(".")
    try:
        found = torch._C._get_operation_overload("aten::" + base + ("_" if inplace else ""), overload)
    except RuntimeError:  # "No such operator"
        found = None
    return found and found[0]


def call(base, how):
    """The name as programs call it: a function that finds its overload, or a method of the first argument."""
    if how == "method":
        return lambda x, *args, **named: getattr(x, base)(*args, **named)
    for place in (torch, torch._C._nn, torch.special, torch.linalg, torch.fft):
        found = getattr(place, base, None) or getattr(place, base.partition("_")[2], None)
        if found:
            return found
    return getattr(torch.ops.aten, base)


def tensors(x):
    return [x] if isinstance(x, torch.Tensor) else [y for z in x for y in tensors(z)] if isinstance(x, (tuple, list)) else []


def backward(result, how=""):
    """Backward from all results that want it; "twice": a second one through the first; "sparse", "expanded": of the first's gradient."""
    roots = [r for r in tensors(result) if r.requires_grad][:1 << 16]  # a million gradients take longer to make than to use
    if not roots:
        return result
    grads = [torch.ones_like(r) for r in roots]
    if how == "expanded":
        grads = [torch.ones((), dtype=r.dtype).expand(r.shape) for r in roots]
    elif how == "sparse":
        grads = [g.to_sparse() for g in grads]
    elif how == "odd":
        grads = [g * math.nan for g in grads]
    if how != "twice":
        return torch.autograd.backward(roots, grads)
    leaves = [leaf for leaf in seen if leaf.requires_grad]
    first = torch.autograd.grad(roots, leaves, grads, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        torch.autograd.backward(again, [torch.ones_like(g) for g in again])
    return result


# ---- what has no schema of its own: a schema for drawing, and the function ----

def assign(x, index, value):
    x[index] = value
    return x


def attribute(x, name, value):
    setattr(x, name, value)
    return x


def stored(x):
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def resized(x, n, how):
    """The tensor after its storage took another size."""
    x.untyped_storage().resize_(min(n, 1 << 20))
    return {"sum": torch.sum, "copy": torch.clone, "fill": lambda y: y.fill_(1), "list": lambda y: y.tolist(), "nonzero": torch.nonzero}.get(how, torch.neg)(x)


def stale(x, n, how):
    """What points into a storage's memory, after that grew, moved or went."""
    s = x.untyped_storage()
    view = s[:n] if how[0] == "part" else memoryview(s if how[0] == "bytes" else x)
    try:
        {"grow": lambda: s.resize_(1 << 17), "resize": lambda: x.resize_(1 << 17), "share": s.share_memory_, "set": lambda: x.set_(), "data": lambda: setattr(x, "data", x + 1)}[how[1]]()
    finally:
        del s, x
        seen.clear()
        told = sum(view.tolist()) if how[0] == "part" else bytes(view)
    return told


def sized(x, n, m, how):
    """What a tensor's storage gives, item by item or in part."""
    s = x.untyped_storage()
    return {"item": lambda: s[n], "part": lambda: s[n:m], "set": lambda: s.__setitem__(n, m), "sets": lambda: s.__setitem__(slice(n, m), 1), "list": lambda: s.tolist(),
            "clone": lambda: s.clone(), "copy": lambda: s.copy_(x.untyped_storage()), "typed": lambda: x.storage()[n], "like": lambda: torch.empty(0, dtype=x.dtype).set_(s, n, x.shape, x.stride())}[how]()


def derived(outputs, inputs, grads, create, unused):
    """Gradients of the outputs' products with themselves."""
    return torch.autograd.grad([y * y for y in outputs], inputs, grads, create_graph=create, allow_unused=unused)


OPERATORS = {"add": operator.add, "radd": lambda a, b: b + a, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv, "rfloordiv": lambda a, b: b // a, "mod": operator.mod, "rmod": lambda a, b: b % a,
            "pow": operator.pow, "rpow": lambda a, b: b ** a, "matmul": operator.matmul, "and": operator.and_, "ror": lambda a, b: b | a, "lshift": operator.lshift, "rrshift": lambda a, b: b >> a, "eq": operator.eq, "lt": operator.lt,
            "iadd": operator.iadd, "imul": operator.imul, "idiv": operator.itruediv, "ifloordiv": operator.ifloordiv, "ipow": operator.ipow, "ixor": operator.ixor, "imod": operator.imod, "in": operator.contains}


WORDS = {  # of an argument that is a word, by the operation
    "py.operator": [*OPERATORS],
    "py.attribute": ["T", "mT", "H", "mH", "real", "imag", "grad", "data", "grad_fn", "_version", "is_leaf", "shape", "itemsize", "nbytes", "layout", "_base", "names", "output_nr", "requires_grad", "_backward_hooks", "is_sparse_csr"],
    "py.assign": ["data", "grad", "real", "imag", "requires_grad", "names", "_backward_hooks", "T"],
    "py.convert": ["tolist", "item", "__len__", "__iter__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__repr__", "__hash__", "numel", "data_ptr", "element_size", "stride", "size", "is_contiguous", "__reduce_ex__"],
    "py.storage": ["item", "part", "set", "sets", "list", "clone", "copy", "typed", "like"],
    "py.resized": ["sum", "copy", "fill", "list", "nonzero", "neg"],
    "py.stale": [f"{a} {b}" for a in ("part", "bytes", "items") for b in ("grow", "resize", "share", "set", "data")],
    "py.keep": ["deepcopy", "pickle", "save"],
}
PYTHON = {schema.split("(")[0]: (schema, function) for schema, function in {
    "py.get(Tensor self, Index index) -> Tensor": lambda x, index: x[index],
    "py.set(Tensor self, Index index, Any value) -> Tensor": assign,
    "py.tensor(Nested data, *, ScalarType? dtype=None, bool requires_grad=False) -> Tensor": lambda *args, **named: torch.tensor(*args, **named),
    "py.as_tensor(Nested data, ScalarType? dtype=None) -> Tensor": lambda *args, **named: torch.as_tensor(*args, **named),
    "py.asarray(Any data, *, ScalarType? dtype=None, bool? copy=None) -> Tensor": lambda *args, **named: torch.asarray(*args, **named),
    "py.new(Tensor self, Any data) -> Tensor": lambda x, data: x.new(data),
    "py.new_size(Tensor self, SymInt[] size) -> Tensor": lambda x, size: x.new(*size),
    "py.new_tensor(Tensor self, Nested data) -> Tensor": lambda x, data: x.new_tensor(data),
    "py.typed(Any data) -> Tensor": lambda data: torch.FloatTensor(data),
    "py.convert(Tensor self, str how) -> Any": lambda x, how: getattr(x, how)(*[2] if how == "__reduce_ex__" else []),
    "py.operator(Tensor self, Any other, str how) -> Tensor": lambda x, y, how: OPERATORS[how](x, y),
    "py.attribute(Tensor self, str name) -> Any": getattr,
    "py.assign(Tensor self, str name, Any value) -> Tensor": attribute,
    "py.type(Tensor self, Any dtype) -> Tensor": lambda x, dtype: x.type(dtype),
    "py.to(Tensor self, Any a, Any b) -> Tensor": lambda x, a, b: x.to(a, b),
    "py.size(Tensor self, Any dim) -> Any": lambda x, dim: (x.size(dim), x.stride(dim)),
    "py.format(Tensor self, str spec) -> str": lambda x, spec: format(x, spec) if x.numel() < 3000 else None,
    "py.keep(Tensor self, str how) -> Tensor": lambda x, how: {"deepcopy": copy.deepcopy, "pickle": lambda y: pickle.loads(pickle.dumps(y)), "save": stored}[how](x),
    "py.storage(Tensor self, int n, int m, str how) -> Any": sized,
    "py.stale(Tensor self, int n, str how) -> Any": lambda x, n, how: stale(x, n, how.split()),
    "py.resized(Tensor self, int n, str how) -> Any": resized,
    "py.map(Tensor self, Tensor other, Function f) -> Tensor": lambda x, y, f: x.map_(y, f),
    "py.map2(Tensor self, Tensor x, Tensor y, Function f) -> Tensor": lambda x, y, z, f: x.map2_(y, z, f),
    "py.apply(Tensor self, Function f) -> Tensor": lambda x, f: x.apply_(f),
    "py.frombuffer(Any data, *, ScalarType dtype, int count, int offset) -> Tensor": lambda data, dtype, count, offset: torch.frombuffer(data if isinstance(data, (bytes, bytearray)) else bytearray(40), dtype=dtype, count=count, offset=offset),
    "py.grad(Tensor[] outputs, Tensor[] inputs, Tensor[]? grads, bool create, bool unused) -> Tensor[]": derived,
    "py.backward(Tensor self, Tensor? gradient, bool retain, bool create, Tensor[]? inputs) -> ()": lambda x, g, retain, create, inputs: (x * x).backward(g, retain, create, inputs=inputs),
    "py.wrapper(SymInt[] size, SymInt[]? strides, int offset, ScalarType dtype) -> Tensor": lambda size, strides, offset, dtype: torch.Tensor._make_wrapper_subclass(torch.Tensor, size, strides, offset, dtype=dtype).sum(),
    "py.coo(Nested indices, Nested values, SymInt[]? size) -> Tensor": lambda *args: torch.sparse_coo_tensor(*args).to_dense(),
    "py.csr(Nested crow, Nested col, Nested values, SymInt[] size) -> Tensor": lambda *args: torch.sparse_csr_tensor(*args).to_dense(),
    "py.legacy(Tensor self, Scalar alpha, Tensor other, str how) -> Tensor": lambda x, alpha, y, how: getattr(x, {"sum": "add", "mean": "sub", "none": "add_"}.get(how, "addcmul"))(alpha, y),
}.items()}


seen = []  # the tensors of the line that is running, for backward and again


def run(line):
    seen.clear()
    space = {"t": lambda *a: seen.append(t(*a)) or seen[-1], "op": op, "call": call, "again": again, "backward": backward, "changing": changing, "itself": itself, "torch": torch, "nan": math.nan, "inf": math.inf}
    return eval(line, space)
