"""Sizes that may vary: their names and ranges, and how they are said of arguments."""
import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._sympy.numbers import int_oo

__all__ = ["Constraint", "Dim", "dims", "refine_dynamic_shapes_from_suggested_fixes", "ShapesCollection", "AdditionalInputs"]

UNBOUNDED = int_oo


class _DimHint:
    """A size of which the export finds out by itself whether, or says that, it varies."""

    def __init__(self, name, min=None, max=None):
        self.name, self.min, self.max = name, min, max

    def __call__(self, min=None, max=None):
        return type(self)(self.name, min, max)

    def __repr__(self):
        return "DimHint(%s)" % ", ".join([self.name] + ["%s=%s" % (k, v) for k, v in (("min", self.min), ("max", self.max)) if v is not None])


class Dim:
    """The name and bounds of a size that may vary; 2 * Dim("half") + 1 is a size that follows from another."""
    AUTO, DYNAMIC, STATIC = _DimHint("AUTO"), _DimHint("DYNAMIC"), _DimHint("STATIC")

    def __init__(self, name, *, min=None, max=None):
        if not name.isidentifier():
            raise AssertionError("Dim name must be a valid identifier, got %s" % name)
        if min is not None and max is not None and min >= max:
            raise AssertionError("Cannot create Dim with inconsistent min=%s, max=%s" % (min, max))
        self.__name__, self.min, self.max = name, 0 if min is None else min, UNBOUNDED if max is None else max
        self.root, self.factor, self.term = self, 1, 0

    def _derived(self, factor, term):
        made = object.__new__(Dim)
        made.root, made.factor, made.term = self.root, factor, term
        text = self.root.__name__ if factor == 1 else "%d*%s" % (factor, self.root.__name__)
        made.__name__ = text if not term else "%s %s %d" % (text, "+" if term > 0 else "-", abs(term))
        made.min, made.max = self.root.min * factor + term, UNBOUNDED if self.root.max == UNBOUNDED else self.root.max * factor + term
        return made

    def __mul__(self, n):
        if type(n) is not int or n <= 0:
            raise NotImplementedError("Attempted to multiply %s by %s, where a positive integer was expected." % (self.__name__, n))
        return self._derived(self.factor * n, self.term * n)

    __rmul__ = __mul__

    def __add__(self, n):
        if type(n) is not int:
            raise NotImplementedError("Attempted to add %s to %s, where an integer was expected." % (n, self.__name__))
        return self._derived(self.factor, self.term + n)

    __radd__ = __add__

    def __sub__(self, n):
        return self + (-n)

    def __repr__(self):
        if self.root is not self:
            return self.__name__
        bounds = [", min=%s" % self.min] * (self.min != 2) + [", max=%s" % self.max] * (self.max != UNBOUNDED)
        return "Dim(%r%s)" % (self.__name__, "".join(bounds))


Constraint = Dim


def dims(*names, min=None, max=None):
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """dynamic_shapes by tensor: shapes[x] = {0: Dim("batch")}."""

    def __init__(self):
        self._shapes = {}

    def __setitem__(self, t, shape):
        if id(t) in self._shapes and self._shapes[id(t)][1] != shape:
            raise AssertionError("Shapes assigned to input is a different from the one previously assigned")
        self._shapes[id(t)] = (t, shape)

    def __getitem__(self, t):
        if id(t) not in self._shapes:
            self._shapes[id(t)] = (t, {})
        return self._shapes[id(t)][1]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        named = _named(m, args, kwargs or {})
        return {k: pytree.tree_map(lambda x: self._shapes.get(id(x), (x, None))[1], v) for k, v in named.items()}


class AdditionalInputs:
    """dynamic_shapes by example: what differs between the examples varies."""

    def __init__(self):
        self._examples = []

    def add(self, args, kwargs=None):
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args, kwargs=None):
        examples = [_named(m, a, k or {}) for a, k in [(args, kwargs), *self._examples]]

        def spec(*leaves):
            first = leaves[0]
            if not isinstance(first, torch.Tensor):
                return None
            return tuple(Dim.DYNAMIC if len({x.shape[d] for x in leaves}) > 1 else None for d in range(first.dim()))
        return {k: pytree.tree_map(spec, *(e[k] for e in examples)) for k in examples[0]}

    def verify(self, ep):
        for args, kwargs in self._examples:
            ep.module()(*args, **(kwargs or {}))


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """Ranges are found by the export itself: there is nothing to suggest."""
    return dynamic_shapes


