"""Which placements an operation can take, and what its results are then.

A rule looks at one dimension of the mesh and gives its choices: (placements of the tensor arguments, placements of the results). The caller
(_dispatch.py) takes the one for which the least has to travel. An operation without a rule gets copies of all, which is right for any.
"""
import rushlight as torch

from .placement_types import Partial, Replicate, Shard

R, P = Replicate(), Partial()
RULES = {}
SIZED = {}  # operation -> which argument is the size of the result


class Call:
    """An operation on whole tensors: name, arguments, the tensors' shapes, the results' shapes; in `parts` pieces at most."""

    def __init__(self, name, args, kwargs, shapes, results, parts, old):
        self.name, self.args, self.kwargs, self.shapes, self.results, self.parts, self.old = name, args, kwargs, shapes, results, parts, old

    def arg(self, place, name, default=None):
        return self.args[place] if len(self.args) > place else self.kwargs.get(name, default)

    @property
    def copies(self):
        return (R,) * len(self.shapes), (R,) * len(self.results)


class Shaped:
    """What a rule from outside sees of a tensor."""

    def __init__(self, shape):
        self.shape, self.ndim = torch.Size(shape), len(shape)


def rule(names, size=None):
    def put(function):
        for name in names.split():
            RULES[name] = function
            if size is not None:
                SIZED[name] = size
        return function
    return put


def _dims(dims, ndim):
    dims = range(ndim) if dims is None or dims == [] or dims == () else [dims] if isinstance(dims, int) else dims
    return {d % ndim if ndim else 0 for d in dims}


# ---- element by element

_LINEAR_IN_ALL = frozenset("add sub copy_".split())
_LINEAR = frozenset("neg clone detach alias _to_copy view_as_real mul div contiguous lift_fresh".split())


def pointwise(call):
    """Cut along any dimension; parts of sums stay such through linear operations."""
    shape = max((tuple(r) for r in call.results), key=len, default=())
    ndim = len(shape)
    choices = [call.copies]
    for d in range(ndim):
        cut = [Shard(d - ndim + len(s)) if ndim - len(s) <= d and s[d - ndim + len(s)] == shape[d] != 1 else R for s in call.shapes]
        if any(p.is_shard() for p in cut):
            choices.append((tuple(cut), (Shard(d),) * len(call.results)))
    base = call.name.rstrip("_")
    numbers = [a for a in call.args if isinstance(a, (int, float)) and not isinstance(a, bool)]
    ops = {p.reduce_op for p in call.old if p.is_partial()}
    for op in sorted(ops):
        some = (Partial(op),)
        if base in _LINEAR_IN_ALL and op in ("sum", "avg") and (base == "copy" or len(call.shapes) == 2 and not numbers):
            choices.append((some * len(call.shapes), some * len(call.results)))
        elif base in ("clone", "detach", "alias") or base in _LINEAR and op in ("sum", "avg") and len(call.shapes) == 1:
            choices.append((some * len(call.shapes), some * len(call.results)))
        elif base in ("mul", "div") and op in ("sum", "avg"):
            choices.append(((Partial(op), R), some))
            if base == "mul":
                choices.append(((R, Partial(op)), some))
    return choices


@rule("zeros_like ones_like empty_like rand_like randn_like full_like")
def like(call):
    return [call.copies] + [((Shard(d),), (Shard(d),)) for d in range(len(call.shapes[0]))] + [((p,), (R,)) for p in call.old if p.is_partial()]


@rule("new_zeros new_ones new_empty new_full new_empty_strided")
def fresh(call):
    return [((call.old[0],), (R,)), call.copies]


# ---- along some dimensions, which are not cut

def _free(call, dims, like=None):
    """All tensors of one shape are cut along another dimension."""
    n = len(call.shapes[0])
    return [call.copies] + [((Shard(d),) * len(call.shapes), (Shard(d),) * len(call.results)) for d in range(n) if d not in dims]


@rule("_softmax _log_softmax cumsum cumprod logcumsumexp sort flip glu")
def along(call):
    return _free(call, _dims(call.arg(1, "dim", -1), len(call.shapes[0])))


@rule("topk")
def along_third(call):
    return _free(call, _dims(call.arg(2, "dim", -1), len(call.shapes[0])))


@rule("_softmax_backward_data _log_softmax_backward_data")
def along_backward(call):
    return _free(call, _dims(call.args[2], len(call.shapes[0])))


@rule("tril triu")
def matrices(call):
    n = len(call.shapes[0])
    return _free(call, {n - 1, n - 2})


# ---- reductions

_PARTS = {"sum": "sum", "nansum": "sum", "amax": "max", "amin": "min", "mean": "avg"}
_KEEPDIM = {"sum": 2, "nansum": 2, "mean": 2, "amax": 2, "amin": 2, "logsumexp": 2, "prod": 2, "any": 2, "all": 2, "argmax": 2, "argmin": 2, "max": 2, "min": 2,
            "var": 3, "std": 3, "var_mean": 3}


