"""biject_to and transform_to: from a constraint to a transform of unconstrained numbers onto it."""
from numbers import Number as _Number

from rushlight.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Calling it with a constraint gives a transform onto that set."""

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Register a factory for a class of constraints (or that of an instance); usable as a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError("Expected constraint to be either a Constraint subclass or instance, but got %s"
                            % (constraint,))
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError("Cannot transform %s constraints" % type(constraint).__name__) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds):
    """Decorator: one factory for both registries."""
    def register(factory):
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory
    return register


@_both(constraints.real)
def _transform_to_real(constraint):
    return transforms.identity_transform


def _exp_then(loc, scale):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(loc, scale)])


_both(constraints.greater_than, constraints.greater_than_eq)(lambda above: _exp_then(above.lower_bound, 1))
_both(constraints.less_than)(lambda below: _exp_then(below.upper_bound, -1))


@_both(constraints.interval, constraints.half_open_interval)
def _onto_interval(between):
    low, high = between.lower_bound, between.upper_bound
    if isinstance(low, _Number) and isinstance(high, _Number) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


# Constraints that one transform is made for.
for _registries, _constraint, _transform in (
        ((biject_to,), constraints.simplex, transforms.StickBreakingTransform),
        ((transform_to,), constraints.simplex, transforms.SoftmaxTransform),
        ((transform_to,), constraints.lower_cholesky, transforms.LowerCholeskyTransform),
        ((transform_to,), constraints.positive_definite, transforms.PositiveDefiniteTransform),
        ((transform_to,), constraints.positive_semidefinite, transforms.PositiveDefiniteTransform),
        ((biject_to, transform_to), constraints.corr_cholesky, transforms.CorrCholeskyTransform)):
    for _registry in _registries:
        _registry.register(_constraint, lambda constraint, transform=_transform: transform())

# Constraints on parts, whose transforms ask the registry again.
for _registry in (biject_to, transform_to):
    _registry.register(constraints.independent, lambda whole, into=_registry: transforms.IndependentTransform(
        into(whole.base_constraint), whole.reinterpreted_batch_ndims))
    _registry.register(constraints.cat, lambda whole, into=_registry: transforms.CatTransform(list(map(into, whole.cseq)), whole.dim, whole.lengths))
    _registry.register(constraints.stack, lambda whole, into=_registry: transforms.StackTransform(list(map(into, whole.cseq)), whole.dim))