def _named(m, args, kwargs):
    """Arguments by the name of the parameter that takes them."""
    import inspect
    f = m.forward if isinstance(m, torch.nn.Module) else m
    bound = inspect.signature(f).bind(*args, **kwargs).arguments
    variable = next((p.name for p in inspect.signature(f).parameters.values() if p.kind == p.VAR_KEYWORD), None)
    return {**{k: v for k, v in bound.items() if k != variable}, **bound.get(variable, {})}


def leaf_specs(m, args, kwargs, dynamic_shapes):
    """For each leaf of (args, kwargs) what is said of it: {dimension: Dim, hint, int or None}, or {}."""
    if isinstance(dynamic_shapes, (ShapesCollection, AdditionalInputs)):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(m, args, kwargs)
    named = _named(m, args, kwargs)
    if not dynamic_shapes:
        return [{} for _ in pytree.tree_leaves((args, kwargs))]
    if isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(named):
            from rushlight._dynamo.exc import UserError
            raise UserError("When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names %s of `inputs`, but here they are %s. "
                            "Alternatively, you could also ignore arg names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`."
                            % (list(named), list(dynamic_shapes)))
        specs = [dynamic_shapes[k] for k in named]
    else:
        specs = list(dynamic_shapes)
        if len(specs) != len(named):
            raise _mismatch("`inputs` has %d elements, but `dynamic_shapes` has %d elements" % (len(named), len(specs)))
    found = []
    for i, (value, spec) in enumerate(zip(named.values(), specs)):
        _collect(value, spec, "[%d]" % i if not isinstance(dynamic_shapes, dict) else "[%r]" % list(named)[i], found)
    return found


def _mismatch(what):
    from rushlight._dynamo.exc import UserError
    return UserError("Detected mismatch between the structure of `inputs` and `dynamic_shapes`: " + what)


def _of_tensor(value, spec, where):
    """What is said of a tensor's dimensions, by their numbers."""
    from rushlight._dynamo.exc import UserError
    if isinstance(spec, (tuple, list)):
        if len(spec) != value.dim():
            raise UserError("Expected dynamic shape spec %s specified at `dynamic_shapes%s` to have the same length as the actual tensor shape %s (expected %d, but got %d instead)"
                            % (spec, where, value.shape, value.dim(), len(spec)))
        spec = dict(enumerate(spec))
    if spec is None:
        return {}
    if not isinstance(spec, dict):
        raise UserError("Unexpected input tensor shape %s specified at `dynamic_shapes%s` (expected either a list/tuple of dimensions, or a dict mapping indices to "
                        "dimensions, where each dimension is an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC)" % (spec, where))
    for d, said in spec.items():
        if not isinstance(said, (type(None), int, Dim, _DimHint)):
            raise UserError("Unexpected dimension mapped to index %s in input tensor shape %s specified at `dynamic_shapes%s` (expected None, an int, a Dim, Dim.AUTO, "
                            "Dim.STATIC, or Dim.DYNAMIC,  but got %r instead)" % (d, spec, where, said))
        if not -value.dim() <= d < value.dim():
            raise IndexError("dynamic_shapes%s says something of dimension %d of a tensor of %d dimensions" % (where, d, value.dim()))
    return {d % value.dim(): said for d, said in spec.items()}


def _collect(value, spec, where, found):
    if isinstance(value, torch.Tensor):
        found.append(_of_tensor(value, spec, where))
        return
    children, tree = pytree.tree_flatten(value, is_leaf=lambda x: x is not value)
    if tree.is_leaf() or (len(children) == 1 and children[0] is value):
        found.append({})
        return
    if spec is None or isinstance(spec, _DimHint):
        specs = [None] * len(children)
    elif isinstance(value, dict) != isinstance(spec, dict):
        raise _mismatch("`inputs%s` is a %s, but `dynamic_shapes%s` is a %s" % (where, type(value), where, type(spec)))
    elif isinstance(value, dict) and set(value) != set(spec):
        raise _mismatch("`inputs%s` has keys %s, but `dynamic_shapes%s` has keys %s" % (where, list(value), where, list(spec)))
    else:
        specs = [spec[k] for k in value] if isinstance(spec, dict) else list(spec)
        if len(specs) != len(children):
            raise _mismatch("`inputs%s` has %d elements, but `dynamic_shapes%s` has %d elements" % (where, len(children), where, len(specs)))
    for i, (child, s) in enumerate(zip(children, specs)):
        _collect(child, s, "%s[%d]" % (where, i), found)