@rule("sum nansum mean amax amin logsumexp prod any all argmax argmin max min var std var_mean")
def reduction(call):
    n = len(call.shapes[0])
    if len(call.shapes) > 1:
        return pointwise(call)
    dims = call.arg(1, "dim")
    dims = _dims(None if isinstance(dims, bool) else dims, n)
    keep = call.arg(_KEEPDIM[call.name], "keepdim", False) if call.name not in ("var", "std", "var_mean") else call.kwargs.get("keepdim", False)
    choices, results = [call.copies], len(call.results)
    for d in range(n):
        if d not in dims:
            choices.append(((Shard(d),), (Shard(d if keep else d - sum(k < d for k in dims)),) * results))
        elif call.name in _PARTS and (call.name != "mean" or call.shapes[0][d] % call.parts == 0) and (call.name[:2] != "am" or call.shapes[0][d] >= call.parts):
            choices.append(((Shard(d),), (Partial(_PARTS[call.name]),)))
    if call.name in ("sum", "mean"):
        choices.append(((P,), (P,)))
    return choices


# ---- products, by their letters

def _product(call, left, right, out, bias=False):
    choices = [call.copies]
    for letter in dict.fromkeys(left + right):
        place = [Shard(w.index(letter)) if letter in w else R for w in (left, right)]
        result = Shard(out.index(letter)) if letter in out else P
        if bias:
            shape = call.shapes[0]
            d = out.index(letter) - len(out) + len(shape) if letter in out else -1
            first = P if letter not in out else Shard(d) if d >= 0 and shape[d] != 1 else R
            place = [first] + place
        choices.append((tuple(place), (result,)))
    if not bias:
        choices += [((P, R), (P,)), ((R, P), (P,))]
    return choices


RULES["mm"] = lambda call: _product(call, "mk", "kn", "mn")
RULES["bmm"] = lambda call: _product(call, "bmk", "bkn", "bmn")
RULES["mv"] = lambda call: _product(call, "mk", "k", "m")
RULES["dot"] = lambda call: _product(call, "k", "k", "")
RULES["addmm"] = lambda call: _product(call, "mk", "kn", "mn", bias=True)
RULES["baddbmm"] = lambda call: _product(call, "bmk", "bkn", "bmn", bias=True)
RULES["addmv"] = lambda call: _product(call, "mk", "k", "m", bias=True)


# ---- moves: where each dimension goes

def _moved(call, to, linear=True):
    """to[d] is the result's dimension of dimension d, None where it must not be cut."""
    choices = [call.copies]
    choices += [((Shard(d),), (Shard(e),) * len(call.results)) for d, e in enumerate(to) if e is not None]
    if linear:
        choices += [((p,), (p,) * len(call.results)) for p in set(call.old) if p.is_partial()]
    return choices


@rule("t")
def t(call):
    return _moved(call, [1, 0] if len(call.shapes[0]) == 2 else list(range(len(call.shapes[0]))))


@rule("transpose")
def transpose(call):
    n = len(call.shapes[0])
    to = list(range(n))
    if n:
        a, b = call.args[1] % n, call.args[2] % n
        to[a], to[b] = b, a
    return _moved(call, to)


@rule("permute")
def permute(call):
    order = [d % len(call.shapes[0]) for d in call.args[1]]
    return _moved(call, [order.index(d) for d in range(len(order))])


@rule("unsqueeze")
def unsqueeze(call):
    n = len(call.shapes[0])
    at = call.args[1] % (n + 1)
    return _moved(call, [d + (d >= at) for d in range(n)])


@rule("squeeze")
def squeeze(call):
    shape = call.shapes[0]
    gone = {d for d in _dims(call.arg(1, "dim"), len(shape)) if shape[d] == 1}
    return _moved(call, [None if d in gone else d - sum(k < d for k in gone) for d in range(len(shape))])


@rule("select")
def select(call):
    n = len(call.shapes[0])
    at = call.args[1] % n
    return _moved(call, [None if d == at else d - (d > at) for d in range(n)])


@rule("unbind")
def unbind(call):
    n = len(call.shapes[0])
    at = call.arg(1, "dim", 0) % n
    return _moved(call, [None if d == at else d - (d > at) for d in range(n)])


@rule("slice")
def slice_(call):
    n, at = len(call.shapes[0]), call.arg(1, "dim", 0) % len(call.shapes[0])
    whole = tuple(call.results[0]) == tuple(call.shapes[0]) and call.arg(4, "step", 1) == 1
    return _moved(call, [None if d == at and not whole else d for d in range(n)])


@rule("split split_with_sizes chunk narrow unfold index_select roll")
def uncut(call):
    n = len(call.shapes[0])
    place = 2 if call.name in ("split", "split_with_sizes", "chunk", "roll") else 1
    at = _dims(call.arg(place, "dims" if call.name == "roll" else "dim", None if call.name == "roll" else 0), n)
    choices = _moved(call, [None if d in at else d for d in range(n)])
    if call.name == "index_select":
        choices = [call.copies] + [((a[0], R), b) for a, b in choices[1:]]
    return choices


