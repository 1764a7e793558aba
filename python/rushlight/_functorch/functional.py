"""functionalize: changes in place and views become pure calls.

Inside, tensors are FunctionalTensors: geometry without memory, like fake tensors, and the pure tensor that is their value.
All views of one tensor share a store, which holds the value of that tensor. A change in place is computed as its pure
form; its result is carried back through the views to the store, and other views take it from there when they are read.
"""
import functools

import rushlight as torch
from rushlight import _C
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_flatten, tree_map, tree_map_only, tree_unflatten

aten = torch.ops.aten
_META = torch.device("meta")


class _Store:
    """The value of a tensor and all its views; raised: how often it was changed."""

    def __init__(self, value):
        self.value, self.raised = value, 0


class FunctionalTensor(torch.Tensor):
    """What stands for a tensor inside of functionalize()."""

    @staticmethod
    def __new__(cls, elem, device, mode, store, chain, value):
        self = _C._with_device(elem, device, cls)
        self.mode, self.store, self.chain, self.value, self.raised = mode, store, chain, value, store.raised
        return self

    def __repr__(self, *, tensor_contents=None):
        return "FunctionalTensor(%s)" % _unwatched(lambda: repr(self.mode.read(self)))

    def tolist(self):
        return self.item() if self.dim() == 0 else [row.tolist() for row in self]

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        mode = next(t.mode for t in tree_flatten((args, kwargs or {}))[0] if isinstance(t, cls))
        with mode:
            return func(*args, **(kwargs or {}))


def _unwatched(f):
    before = _C._watch_off(True)
    try:
        with torch.no_grad():
            return f()
    finally:
        _C._watch_off(before)


# ---- views and their ways back: f(what views are made with, the whole before, the changed view, arguments of the view, number of its result)

def _argument(args, kwargs, i, name, default):
    return args[i] if len(args) > i else kwargs.get(name, default)


def _scatter(name):
    op = getattr(aten, name)
    return lambda see, whole, part, args, kwargs, k: op(whole, part, *args, **kwargs)


def _split_back(see, whole, part, args, kwargs, k):
    dim, each = _argument(args, kwargs, 1, "dim", 0), args[0]
    begin = k * each if isinstance(each, int) else sum(each[:k])
    return aten.slice_scatter.default(whole, part, dim, begin, begin + part.shape[dim])


def _unbind_back(see, whole, part, args, kwargs, k):
    return aten.select_scatter.default(whole, part, _argument(args, kwargs, 0, "dim", 0), k)


def _size_back(see, whole, part, args, kwargs, k):
    return see("view", "default")(part, list(whole.shape))


def _dtype_back(see, whole, part, args, kwargs, k):
    return see("view", "dtype")(part, whole.dtype)


def _t_back(see, whole, part, args, kwargs, k):
    return see("t", "default")(part)


def _transpose_back(see, whole, part, args, kwargs, k):
    return see("transpose", "int")(part, *args, **kwargs)


def _permute_back(see, whole, part, args, kwargs, k):
    dims = [d % len(args[0]) for d in args[0]]
    return see("permute", "default")(part, [dims.index(d) for d in range(len(dims))])


def _unsqueeze_back(see, whole, part, args, kwargs, k):
    return see("squeeze", "dim")(part, *args, **kwargs)


def _squeeze_back(see, whole, part, args, kwargs, k):
    if not args:
        dims = [d for d, n in enumerate(whole.shape) if n == 1]
    else:
        dims = [args[0]] if isinstance(args[0], int) else list(args[0])
        dims = sorted(d % whole.dim() for d in dims if whole.shape[d] == 1)
    for d in dims:
        part = see("unsqueeze", "default")(part, d)
    return part


def _real_back(see, whole, part, args, kwargs, k):
    return see("view_as_complex", "default")(part)


def _complex_back(see, whole, part, args, kwargs, k):
    return see("view_as_real", "default")(part)


_BACK = {
    "select": _scatter("select_scatter"), "slice": _scatter("slice_scatter"), "diagonal": _scatter("diagonal_scatter"),
    "as_strided": _scatter("as_strided_scatter"), "split": _split_back, "split_with_sizes": _split_back, "unbind": _unbind_back,
    "view": _size_back, "_unsafe_view": _size_back, "_reshape_alias": _size_back, "view.dtype": _dtype_back, "permute": _permute_back,
    "t": _t_back, "transpose": _transpose_back, "unsqueeze": _unsqueeze_back, "squeeze": _squeeze_back,
    "view_as_real": _real_back, "view_as_complex": _complex_back,
}
# In place, they change sizes and strides: the name of the view.
_BECOMES = {"t_": "t", "transpose_": "transpose", "squeeze_": "squeeze", "unsqueeze_": "unsqueeze", "as_strided_": "as_strided"}


