"""Handles that remove hooks."""
import weakref
from collections import OrderedDict

import rushlight as torch

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks", "BackwardHook"]


class RemovableHandle:
    """What registering a hook returns: remove() takes the hook away. Also a context manager."""

    next_id = 0

    def __init__(self, hooks_dict, *, extra_dict=None):
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        self.extra_dict_ref = ()
        if isinstance(extra_dict, dict):
            self.extra_dict_ref = (weakref.ref(extra_dict),)
        elif isinstance(extra_dict, list):
            self.extra_dict_ref = tuple(weakref.ref(d) for d in extra_dict)

    def remove(self):
        for ref in (self.hooks_dict_ref,) + self.extra_dict_ref:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        if self.extra_dict_ref is None or not self.extra_dict_ref:
            return self.hooks_dict_ref(), self.id
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state):
        # A dead dict is stood in for by a new one, which nothing else refers to.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        extra = state[2] if len(state) > 2 and state[2] is not None else ()
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in extra)

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.remove()


def unserializable_hook(f):
    """Mark a hook that is not to be saved with its tensor."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warn about hooks that pickling a tensor would lose."""
    import warnings
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn("backward hook %r on tensor will not be serialized.  If this is expected, you can decorate the "
                          "function with @torch.utils.hooks.unserializable_hook to suppress this warning" % (hook,),
                          stacklevel=2)


class _Pass(torch.autograd.Function):
    """The identity: a node of the graph to hang hooks on."""

    @staticmethod
    def forward(ctx, *tensors):
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return grads


class BackwardHook:
    """A module's full backward hooks: nodes around inputs and outputs call them with all gradients at once."""

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.n_outputs = self.n_inputs = -1
        self.output_tensors_index = self.input_tensors_index = None

    def _spread(self, values, index, size):
        full = [None] * size
        for i, value in zip(index or (), values):
            full[i] = value
        return tuple(full)

    def _gather(self, values, index):
        return tuple(values[i] for i in index or ())

    def _replaced(self, out, values):
        out = out if isinstance(out, tuple) else (out,)
        if len(out) != len(values):
            raise RuntimeError("Backward hook returned an invalid number of grad_input, got %d, but expected %d"
                               % (len(out), len(values)))
        return out

    def _through_node(self, install, args):
        """Pass the tensors among args through a node, if any needs a gradient; install(grad_fn) hangs hooks on it."""
        index = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
        if not (torch.is_grad_enabled() and any(args[i].requires_grad for i in index)):
            return args, None
        passed = _Pass.apply(*[args[i] for i in index])
        if not passed:
            raise RuntimeError("Cannot set Module backward hook for a Module with no input Tensors.")
        nodes = [t.grad_fn for t in passed if t.grad_fn is not None]
        install(nodes[0])
        new = list(args)
        for i, value in zip(index, passed):
            new[i] = value
        return (type(args)(*new) if type(args) is not tuple and isinstance(args, tuple) else tuple(new)), index

    def setup_input_hook(self, args):
        def install(grad_fn):
            grad_fn.register_hook(self._on_inputs)
        result, index = self._through_node(install, args)
        self.n_inputs, self.input_tensors_index = len(args), index
        return result

    def _on_inputs(self, grad_input, _):
        if self.grad_outputs is None:
            raise RuntimeError("Module backward hook for grad_input is called before the grad_output one. This happens "
                               "because the gradient in your nn.Module flows to the Module's input without passing "
                               "through the Module's output. Make sure that the output depends on the input and that the "
                               "loss is computed based on the output.")
        grads = self._spread(grad_input, self.input_tensors_index, self.n_inputs)
        result = grads
        for hook in self.user_hooks:
            out = hook(self.module, result, self.grad_outputs)
            if out is not None:
                result = self._replaced(out, grads)
        self.grad_outputs = None
        return self._gather(result, self.input_tensors_index)

    def setup_output_hook(self, args):
        def install(grad_fn):
            grad_fn.register_prehook(self._on_outputs)
        single = isinstance(args, torch.Tensor)
        values = (args,) if single else args
        result, index = self._through_node(install, values)
        self.n_outputs, self.output_tensors_index = len(values), index
        return result[0] if single else result

    def _on_outputs(self, grad_outputs):
        self.grad_outputs = self._spread(grad_outputs, self.output_tensors_index, self.n_outputs)
        for hook in self.user_pre_hooks:
            out = hook(self.module, self.grad_outputs)
            if out is not None:
                self.grad_outputs = self._replaced(out, self.grad_outputs)
        mine = self.grad_outputs
        if self.input_tensors_index is None:
            # No input needs a gradient: the hooks run here, with none for the inputs.
            grads = self._spread([], [], self.n_inputs)
            for hook in self.user_hooks:
                if hook(self.module, grads, self.grad_outputs) is not None:
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always return "
                                       "None or None for all gradients.")
            self.grad_outputs = None
        return self._gather(mine, self.output_tensors_index)