@rule("slice_backward select_backward", size=1)
def grown(call):
    """The gradient of a piece, among zeros."""
    n, at = len(call.results[0]), call.args[2] % len(call.results[0])
    lost = call.name == "select_backward"
    return [call.copies, ((P,), (P,))] + [((Shard(d - (lost and d > at)),), (Shard(d),)) for d in range(n) if d != at]


@rule("expand", size=1)
def expand(call):
    small, big = call.shapes[0], call.results[0]
    ahead = len(big) - len(small)
    return _moved(call, [d + ahead if small[d] == big[d + ahead] else None for d in range(len(small))])


def _groups(a, b):
    """Runs of dimensions of two shapes of one number of elements that hold the same elements: [(dims of a, dims of b)]."""
    i = j = 0
    while i < len(a) or j < len(b):
        mine, other = [], []
        m = n = 1
        while not (mine or other) or m != n:
            if i < len(a) and (m <= n or j == len(b)):
                mine.append(i)
                m, i = m * a[i], i + 1
            elif j < len(b):
                other.append(j)
                n, j = n * b[j], j + 1
            else:
                return
            if not other and j < len(b):
                other.append(j)
                n, j = n * b[j], j + 1
        yield mine, other


@rule("view _unsafe_view reshape", size=1)
def view(call):
    """The first of the dimensions that become others can be cut, if both can be cut evenly."""
    a, b = call.shapes[0], call.results[0]
    to = [None] * len(a)
    if 0 not in a:
        for mine, other in _groups(list(a), list(b)):
            mine, other = [d for d in mine if a[d] != 1] or mine[:1], [d for d in other if b[d] != 1] or other[:1]
            if mine and other and (len(mine) == len(other) == 1 or a[mine[0]] % call.parts == b[other[0]] % call.parts == 0):
                to[mine[0]] = other[0]
    return _moved(call, to)


@rule("cat")
def cat(call):
    n = len(call.shapes[0])
    at = call.arg(1, "dim", 0) % max(n, 1)
    same = len({len(s) for s in call.shapes}) == 1
    return _free(call, {at} if same else set(range(n))) + [((P,) * len(call.shapes), (P,))]


@rule("stack")
def stack(call):
    n, k = len(call.shapes[0]), len(call.shapes)
    at = call.arg(1, "dim", 0) % (n + 1)
    return [call.copies, ((P,) * k, (P,))] + [((Shard(d),) * k, (Shard(d + (d >= at)),)) for d in range(n)]


# ---- layers

@rule("embedding")
def embedding(call):
    n = len(call.results[0])
    rows = [((R, Shard(d)), (Shard(d),)) for d in range(len(call.shapes[1]))]
    return [call.copies, ((Shard(1), R), (Shard(n - 1),)), ((Shard(0), R), (P,))] + rows


@rule("embedding_dense_backward")
def embedding_backward(call):
    n = len(call.shapes[1])
    return [call.copies, ((Shard(n), R), (Shard(1),))] + [((Shard(d), Shard(d)), (P,)) for d in range(n)]


@rule("native_layer_norm _fused_rms_norm")
def layer_norm(call):
    n, rest = len(call.shapes[0]), len(call.shapes) - 1
    return [call.copies] + [((Shard(d),) + (R,) * rest, (Shard(d),) * len(call.results)) for d in range(n - len(call.args[1]))]


@rule("native_layer_norm_backward _fused_rms_norm_backward")
def layer_norm_backward(call):
    n = len(call.shapes[0])
    choices = [call.copies]
    for d in range(n - len(call.args[2])):
        cut = tuple(Shard(d) if len(s) == n else R for s in call.shapes)
        choices.append((cut, (Shard(d),) + (P,) * (len(call.results) - 1)))
    return choices


@rule("_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward")
def attention(call):
    """By batches and by heads; a mask only where it has one for all."""
    choices = [call.copies]
    for d in (0, 1):
        if len({s[d] for s in call.shapes[:3]}) > 1 or call.shapes[0][d] % call.parts:
            continue
        cut = tuple(Shard(d) if s[d] == call.shapes[0][d] else R for s in call.shapes)
        choices.append((cut, (Shard(d),) * len(call.results)))
    return choices


@rule("convolution")
def convolution(call):
    return [call.copies, ((Shard(0),) + (R,) * (len(call.shapes) - 1), (Shard(0),))]


@rule("convolution_backward")
def convolution_backward(call):
    return [call.copies, ((Shard(0), Shard(0), R), (Shard(0), P, P)[:len(call.results)])] if all(call.args[10]) else [call.copies]


def is_pointwise(func):
    name = func._opname
    base = name[:-1] if name.endswith("_") else name
    row = base if func._overloadname == "default" else base + "." + func._overloadname
    return base in _ELEMENTWISE or bool(torch._C._op_effects(row) & 8)


_ELEMENTWISE = frozenset("_to_copy clone detach alias lift_fresh copy fill zero clamp nan_to_num where masked_fill bernoulli native_dropout native_dropout_backward dropout uniform normal "
                         "threshold_backward gelu_backward silu_backward tanh_backward sigmoid_backward hardtanh_backward leaky_relu_backward elu_backward pow addcmul addcdiv lerp "
                         "add sub mul div rsub".split())
