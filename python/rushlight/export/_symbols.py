"""Numbers that follow from data: what item() gives, sizes of what nonzero() gives, and what is computed of them.

While a program is captured such a number has the value that it has in the run, and an expression of symbols (u0; zuf0 of floats). It
decides nothing: what Python would go on by is refused, unless it follows from what torch._check() was told.
"""
import math
import operator

import rushlight as torch
from rushlight.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ._sizes import OPERATORS, Sizes, as_text, symbols_in, value_of

_COMPARED = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_NEUTRAL = {"add": 0, "mul": 1, "floordiv": 1, "pow": 1}
_INF = math.inf


class Number:
    """expr is an expression of symbols, _value what it is in this run, known the Known of the run."""
    __slots__ = ("expr", "_value", "known")

    def __init__(self, expr, value, known):
        self.expr, self._value, self.known = expr, value, known

    def _data(self):
        return GuardOnDataDependentSymNode("Could not extract specialized integer from data-dependent expression %s: the program takes a number out of a tensor that depends on its "
                                           "inputs, and goes on as it says. Use torch.cond, torch.where or torch._check." % as_text(self.expr))

    def __index__(self):
        raise self._data()

    __int__ = __float__ = __complex__ = __trunc__ = __round__ = __floor__ = __ceil__ = __index__

    def __bool__(self):
        return bool(self != 0)

    def __hash__(self):
        return hash(self.expr)

    def __repr__(self):
        return as_text(self.expr)

    def is_integer(self):
        return isinstance(self, Int)

    def __pos__(self):
        return self

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return torch.rsub(other, self) if isinstance(other, torch.Tensor) else self + -other

    def __rsub__(self, other):
        return torch.sub(other, self) if isinstance(other, torch.Tensor) else self * -1 + other

    def __abs__(self):
        return self if self >= 0 else -self

    # ranges, lists and the like take __index__, and refuse


class Int(Number, torch.SymInt):
    __slots__ = ()


class Float(Number, torch.SymFloat):
    __slots__ = ()


def _expr(x):
    return x.expr if isinstance(x, Number) else x


def _value(x):
    return x._value if isinstance(x, Number) else x


def _binary(name, of_tensor):
    def method(self, other):
        if isinstance(other, torch.Tensor):
            return of_tensor(other, self)
        if not isinstance(other, (int, float, Number)):
            return NotImplemented
        if not isinstance(other, Number) and other == _NEUTRAL.get(name) and type(other) is int:
            return self
        return self.known.make((name, self.expr, _expr(other)), OPERATORS[name](self._value, _value(other)))
    return method


def _reflected(name, of_tensor):
    def method(self, other):
        if isinstance(other, torch.Tensor):
            return of_tensor(other, self)
        if not isinstance(other, (int, float)):
            return NotImplemented
        return self.known.make((name, other, self.expr), OPERATORS[name](other, self._value))
    return method


def _comparison(name):
    def method(self, other):
        if isinstance(other, torch.Tensor):     # the reflected form: the tensor was first
            return getattr(torch, _TURNED[name])(other, self)
        return Relation(name, self, other) if isinstance(other, (int, float, Number)) else NotImplemented
    return method


Number.__add__ = Number.__radd__ = _binary("add", lambda t, n: torch.add(t, n))
Number.__mul__ = Number.__rmul__ = _binary("mul", lambda t, n: torch.mul(t, n))
for _name, _tensor, _number in (("floordiv", lambda t, n: torch.floor_divide(t, n), lambda t, n: t // n), ("truediv", lambda t, n: torch.div(t, n), lambda t, n: t / n),
                                ("mod", lambda t, n: torch.remainder(t, n), lambda t, n: t % n), ("pow", lambda t, n: torch.pow(t, n), lambda t, n: t ** n)):
    setattr(Number, "__%s__" % _name, _binary(_name, lambda t, n, f=_name: NotImplemented))
    setattr(Number, "__r%s__" % _name, _reflected(_name, _tensor))
for _name in _COMPARED:
    setattr(Number, "__%s__" % _name, _comparison(_name))


class Relation(torch.SymBool):
    """A comparison: true or false in this run, and known only where ranges say so."""
    SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}

    def __init__(self, name, a, b):
        self.name, self.a, self.b = name, a, b
        self.known = a.known if isinstance(a, Number) else b.known
        self._value = _COMPARED[name](_value(a), _value(b))

    @property
    def expr(self):
        return (self.name, _expr(self.a), _expr(self.b))

    def __repr__(self):
        return "%s %s %s" % (as_text(_expr(self.a)), self.SIGNS[self.name], as_text(_expr(self.b)))

    def decided(self):
        """True, False, or None: it depends."""
        low, high = self.known.range_of(("add", _expr(self.a), ("mul", _expr(self.b), -1)) if _expr(self.a) != _expr(self.b) else 0)
        always = {"lt": high < 0, "le": high <= 0, "gt": low > 0, "ge": low >= 0, "eq": low == high == 0, "ne": low > 0 or high < 0}
        return True if always[self.name] else False if always[_OPPOSITE[self.name]] else None

    def __bool__(self):
        decided = self.decided()
        if decided is None:
            raise GuardOnDataDependentSymNode("Could not guard on data-dependent expression %s: the program takes a number out of a tensor that depends on its inputs, and goes on as "
                                              "it says. Use torch.cond, torch.where or torch._check." % self)
        return decided

    def assume(self):
        """From here on it is true: torch._check. False: it is not, in this run."""
        if self._value and self.decided() is None:
            self.known.learn(self)
        return self._value


