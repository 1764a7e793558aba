"""PassManager: transformations one after another."""
from rushlight.fx.passes.infra.pass_base import PassResult


class PassManager:
    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False,
                 suppress_check_failures=False):
        self.passes, self.steps = list(passes or []), steps or 1

    def add_pass(self, _pass):
        self.passes.append(_pass)

    def __call__(self, module):
        overall = False
        for _ in range(self.steps):
            modified = False
            for each in self.passes:
                result = each(module)
                module, modified = result.graph_module, modified or result.modified
            overall = overall or modified
            if not modified:
                break
        return PassResult(module, overall)
