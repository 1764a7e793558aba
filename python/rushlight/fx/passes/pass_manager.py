"""PassManager of old: functions of whatever is handed from one to the next."""
import logging
from functools import wraps
from inspect import unwrap

from rushlight.fx.passes.infra.pass_manager import _Scheduled

__all__ = ["PassManager", "inplace_wrapper", "log_hook", "loop_pass", "this_before_that_pass_constraint", "these_before_those_pass_constraint"]

logger = logging.getLogger("torch.fx.passes.pass_manager")


def inplace_wrapper(fn):
    """A pass of a function that changes its argument and returns nothing."""
    @wraps(fn)
    def wrapped(gm, *args, **kwargs):
        fn(gm, *args, **kwargs)
        return gm
    return wrapped


def log_hook(fn, level=logging.INFO):
    """A pass that logs what it returns."""
    @wraps(fn)
    def wrapped(gm, *args, **kwargs):
        result = fn(gm, *args, **kwargs)
        logger.log(level, "Ran pass %s\t Return value: %s", fn.__name__, result)
        return result
    return wrapped


def loop_pass(base_pass, n_iter=None, predicate=None):
    """A pass that runs another n_iter times, or as long as the predicate says of what it returned."""
    if (n_iter is None) == (predicate is None):
        raise AssertionError("Exactly one of `n_iter`or `predicate` must be specified.")

    @wraps(base_pass)
    def wrapped(source):
        result = source
        if n_iter is not None:
            for _ in range(n_iter):
                result = base_pass(result)
        else:
            while predicate(result):
                result = base_pass(result)
        return result
    return wrapped


def _validate_pass_schedule_constraint(constraint, passes):
    for i, first in enumerate(passes):
        for j in range(i + 1, len(passes)):
            if not constraint(first, passes[j]):
                raise RuntimeError("pass schedule constraint violated. Expected %s before %s but found %s at index %d and %s at index%d in pass list."
                                   % (first, passes[j], first, i, passes[j], j))


def this_before_that_pass_constraint(this, that):
    """A constraint: `that` does not come before `this`."""
    return lambda a, b: not (a == that and b == this)


def these_before_those_pass_constraint(these, those):
    """The same of passes that may be wrapped: what is inside is compared."""
    return lambda a, b: not (unwrap(a) == those and unwrap(b) == these)


class PassManager(_Scheduled):
    """Runs passes in their order, which constraints may forbid."""
    _check = staticmethod(_validate_pass_schedule_constraint)
    validate = _Scheduled._validate

    def __init__(self, passes=None, constraints=None):
        super().__init__(passes, constraints)

    @classmethod
    def build_from_passlist(cls, passes):
        return cls(passes)

    def remove_pass(self, _passes):
        """Takes out the passes of these names."""
        self.passes = [p for p in self.passes if p.__name__ not in _passes]
        self._validated = False

    def replace_pass(self, _target, _replacement):
        self.passes = [_replacement if p.__name__ == _target.__name__ else p for p in self.passes]
        self._validated = False

    def __call__(self, source):
        self.validate()
        for each in self.passes:
            source = each(source)
        return source