class Known:
    """The symbols of one run: the value and the range of each, and what else was said of them."""

    def __init__(self, say):
        self.values, self.ranges, self.say = {}, {}, say     # say(relation): what was said
        self.read = {}      # (what was read, id and version of the tensor) -> the number: read again it is the same

    def fresh(self, value, low=-_INF, high=_INF):
        count = sum(isinstance(v, float) == isinstance(value, float) for v in self.values.values())
        name = "%s%d" % ("zuf" if isinstance(value, float) else "u", count)
        self.values[name], self.ranges[name] = value, [low, high]
        return self.make(name, value)

    def make(self, expr, value):
        return (Float if isinstance(value, float) else Int)(expr, value, self)

    def range_of(self, expr):
        """The least and the most that an expression can be."""
        if isinstance(expr, str):
            return self.ranges.get(expr, (-_INF, _INF))
        if not isinstance(expr, tuple):
            return expr, expr
        name, (a, b), (c, d) = expr[0], self.range_of(expr[1]), self.range_of(expr[2])
        if name == "add":
            return a + c, b + d
        if name == "mul":
            ends = [0 if 0 in (x, y) else x * y for x in (a, b) for y in (c, d)]
            return min(ends), max(ends)
        if name == "floordiv" and c == d and c > 0:
            return a // c if abs(a) < _INF else a, b // c if abs(b) < _INF else b
        return -_INF, _INF

    def once(self, what, t, make):
        key = (what, id(t), t._version)
        if key not in self.read:
            self.read[key] = make()
        return self.read[key]

    def learn(self, relation):
        name, a, b = relation.name, _expr(relation.a), _expr(relation.b)
        if isinstance(b, str) and not isinstance(a, (str, tuple)):
            name, a, b = _TURNED[name], b, a
        if not isinstance(a, str) or isinstance(b, (str, tuple)) or name == "ne" or isinstance(self.values[a], float):
            return self.say(relation)
        self.say(relation)
        bounds = self.ranges[a]
        if name in ("ge", "gt", "eq"):
            bounds[0] = max(bounds[0], math.floor(b) + 1 if name == "gt" else math.ceil(b))
        if name in ("le", "lt", "eq"):
            bounds[1] = min(bounds[1], math.ceil(b) - 1 if name == "lt" else math.floor(b))
        return None

    def size(self, number):
        """A number that became a size is not negative."""
        if isinstance(number, Int) and isinstance(number.expr, str):
            self.ranges[number.expr][0] = max(self.ranges[number.expr][0], 0)

    # ---- sizes of results ----

    def stand_ins(self):
        """Values for all symbols, several: what sizes become with them says how they follow."""
        rows = []
        for k in range(5):
            row = {}
            for i, (name, (low, high)) in enumerate(self.ranges.items()):
                if isinstance(self.values[name], float):
                    row[name] = self.values[name] + k
                    continue
                least = max(low, 2) if high >= 3 else max(low, 0)
                wanted = least + (5, 11, 8, 18, 29)[k] + 7 * i + k * k * (i + 1)
                row[name] = int(wanted if wanted <= high else least + (wanted - least) % (int(high) - int(least) + 1))
            rows.append(row)
        return rows


def sizes_of_results(known, func, args, kwargs, exprs):
    """Per tensor that func gives the expressions of its sizes; None: they could not be found. `exprs(tensor)`: those of an argument's."""
    from rushlight import _C
    from rushlight.utils import _pytree as pytree
    from rushlight.utils._python_dispatch import _disable_current_modes
    rows, shapes = known.stand_ins(), []

    def stand_in(x, row):
        if isinstance(x, Number):
            return value_of(x.expr, row)
        if not isinstance(x, torch.Tensor):
            return x
        return torch.empty([value_of(e, row) for e in exprs(x)], dtype=x.dtype, device="meta")

    def run(row):
        leaves, spec = pytree.tree_flatten((args, kwargs), is_leaf=lambda x: isinstance(x, (Number, torch.Size)) and not isinstance(x, tuple))
        given, named = pytree.tree_unflatten([stand_in(x, row) for x in leaves], spec)
        if any(a.name == "device" for a in func._schema.arguments):
            named["device"] = "meta"
        with torch.no_grad(), _disable_current_modes():
            return func(*given, **named)
    try:
        for row in rows:
            shapes.append([tuple(t.shape) for t in pytree.tree_leaves(_C._capture_paused(lambda r=row: run(r))) if isinstance(t, torch.Tensor)])
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
        return None
    if len({tuple(map(len, s)) for s in shapes}) != 1:
        return None
    sizes = Sizes({name: tuple(row[name] for row in rows) for name in known.values if not isinstance(known.values[name], float)})
    found = [[sizes.fit(tuple(s[i][d] for s in shapes)) for d in range(len(shapes[0][i]))] for i in range(len(shapes[0]))]
    return None if any(e is None for size in found for e in size) else found


__all__ = ["Number", "Int", "Float", "Relation", "Known", "sizes_of_results", "symbols_in"]
