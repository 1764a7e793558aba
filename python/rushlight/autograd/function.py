"""torch.autograd.Function: operations with a derivative written by the user. The machinery is the extension's."""
import functools

import rushlight as torch
from rushlight import _C, _functorch, _pending
from rushlight._C import _FunctionBase

__all__ = ["FunctionCtx", "BackwardCFunction", "FunctionMeta", "Function", "once_differentiable", "InplaceFunction",
           "NestedIOFunction"]

_below = None  # the module of nested tensors, once there may be some: functions of them run on the dense tensors below
traces = []  # the records of torch.jit.trace that run, the innermost last


class FunctionCtx:
    """The ctx of forward and backward."""

    def save_for_backward(self, *tensors):
        """Keep tensors for backward, where ctx.saved_tensors gives them back."""
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keep tensors for jvp."""
        for tensor in tensors:
            if not (isinstance(tensor, torch.Tensor) or tensor is None):
                raise AssertionError("save_for_forward expects all arguments to be tensors; you should save non-tensors as "
                                     "attributes on ctx.")
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """Say which inputs forward changed in place."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args):
        """Say which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """Whether missing gradients come to backward as zeros (default) or as None."""
        self.materialize_grads = value

    def mark_shared_storage(self, *pairs):
        import warnings
        warnings.warn("mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked.",
                      FutureWarning, stacklevel=2)


_ContextMethodMixin = FunctionCtx


class _HookMixin:
    @staticmethod
    def _register_hook(backward_hooks, hook):
        from collections import OrderedDict
        from rushlight.utils.hooks import RemovableHandle
        backward_hooks = OrderedDict() if backward_hooks is None else backward_hooks
        handle = RemovableHandle(backward_hooks)
        backward_hooks[handle.id] = hook
        return backward_hooks, handle


class BackwardCFunction(_FunctionBase, FunctionCtx, _HookMixin):
    """The class of the graph's nodes made by a Function; each Function has a subclass of its own."""

    def apply(self, *args):
        if _functorch.pushing[0] and "inputs_like" in self.__dict__:
            from rushlight._functorch import custom
            return custom.pushed(self, args)
        backward, vjp = self._forward_cls.backward, self._forward_cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
                               "only implement one of them.")
        return (vjp if vjp is not Function.vjp else backward)(self, *args)

    @property
    def clear_saved_tensors_on_access(self):
        return self._forward_cls.clear_saved_tensors_on_access

    def apply_jvp(self, *args):
        return self._forward_cls.jvp(self, *args)

    def _compiled_autograd_key(self):
        return self._forward_cls._compiled_autograd_key(self)


class FunctionMeta(type):
    """Gives each Function the class of its nodes."""

    def __init__(cls, name, bases, attrs):
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        super().__init__(name, bases, attrs)


class _SingleLevelFunction(_FunctionBase, FunctionCtx, _HookMixin, metaclass=FunctionMeta):
    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function "
                                  "to use it with backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward "
                                  "mode AD.")


def _positional(cls, args, kwargs):
    """The arguments of forward in their order; with defaults where the context is set up apart, which sees them all."""
    import inspect
    apart, code = cls.setup_context is not _SingleLevelFunction.setup_context, getattr(cls.forward, "__code__", None)
    if apart and not kwargs and code is not None and len(args) >= code.co_argcount:
        return args
    signature = inspect.signature(cls.forward)
    if apart:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, left = bound.args, bound.kwargs
    else:
        names = [p.name for p in list(signature.parameters.values())[1:] if p.kind == p.POSITIONAL_OR_KEYWORD]
        args, left = list(args), dict(kwargs)
        for name in names[:len(args)]:
            if name in left:
                raise TypeError(f"forward() got multiple values for argument '{name}'")
        for name in names[len(args):]:
            if name in left:
                args.append(left.pop(name))
            elif not left.keys().isdisjoint(names):
                raise TypeError(f"forward() missing required argument: '{name}' (position {len(args)})")
    if left:
        raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(left))}'")
    return args


class Function(_SingleLevelFunction):
    """Base of custom operations: static methods forward(ctx, *inputs) and backward(ctx, *gradients)."""

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False  # whether ctx.saved_tensors may be read once, which lets go of them

    def __init__(self, *args, **kwargs):
        import warnings
        warnings.warn("%s should not be instantiated. Methods on autograd functions are all static, so you should invoke "
                      "them on the class itself. Instantiating an autograd function will raise an error in a future "
                      "version of PyTorch." % type(self), DeprecationWarning, stacklevel=2)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use new-style "
                           "autograd function with static forward method.")

    @staticmethod
    def vmap(info, in_dims, *args):
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod or "
                                  "set generate_vmap_rule=True.")

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run it; what happens to the result is recorded."""
        if kwargs or cls.setup_context is not _SingleLevelFunction.setup_context:
            args = _positional(cls, args, kwargs)
        if traces and not traces[-1].tracer.hidden:
            return traces[-1].tracer.function(cls, args, functools.partial(cls.apply, *args))
        if _pending.open and _pending.waits():
            return _pending.alone("a Function of autograd stands in no graph", cls.apply, args, {}, real=False)
        if _below is not None and any(isinstance(a, _below.NestedBase) for a in args):
            return _below.apply_function(cls, args)
        if _functorch.levels:
            from rushlight._functorch import custom
            return custom.batched(cls, args, super().apply)
        if _functorch.forward[0] and cls.jvp is not Function.jvp:
            from rushlight._functorch import custom
            return custom.remember(super().apply(*args), args)
        return super().apply(*args)

    @staticmethod
    def _compiled_autograd_key(ctx):
        return (ctx._autograd_function_id,)


def _is_setup_context_defined(fn):
    return fn != _SingleLevelFunction.setup_context


class _Twice(Function):
    """Stands behind the results of a backward that may not be differentiated."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(t.view_as(t) if isinstance(t, torch.Tensor) else t for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(fn):
    """Decorator of backward: its operations are not recorded, a second derivative is an error."""
    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with torch.no_grad():
            outputs = fn(ctx, *args)
        if not torch.is_grad_enabled():
            return outputs
        if not any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return outputs
        single = not isinstance(outputs, tuple)
        outputs = (outputs,) if single else outputs
        marked = [None if o is None else o.detach().requires_grad_() for o in outputs]
        result = _Twice.apply(*marked)
        return result[0] if single else result
    return wrapper


class InplaceFunction(Function):
    """A Function that may work in place."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Functions of nested structures, of PyTorch's first versions; use Function."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("NestedIOFunction is not supported: use autograd.Function")


def traceable(fn_cls):
    """Was a mark for an old tracer."""
    fn_cls.is_traceable = True
    return fn_cls
