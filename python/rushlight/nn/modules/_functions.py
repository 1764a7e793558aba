"""Backward hooks of modules, and the functions of layers that have a derivative of their own.

A full backward hook needs to know when the gradients of all inputs of a module are there, although
the module may be any piece of graph.  So inputs and outputs pass through one identity node each: the
node behind the inputs receives the input gradients together, the one behind the outputs the output
gradients.
"""
import warnings

import rushlight as torch


def __getattr__(name):
    # Made on first use: most programs have no such hooks, and custom functions cost time to load.
    if name != "BackwardHookFunction":
        raise AttributeError(f"module 'torch.nn.modules._functions' has no attribute '{name}'")
    from rushlight.autograd.function import Function

    class BackwardHookFunction(Function):
        """Identity on all its tensors, in one node."""

        @staticmethod
        def forward(ctx, *args):
            ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
            return args

        @staticmethod
        def backward(ctx, *args):
            return args

    BackwardHookFunction.__qualname__ = name
    globals()[name] = BackwardHookFunction
    return BackwardHookFunction


def _as_tuple(x):
    return x if isinstance(x, tuple) else (x,)


class ModuleGradients:
    """The gradients of one call of a module, shown to its backward hooks."""

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs = None
        self.input_places = None      # where among the inputs the watched tensors stand; None: none needs grad
        self.n_inputs = self.n_outputs = -1
        self.output_places = ()

    @staticmethod
    def _spread(values, places, size):
        full = [None] * size
        for place, value in zip(places, values):
            full[place] = value
        return tuple(full)

    @staticmethod
    def _through_node(register, args):
        """Send the tensors of `args` through an identity node that needs grad; (args, places) or None."""
        places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        tensors = [args[i] for i in places]
        if not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors):
            return None
        fresh = (globals().get("BackwardHookFunction") or __getattr__("BackwardHookFunction")).apply(*tensors)
        fresh = fresh if isinstance(fresh, tuple) else (fresh,)
        nodes = [t.grad_fn for t in fresh if t.grad_fn is not None]
        if not nodes:
            raise RuntimeError("Error while setting up backward hooks. Please open an issue with a code sample "
                               "to reproduce this.")
        register(nodes[0])
        out = list(args)
        for place, tensor in zip(places, fresh):
            out[place] = tensor
        return tuple(out), places

    def watch_inputs(self, args):
        def register(node):
            def on_input_gradients(grad_inputs, _):
                if self.grad_outputs is None:
                    return None         # the outputs of this call took no part in the loss
                seen = self._spread(grad_inputs, self.input_places, self.n_inputs)
                seen = self._run_hooks(seen)
                self.grad_outputs = None
                return tuple(seen[i] for i in self.input_places)
            node.register_hook(on_input_gradients)

        self.n_inputs = len(args)
        found = self._through_node(register, args)
        if found is None:
            return args
        args, self.input_places = found
        return args

    def _run_hooks(self, grads):
        for hook in self.hooks:
            answer = hook(self.module, grads, self.grad_outputs)
            if answer is None:
                continue
            answer = _as_tuple(answer)
            if len(answer) != len(grads):
                raise RuntimeError("Backward hook returned an invalid number of grad_input, got "
                                   f"{len(answer)}, but expected {len(grads)}")
            grads = answer
        return grads

    def _run_pre_hooks(self):
        for hook in self.pre_hooks:
            answer = hook(self.module, self.grad_outputs)
            if answer is None:
                continue
            answer = _as_tuple(answer)
            if len(answer) != len(self.grad_outputs):
                raise RuntimeError("Backward pre hook returned an invalid number of grad_output, got "
                                   f"{len(answer)}, but expected {len(self.grad_outputs)}")
            self.grad_outputs = answer

    def watch_outputs(self, result):
        def register(node):
            def on_output_gradients(_, grad_outputs):
                self.grad_outputs = self._spread(grad_outputs, self.output_places, self.n_outputs)
                self._run_pre_hooks()
                passed_on = self.grad_outputs
                if self.input_places is None:
                    warnings.warn(
                        "Full backward hook is firing when gradients are computed with respect to module outputs "
                        "since no inputs require gradients. See https://docs.pytorch.org/docs/main/generated/"
                        "torch.nn.Module.html#torch.nn.Module.register_full_backward_hook for more details.",
                        stacklevel=5)
                    # Nothing will arrive at the inputs, so this is the moment.
                    for hook in self.hooks:
                        answer = hook(self.module, (None,) * self.n_inputs, self.grad_outputs)
                        if answer is not None and not all(a is None for a in _as_tuple(answer)):
                            raise RuntimeError("Backward hook for Modules where no input requires gradient should "
                                               "always return None or None for all gradients.")
                    self.grad_outputs = None
                return tuple(passed_on[i] for i in self.output_places)
            node.register_hook(on_output_gradients)

        single = isinstance(result, torch.Tensor)
        outs = (result,) if single else result
        if not isinstance(outs, tuple):
            return result
        self.n_outputs = len(outs)
        found = self._through_node(register, outs)
        if found is None:
            return result
        fresh, self.output_places = found
        if single:
            return fresh[0]
        if hasattr(result, "_fields"):
            return type(result)(*fresh)
        return fresh


def node_of(result):
    """The grad_fn of the first tensor in a result, for the old kind of backward hook."""
    while not isinstance(result, torch.Tensor):
        if isinstance(result, dict):
            result = next((v for v in result.values() if isinstance(v, torch.Tensor)), None)
        elif isinstance(result, (tuple, list)) and result:
            result = result[0]
        else:
            return None
        if result is None:
            return None
    return result.grad_fn


def bound_to_module(hook, module):
    """`hook` with the module as its first argument, keeping its name."""
    import functools

    def bound(*grads):
        return hook(module, *grads)

    return functools.update_wrapper(bound, hook) if hasattr(hook, "__name__") else bound


def what_an_old_hook_misses(inputs, result, grad_fn):
    """The warning text for an old hook that will not see everything, or None."""
    advice = " Please use register_full_backward_hook to get the documented behavior."
    if not isinstance(result, torch.Tensor) and not (
            isinstance(result, tuple) and all(isinstance(r, torch.Tensor) for r in result)):
        return ("Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors "
                "is deprecated and will be removed in future versions. This hook will be missing some of the "
                "grad_output." + advice)
    if not all(isinstance(i, torch.Tensor) for i in inputs):
        return ("Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of "
                "Tensors is deprecated and will be removed in future versions. This hook will be missing some of the "
                "grad_input." + advice)
    if isinstance(result, tuple) and len({r.grad_fn for r in result}) != 1:
        return ("Using a non-full backward hook when outputs are generated by different autograd Nodes is deprecated "
                "and will be removed in future versions. This hook will be missing some grad_output." + advice)
    behind = {i.grad_fn for i in inputs if i.grad_fn is not None}
    sources = {n for n, _ in grad_fn.next_functions if n is not None}
    if sources - behind and any("AccumulateGrad" not in n.name() for n in sources - behind):
        return ("Using a non-full backward hook when the forward contains multiple autograd Nodes is deprecated and "
                "will be removed in future versions. This hook will be missing some grad_input." + advice)
    return None
