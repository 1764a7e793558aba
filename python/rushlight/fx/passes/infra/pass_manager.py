"""PassManager: transformations one after another, in an order that constraints allow."""
import inspect
import logging
from functools import wraps

from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.nn import Module

__all__ = ["pass_result_wrapper", "this_before_that_pass_constraint", "PassManager"]

logger = logging.getLogger("torch.fx.passes.infra.pass_manager")


def pass_result_wrapper(fn):
    """A pass of a function that changes a module, or returns a changed one: the wrapped one returns a PassResult."""
    if fn is None:
        return None

    @wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        if result is None:
            return PassResult(gm, True)
        return result if isinstance(result, PassResult) else PassResult(result, True)
    if not inspect.isfunction(fn):
        wrapped.__name__ = str(type(fn))
    return wrapped


def _validate_pass_schedule_constraint(constraint, passes):
    for i, first in enumerate(passes):
        for j in range(i + 1, len(passes)):
            if not constraint(first, passes[j]):
                raise RuntimeError("pass schedule constraint violated. Expected %s before %s but found %s at index %d and %s at index %d in pass list."
                                   % (first, passes[j], first, i, passes[j], j))


def _topological_sort_passes(passes, constraints):
    """The passes in an order that all constraints allow, near to that in which they are."""
    if not constraints:
        return passes
    after = {p: [q for q in passes if q is not p and not all(c(q, p) for c in constraints)] for p in passes}     # those that p must come before
    waits = {p: sum(p in later for later in after.values()) for p in passes}
    ready, order = [p for p in passes if not waits[p]], []
    while ready:
        current = ready.pop(0)
        order.append(current)
        for other in after[current]:
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    if len(order) < len(passes):
        raise RuntimeError("Circular dependency detected within the following passes: %s" % [p for p in passes if waits[p]])
    return order


def this_before_that_pass_constraint(this, that):
    """A constraint: `that` does not come before `this`."""
    return lambda a, b: not (a == that and b == this)


class _Scheduled:
    """Passes, and constraints of their order."""
    _check = staticmethod(_validate_pass_schedule_constraint)

    def __init__(self, passes, constraints):
        self.passes, self.constraints, self._validated = passes or [], constraints or [], False

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._validated = False

    def _validate(self):
        """Raises an error where the order of the passes breaks a constraint."""
        if not self._validated:
            for constraint in self.constraints:
                self._check(constraint, self.passes)
            self._validated = True


class PassManager(_Scheduled):
    """Runs passes `steps` times, or until none changes anything; between them, if asked, and at the end checks of the module."""

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False, suppress_check_failures=False):
        super().__init__(passes, constraints)
        self.steps, self._checks = steps or 1, None
        self.run_checks_after_each_pass, self.suppress_check_failures = run_checks_after_each_pass, suppress_check_failures

    validate_constraints = _Scheduled._validate

    def solve_constraints(self):
        """Puts the passes in an order that the constraints allow."""
        self.passes, self._validated = _topological_sort_passes(self.passes, self.constraints), True

    def add_checks(self, check):
        """What is to be true of the module: a function of it that raises where it is not."""
        if not callable(check):
            raise TypeError("%s is not a callable object" % (check,))
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self._checks = check

    def check(self, module):
        if self._checks is not None:
            self._checks(module)

    def _check_between(self, module):
        try:
            self.check(module)
        except Exception:
            if not self.suppress_check_failures:
                raise
            logger.warning("a check of the module failed", exc_info=True)

    def __call__(self, module):
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        overall = False
        for _ in range(self.steps):
            modified = False
            for i, each in enumerate(self.passes):
                name = each.__name__ if inspect.isfunction(each) else type(each).__name__
                module, changed = self._run(module, each, name, i)
                modified = modified or changed
            overall = overall or modified
            if not modified:
                break
        return PassResult(module, overall)

    def _run(self, module, each, name, i):
        try:
            result = each(module)
            if not isinstance(result, PassResult):
                raise TypeError("The result of the pass %s should be type PassResult. Please wrap it with pass_result_wrapper()" % name)
        except Exception as error:
            before = [p.__name__ if inspect.isfunction(p) else type(p).__name__ for p in self.passes[:i]]
            raise Exception("An error occurred when running the '%s' pass after the following passes: %s" % (name, before)) from error  # noqa: TRY002
        if isinstance(result.graph_module, Module) and hasattr(result.graph_module, "recompile"):
            result.graph_module.recompile()
        if self.run_checks_after_each_pass:
            self._check_between(result.graph_module)
        return result.graph_module, result.modified
