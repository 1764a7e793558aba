"""What a number is that differs from run to run: an expression of the sizes that were varied.

A program is run on several sizes within their ranges (_capture.py). A number that was the same each time is a constant; another is
looked for among expressions of the symbols, and one that gives it in every run is taken. Expressions are ints, floats, symbols
("s0") and tuples of an operator's name and its arguments: ("floordiv", ("add", "s0", -1), 2).
"""
import math
import operator
from fractions import Fraction

OPERATORS = {"add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "truediv": operator.truediv, "pow": operator.pow, "mod": operator.mod}


def value_of(expr, symbols):
    """An expression's number, where symbols have numbers."""
    if isinstance(expr, str):
        return symbols[expr]
    if isinstance(expr, tuple):
        return OPERATORS[expr[0]](*(value_of(x, symbols) for x in expr[1:]))
    return expr


def symbols_in(expr):
    if isinstance(expr, str):
        return {expr}
    return set().union(*map(symbols_in, expr[1:])) if isinstance(expr, tuple) else set()


def as_text(expr):
    """In Python's notation, as PyTorch prints sizes: 2*s0, s0 - 1, (s0//2)."""
    if not isinstance(expr, tuple):
        return str(expr)
    name, a, b = expr[0], as_text(expr[1]), as_text(expr[2])
    if name == "add":
        return "%s - %s" % (a, b[1:]) if b.startswith("-") else "%s + %s" % (a, b)
    if name == "mul":
        a, b = ("(%s)" % x if " " in x and not x.startswith("(") else x for x in (a, b))
        return "%s*%s" % ((b, a) if isinstance(expr[2], int) else (a, b))
    a, b = ("(%s)" % x if " " in x else x for x in (a, b))
    return "(%s//%s)" % (a, b) if name == "floordiv" else "%s%s%s" % (a, {"truediv": "/", "pow": "**", "mod": "%"}[name], b)


def plus(expr, n):
    return expr if n == 0 else ("add", expr, n)


def times(expr, n):
    return expr if n == 1 else ("mul", expr, n)


class Sizes:
    """The symbols, with the number that each had in each run."""

    def __init__(self, symbols):
        self.symbols = symbols
        self.runs = len(next(iter(symbols.values()))) if symbols else 1
        self.known, self._tiers, self._seen, self._fewer = {}, [], set(), {}

    def without(self, gone):
        """The same, had these runs not been."""
        if gone not in self._fewer:
            self._fewer[gone] = Sizes({k: tuple(n for i, n in enumerate(v) if i not in gone) for k, v in self.symbols.items()})
        return self._fewer[gone]

    def at(self, expr):
        return tuple(value_of(expr, {k: v[i] for k, v in self.symbols.items()}) for i in range(self.runs))

    def tiers(self):
        """Expressions that others are made of, each with its numbers: lists, the simplest first, made when they are asked for."""
        names = sorted(self.symbols)
        pairs = [("mul", a, b) for i, a in enumerate(names) for b in names[i:]]
        halves = [("floordiv", plus(a, c), k) for a in names for k in (2, 3, 4, 5, 6, 7, 8, 16, 32, 64) for c in (*range(k), -1)]
        for i in range(4):
            if i == len(self._tiers):
                made = ([*names, *pairs], halves, [("mul", pair, c) for pair in pairs for c in names if c >= pair[2]],
                        [("mul", a, b) for a in halves if a[2] in (2, 4, 8, 16, 32) for b in (*names, *halves) if isinstance(b, str) or a[2] == b[2]])[i]
                tier = []
                for expr in made:
                    numbers = self.at(expr)
                    if len(set(numbers)) > 1 and numbers not in self._seen:
                        self._seen.add(numbers)
                        tier.append((expr, numbers))
                self._tiers.append(tier)
            yield self._tiers[i]

    def fit(self, numbers):
        """The expression that had these numbers in the runs, or None."""
        if all(x == numbers[0] for x in numbers):
            return numbers[0]
        if numbers not in self.known:
            whole = all(isinstance(x, int) for x in numbers)
            self.known[numbers] = (self._whole(numbers)) if whole else self._fraction(numbers)
        return self.known[numbers]

    def _whole(self, v):
        for i, tier in enumerate(self.tiers()):
            found = self._one(tier, v) or (self._two(tier, v) if i == 0 else None)
            if found is not None:
                return found
        return None

    def _one(self, tier, v):
        """a * base + c"""
        for expr, b in tier:
            j = next(i for i in range(1, self.runs) if b[i] != b[0])
            a, rest = divmod(v[j] - v[0], b[j] - b[0])
            c = v[0] - a * b[0]
            if not rest and a and all(x == a * y + c for x, y in zip(v, b)):
                return plus(times(expr, a), c)
        return None

    def _two(self, tier, v):
        """a * one + b * another + c, where three runs give the factors and the others agree"""
        if self.runs < 4:
            return None
        for i, (e, x) in enumerate(tier):
            for f, y in tier[i + 1:]:
                found = _solve([(x[k] - x[0], y[k] - y[0], v[k] - v[0]) for k in range(1, self.runs)])
                if found:
                    a, b = found
                    c = v[0] - a * x[0] - b * y[0]
                    return plus(("add", times(e, a), times(f, b)), c)
        return None

    def _fraction(self, v):
        close = lambda x, y: math.isclose(x, y, rel_tol=1e-12)
        for expr, b in next(self.tiers()):
            for power, base in ((1, expr), (0.5, ("pow", expr, 0.5))):
                c = v[0] / b[0] ** power
                if all(close(x, c * y ** power) for x, y in zip(v, b)):
                    return base if c == 1 and power != 1 else ("mul", base, float(c))
                c = v[0] * b[0] ** power
                if all(close(x * y ** power, c) for x, y in zip(v, b)):
                    return ("truediv", int(c) if power == 1 and abs(c - round(c)) < 1e-9 else float(c), base)
        return None


def _solve(rows):
    """Whole a, b with a * x + b * y = v in all rows, or None."""
    for i, (x0, y0, v0) in enumerate(rows):
        for x1, y1, v1 in rows[i + 1:]:
            det = x0 * y1 - x1 * y0
            if det:
                a, b = Fraction(v0 * y1 - v1 * y0, det), Fraction(x0 * v1 - x1 * v0, det)
                good = a.denominator == b.denominator == 1 and a and b and all(a * x + b * y == v for x, y, v in rows)
                return (int(a), int(b)) if good else None
    return None
