"""Optimizers whose step is one function over lists of tensors.

Such an optimizer says what the state of a parameter consists of and which function makes the step; finding
the gradients, making the state when it is first needed, and reading files of older releases are here.
"""
from rushlight.optim import _fused
from rushlight.optim.adam import _steps_to_tensors
from rushlight.optim.optimizer import Optimizer, _use_grad_for_differentiable


class ListOptimizer(Optimizer):
    """An optimizer with a step counter and some named tensors per parameter."""

    # The names of a parameter's state, as the function takes their lists, between gradients and step counters.
    _state_names = ()
    # The function's keyword arguments that are options of a group; "betas" becomes beta1 and beta2.
    _option_names = ()
    # Options that older files may lack, with what they meant then.
    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _function(self, *lists, **options):
        """Make a step for lists of parameters."""
        raise NotImplementedError

    def _new_state(self, group, p, grad):
        """The state of a parameter before its first step, but for the counter."""
        return {name: _fused.zeros_like(p) for name in self._state_names}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, meaning in self._later_options.items():
                group.setdefault(name, meaning)
            _steps_to_tensors(self, group)

    def _init_group(self, group, params_with_grad, grads, *lists):
        """Fill the lists from a group; whether a parameter is complex."""
        params, found = _fused.collect(group, type(self).__name__)
        params_with_grad.extend(params)
        grads.extend(found)
        *values, state_steps = lists
        for p, grad in zip(params, found):
            state = self.state[p]
            if not state:
                state["step"] = _fused.new_step(group, p)
                state.update(self._new_state(group, p, grad))
            for name, listed in zip(self._state_names, values):
                if name in state:
                    listed.append(state[name])
            state_steps.append(state["step"])
        return any(p.is_complex() for p in params)

    def _options(self, group):
        options = {name: group[name] for name in self._option_names if name != "betas"}
        if "betas" in self._option_names:
            options["beta1"], options["beta2"] = group["betas"]
        return options

    @_use_grad_for_differentiable
    def step(self, closure=None):
        """Change the parameters once."""
        self._accelerator_graph_capture_health_check()
        loss = _fused.evaluate(closure)
        for group in self.param_groups:
            lists = tuple([] for _ in range(3 + len(self._state_names)))
            has_complex = self._init_group(group, *lists)
            self._function(*lists, has_complex=has_complex, foreach=group["foreach"], maximize=group["maximize"],
                           differentiable=group["differentiable"], capturable=group["capturable"],
                           **self._options(group))
        return loss