def _name_of(func):
    return func._schema.name.split("::")[-1]


class _View:
    """One step from a tensor to a view of it: a call, and which of its results."""

    def __init__(self, func, args, kwargs, number):
        self.func, self.args, self.kwargs, self.number = func, args, kwargs, number

    def __call__(self, whole):
        out = self.func(whole, *self.args, **self.kwargs)
        return out if self.number is None else out[self.number]

    def back(self, whole, part):
        name, copies = _name_of(self.func).removesuffix("_copy"), _name_of(self.func).endswith("_copy")
        way = _BACK.get(name + "." + self.func._overloadname) or _BACK.get(name)
        if way is None:
            raise NotImplementedError("functionalize: a change of what %s made cannot be carried back" % self.func)
        see = (lambda name, overload: _overload(name + "_copy", overload)) if copies else _overload
        return way(see, whole, part, self.args, self.kwargs, self.number)


# ---- one call

class _Traits:
    """What is asked of an operator at each call, found out once."""

    def __init__(self, func):
        arguments = func._schema.arguments
        name, overload = _name_of(func), func._overloadname
        self.writes = [(i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write]
        self.view = not self.writes and func.is_view and not name.startswith("lift")
        self.out = bool(self.writes) and (overload == "out" or overload.endswith("_out"))
        self.same = name in ("detach", "alias")     # the value itself, outside of a history that it has not
        self.becomes = _BECOMES.get(name)
        self.statistics = name == "native_batch_norm"   # it changes those that run along, which its schema does not say
        self.copies = _overload(name + "_copy", overload) if self.view else None
        self.pure = None
        if self.out:
            base = "default" if overload == "out" else overload[:-4]
            self.pure = _overload(name, base) or (_overload(name, "Tensor") if base == "default" else None)
        elif name == "bernoulli_" and overload == "float":
            self.pure = lambda x, p=0.5, **how: aten.bernoulli.p(x, p, **how)
        elif self.writes:       # of in-place forms; "_functional" returns what it would have written behind its results
            self.pure = (_overload(name[:-1], overload) if name.endswith("_") else None) or _overload(name.removesuffix("_") + "_functional", overload)
        self.behind = len(func._schema.returns) if self.writes and not self.out and not name.endswith("_") else 0


def _overload(name, overload):
    return getattr(getattr(aten, name, None), overload, None)


_traits = {}


class FunctionalizeMode(TorchDispatchMode):
    """Inside, calls are pure below this mode."""

    _mode_key = _C._TorchDispatchModeKey.FUNCTIONAL

    def __init__(self, views=False):
        super().__init__()
        self.views, self.grad = views, torch.is_grad_enabled()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        traits = _traits.get(func)
        if traits is None:
            traits = _traits[func] = _Traits(func)
        with torch.set_grad_enabled(self.grad):
            if traits.statistics and args[3] is not None and args[5]:
                return self.change(aten._native_batch_norm_legit.default, _Traits(aten._native_batch_norm_legit.default), args, kwargs or {})
            if traits.writes:
                return self.change(func, traits, args, kwargs or {})
            if traits.view and isinstance(args[0], FunctionalTensor):
                return self.view(func, traits, args, kwargs or {})
            return self.wrap(func(*tree_map(self.read, args), **tree_map(self.read, kwargs or {})))

    # -- tensors

    def wrap(self, out):
        """Results of their own: each with a store."""
        return tree_map_only(torch.Tensor, self.own, out)

    def own(self, value):
        if isinstance(value, FunctionalTensor):
            return value
        elem = _unwatched(lambda: torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META))
        return FunctionalTensor(elem, value.device, self, _Store(value), (), value)

    def read(self, x):
        """The pure tensor that x is now."""
        if not isinstance(x, FunctionalTensor):
            return x
        if x.raised != x.store.raised:
            x.value = x.store.value
            for step in x.chain:
                x.value = step(x.value)
            x.raised = x.store.raised
        return x.value

    def set(self, x, value):
        """x becomes this value, and so does what it is a view of."""
        if value.dtype != x.dtype or value.shape != x.shape:
            if value.shape != x.shape and x.chain:
                raise RuntimeError("functionalize: a view of size %s cannot become one of size %s" % (tuple(x.shape), tuple(value.shape)))
            value = aten._to_copy.default(value, dtype=x.dtype) if value.dtype != x.dtype else value
        wholes = [x.store.value]
        for step in x.chain[:-1]:
            wholes.append(step(wholes[-1]))
        for step, whole in zip(reversed(x.chain), reversed(wholes)):
            value = step.back(whole, value)
        x.store.value = value
        x.store.raised += 1
        self.read(x)

    # -- kinds of calls

    def view(self, func, traits, args, kwargs):
        x, rest = args[0], args[1:]
        call = traits.copies if self.views and traits.copies is not None else func
        rest, kwargs = tree_map(self.read, (rest, kwargs))
        # Of the value that it was: whoever reads the view finds that the store has changed.
        value = x.value if traits.same else call(x.value, *rest, **kwargs)
        elem = _unwatched(lambda: func(_C._with_device(x, _META), *rest, **kwargs))
        if isinstance(value, torch.Tensor):
            return self.step(x, None if traits.same else _View(call, rest, kwargs, None), elem, value)
        return [self.step(x, _View(call, rest, kwargs, k), e, v) for k, (e, v) in enumerate(zip(elem, value))]

    def step(self, x, view, elem, value):
        made = FunctionalTensor(elem, x.device, self, x.store, x.chain if view is None else (*x.chain, view), value)
        made.raised = x.raised
        return made

    def change(self, func, traits, args, kwargs):
        given = [args[i] if i < len(args) else kwargs.get(name) for i, name in traits.writes]
        changed = tree_flatten(given)[0]
        if not any(isinstance(t, FunctionalTensor) for t in changed):
            if any(isinstance(t, FunctionalTensor) for t in tree_flatten((args, kwargs))[0]):
                raise RuntimeError("mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your inputs are "
                                   "wrapped inside of a functionalize() call.")
            return func(*args, **kwargs)
        if traits.becomes:
            return self.become(func, traits, *args, **kwargs)
        if traits.pure is not None:
            names = [name for i, name in traits.writes] if traits.out else ()
            values, named = tree_map(self.read, (args, {k: v for k, v in kwargs.items() if k not in names}))
            made = traits.pure(*values, **named)
            made = tree_flatten(made)[0]
            results, made = self.wrap(tuple(made[:traits.behind])), made[traits.behind:]
        else:       # no pure form: it changes a copy
            flat, spec = tree_flatten((args, kwargs))
            copies = {id(t): aten.clone.default(self.read(t)) for t in changed if t is not None}
            values, named = tree_unflatten([copies.get(id(t), self.read(t)) for t in flat], spec)
            results = func(*values, **named)
            if traits.behind:       # of an operation of the user, which may give what it was given
                own = {id(copies[id(t)]): t for t in changed if t is not None}
                results = tree_map(lambda r: own[id(r)] if id(r) in own else self.wrap(r), results)
            made = [copies[id(t)] if t is not None else None for t in changed]
        for t, value in zip(changed, made):
            if t is not None:
                self.set(t, value)
        if traits.behind:
            return results
        if not func._schema.returns:
            return None
        return given[0] if len(given) == 1 else tuple(given)

    def become(self, func, traits, x, *args, **kwargs):
        call = _overload(traits.becomes, "int" if traits.becomes == "transpose" else func._overloadname)
        copies = _overload(traits.becomes + "_copy", call._overloadname) if self.views else None
        step = _View(copies or call, args, kwargs, None)
        x.value = step(self.read(x))
        x.chain = (*x.chain, step)
        return x


def functionalize(func, *, remove="mutations"):
    """A function like func that changes no tensor until its end, when its arguments take what they would have become.

    remove="mutations_and_views": its views are copies, too.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove must be 'mutations' or 'mutations_and_views', got {remove!r}")

    @functools.wraps(func)
    def functionalized(*args, **kwargs):
        mode, known = FunctionalizeMode(remove == "mutations_and_views"), {}

        def enter(x):
            if id(x) not in known:
                known[id(x)] = (x, mode.own(x))
            return known[id(x)][1]

        given, named = tree_map_only(torch.Tensor, enter, (args, kwargs))
        with mode:
            out = func(*given, **named)
        out = tree_map(mode.read, out)
        for x, inside in known.values():
            if inside.store.raised and not inside.chain:
                with torch.set_grad_enabled(mode.grad):
                    x.copy_(mode.read(inside))
        return out
    return functionalized
