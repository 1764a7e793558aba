"""Distribution: the base class. A batch of distributions, each over events of one shape."""
import warnings

import rushlight as torch
from rushlight import _pending
from rushlight.distributions import constraints
from rushlight.distributions.utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """Base class. Subclasses that list their tensor parameters in _expands get expand() from here."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _expands = None     # {parameter name: number of its trailing event dimensions}

    @staticmethod
    def set_default_validate_args(value):
        """Whether arguments are checked where validate_args is not given."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=torch.Size(), event_shape=torch.Size(), validate_args=None):
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self):
        try:
            table = self.arg_constraints
        except NotImplementedError:
            warnings.warn("%s does not define `arg_constraints`. Please set `arg_constraints = {}` or initialize the "
                          "distribution with `validate_args=False` to turn off validation." % type(self),
                          stacklevel=3)
            return
        for name, constraint in table.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue    # computed from the parameter that was given, which is checked
            value = getattr(self, name)
            good = constraint.check(value)
            if not _pending.truth(torch.func.debug_unwrap(good).all()):
                raise ValueError("Expected parameter {} ({} of shape {}) of distribution {!r} to satisfy the constraint "
                                 "{!r}, but found invalid values:\n{}".format(
                                     name, type(value).__name__, tuple(value.shape), self, constraint, value))

    def expand(self, batch_shape, _instance=None):
        """The same distribution over a larger batch."""
        owner = self._expand_owner()
        new = self._get_checked_instance(owner, _instance)
        batch_shape = torch.Size(batch_shape)
        self._expand_into(new, owner, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_owner(self):
        for cls in type(self).__mro__:
            if cls.__dict__.get("_expands") is not None:
                return cls
        raise NotImplementedError

    def _expand_into(self, new, owner, batch_shape):
        """Give new the parameters of self, expanded. Subclasses add what is not a tensor."""
        for name, dims in owner._expands.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value.expand(batch_shape + value.shape[value.dim() - dims:]))

    @property
    def batch_shape(self):
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    @property
    def arg_constraints(self):
        raise NotImplementedError

    @property
    def support(self):
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError("%s does not implement mode" % type(self))

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=torch.Size()):
        """Draw samples, without gradient."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=torch.Size()):
        """Draw samples that are differentiable in the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", FutureWarning, stacklevel=2)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value):
        raise NotImplementedError

    def cdf(self, value):
        raise NotImplementedError

    def icdf(self, value):
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along the first dimension."""
        raise NotImplementedError

    def entropy(self):
        raise NotImplementedError

    def perplexity(self):
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape=torch.Size()):
        if not isinstance(sample_shape, torch.Size):
            sample_shape = torch.Size(sample_shape)
        return torch.Size(sample_shape + self._batch_shape + self._event_shape)

    def _valid(self, value):
        """value, when it is one of the support or nobody asked to look."""
        if self._validate_args:
            self._validate_sample(value)
        return value

    def _validate_sample(self, value):
        """Raise unless value can be an argument of log_prob and the like."""
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_at = len(value.size()) - len(self._event_shape)
        if value.size()[event_at:] != self._event_shape:
            raise ValueError("The right-most size of value must match event_shape: %s vs %s."
                             % (value.size(), self._event_shape))
        wanted = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.size()), reversed(wanted)):
            if i != 1 and j != 1 and i != j:
                raise ValueError("Value is not broadcastable with batch_shape+event_shape: %s vs %s."
                                 % (value.size(), wanted))
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn("%s does not define `support` to enable sample validation. Please initialize the distribution "
                          "with `validate_args=False` to turn off validation." % type(self), stacklevel=3)
            return
        if support is None:
            raise AssertionError("support is None")
        if not _pending.truth(torch.func.debug_unwrap(support.check(value)).all()):
            raise ValueError("Expected value argument ({} of shape {}) to be within the support ({!r}) of the "
                             "distribution {!r}, but found invalid values:\n{}".format(
                                 type(value).__name__, tuple(value.shape), support, self, value))

    def _get_checked_instance(self, cls, _instance=None):
        """A bare instance to fill in by expand; a subclass with an __init__ of its own needs its own expand."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError("Subclass %s of %s that defines a custom __init__ method must also define a "
                                      "custom .expand() method." % (type(self).__name__, cls.__name__))
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self):
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append("{}: {}".format(name, value if value.numel() == 1 else value.size()))
        return "%s(%s)" % (type(self).__name__, ", ".join(shown))
