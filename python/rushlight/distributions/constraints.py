"""Constraints: which values a parameter may have and where a distribution lives. check() answers per event."""
from typing import Any, Callable, Optional  # noqa: F401

import rushlight as torch

__all__ = ["Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
           "greater_than_eq", "independent", "integer_interval", "interval", "half_open_interval", "is_dependent",
           "less_than", "lower_cholesky", "lower_triangular", "MixtureSameFamilyConstraint", "multinomial",
           "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_semidefinite",
           "positive_definite", "positive_integer", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval"]


class Constraint:
    """A set of values. is_discrete: countable; event_dim: how many trailing dimensions one value has."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """True for every event in the set (batch shape)."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__[1:] + "()"


def _all_of_last(truth, dims):
    """Truth per event from truth per element."""
    return truth if dims == 0 else truth.reshape(truth.shape[:truth.dim() - dims] + (-1,)).all(-1)


class _Dependent(Constraint):
    """Stands where the set depends on other values."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self):
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self):
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint):
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that gives the constraint on instances and is a dependent constraint on the class."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """base_constraint for all elements of the last reinterpreted_batch_ndims dimensions together."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError("base_constraint must be a Constraint, got %s" % type(base_constraint).__name__)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError("reinterpreted_batch_ndims must be an integer >= 0, got %r"
                                 % (reinterpreted_batch_ndims,))
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError("Expected value.dim() >= %d but got %d"
                             % (self.base_constraint.event_dim + self.reinterpreted_batch_ndims, value.dim()))
        return _all_of_last(result, self.reinterpreted_batch_ndims)

    def __repr__(self):
        return "IndependentConstraint(%r, %d)" % (self.base_constraint, self.reinterpreted_batch_ndims)


class MixtureSameFamilyConstraint(Constraint):
    """The support of all components of a mixture at once."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError("base_constraint must be a Constraint, got %s" % type(base_constraint).__name__)
        self.base_constraint = base_constraint

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim

    def check(self, value):
        # The value is tried against each component: a dimension for them goes before the event.
        at = -1 - self.event_dim
        result = self.base_constraint.check(value.unsqueeze(at))
        if value.dim() < self.event_dim:
            raise ValueError("Expected value.dim() >= %d but got %d" % (self.event_dim, value.dim()))
        free = value.dim() - self.event_dim
        return result.reshape(result.shape[:free] + (-1,)).all(-1)

    def __repr__(self):
        return "MixtureSameFamilyConstraint(%r)" % (self.base_constraint,)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Sets given by bounds: equal bounds print alike."""

    def __repr__(self):
        bounds = ("%s=%s" % (name, getattr(self, name)) for name in ("lower_bound", "upper_bound")
                  if name in self.__dict__)
        return "%s(%s)" % (type(self).__name__[1:], ", ".join(bounds))


class _Above(_Bounded):
    def __init__(self, lower_bound):
        self.lower_bound = lower_bound
        super().__init__()


class _Below(_Bounded):
    def __init__(self, upper_bound):
        self.upper_bound = upper_bound
        super().__init__()


class _Between(_Bounded):
    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        super().__init__()


class _IntegerInterval(_Between):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value):
        return value == value   # false for NaN alone


class _GreaterThan(_Above):
    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Below):
    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return torch.all(value >= 0, dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return _all_of_last(value.tril() == value, 2)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        return _all_of_last(value.tril() == value, 2) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        # Rows of a correlation matrix's Cholesky factor have length 1, up to ten roundings an element.
        slack = torch.finfo(value.dtype).eps * value.size(-1) * 10
        lengths = torch.linalg.norm(value.detach(), dim=-1)
        return _LowerCholesky().check(value) & (lengths - 1).abs().le(slack).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return torch.full(size=value.shape[:-2], fill_value=value.shape[-2] == value.shape[-1], dtype=torch.bool,
                          device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        if not square.all():
            return square
        return _all_of_last(torch.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return torch.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return torch.linalg.cholesky_ex(value).info.eq(0)


class _Parts(Constraint):
    """Several constraints along one dimension."""

    @property
    def is_discrete(self):
        return any(part.is_discrete for part in self.cseq)


class _Cat(_Parts):
    """Constraints for pieces of the given lengths along dim."""

    def __init__(self, cseq, dim=0, lengths=None):
        if not all(isinstance(part, Constraint) for part in cseq):
            raise AssertionError("cseq must hold Constraints")
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError("cseq and lengths differ in length")
        self.dim = dim
        super().__init__()

    @property
    def event_dim(self):
        return max(part.event_dim for part in self.cseq)

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError("dimension %d is out of range for a value of %d dimensions" % (self.dim, value.dim()))
        checks, start = [], 0
        for part, length in zip(self.cseq, self.lengths):
            checks.append(part.check(value.narrow(self.dim, start, length)))
            start += length
        return torch.cat(checks, self.dim)


class _Stack(_Parts):
    """Constraints for the slices along dim."""

    def __init__(self, cseq, dim=0):
        if not all(isinstance(part, Constraint) for part in cseq):
            raise AssertionError("cseq must hold Constraints")
        self.cseq = list(cseq)
        self.dim = dim
        super().__init__()

    @property
    def event_dim(self):
        deepest = max(part.event_dim for part in self.cseq)
        return deepest + 1 if self.dim + deepest < 0 else deepest

    def check(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError("dimension %d is out of range for a value of %d dimensions" % (self.dim, value.dim()))
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return torch.stack([part.check(piece) for piece, part in zip(slices, self.cseq)], self.dim)


dependent, dependent_property, independent = _Dependent(), _DependentProperty, _IndependentConstraint
# numbers
boolean, one_hot, multinomial = _Boolean(), _OneHot(), _Multinomial
integer_interval, nonnegative_integer, positive_integer = _IntegerInterval, _IntegerGreaterThan(0), _IntegerGreaterThan(1)
real, real_vector = _Real(), _IndependentConstraint(_Real(), 1)
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
positive, nonnegative = _GreaterThan(0.0), _GreaterThanEq(0.0)
interval, half_open_interval, unit_interval = _Interval, _HalfOpenInterval, _Interval(0.0, 1.0)
# vectors and matrices
simplex, square, symmetric = _Simplex(), _Square(), _Symmetric()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
# tensors of several parts
cat, stack = _Cat, _Stack
