"""__torch_dispatch__: modes that see every operation, and questions about tensor subclasses."""
import contextlib

import rushlight as torch

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type",
           "return_and_correct_aliasing", "transform_subclass"]

_is_in_torch_dispatch_mode = False


def _modes():
    return torch._C_extras.dispatch_modes


def is_in_torch_dispatch_mode(include_infra_modes=True):
    return bool(_modes())


def is_in_any_mode_without_ignore_compile_internals():
    return bool(_modes())


class TorchDispatchMode:
    """Inside `with mode:` operations go to mode.__torch_dispatch__(func, types, args, kwargs)."""

    def __init__(self, _dispatch_key=None):
        self.old_dispatch_mode_flags = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _push_mode(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _pop_mode()

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        return False

    @classmethod
    def ignore_compile_internals(cls):
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode):
    push = getattr(torch._C, "_push_on_torch_dispatch_stack", None)
    if push is None:
        raise NotImplementedError("TorchDispatchMode: this build has no hook below autograd")
    push(mode)


def _pop_mode(mode_key=None):
    return torch._C._pop_torch_dispatch_stack(mode_key)


def _get_current_dispatch_mode():
    count = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)()
    return torch._C._get_dispatch_stack_at(count - 1) if count else None


def _get_current_dispatch_mode_stack():
    count = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)()
    return [torch._C._get_dispatch_stack_at(i) for i in range(count)]


def _len_torch_dispatch_stack_pre_dispatch():
    return 0


@contextlib.contextmanager
def _disable_current_modes():
    """No dispatch mode is active inside."""
    removed = []
    while _get_current_dispatch_mode_stack():
        removed.append(_pop_mode())
    try:
        yield removed
    finally:
        for mode in reversed(removed):
            _push_mode(mode)


def is_traceable_wrapper_subclass(t):
    """Whether t is a tensor subclass that says how to take it apart (__tensor_flatten__)."""
    is_subclass = isinstance(t, torch.Tensor) and type(t) is not torch.Tensor
    return is_subclass and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t):
    return issubclass(t, torch.Tensor) and t is not torch.Tensor and hasattr(t, "__tensor_flatten__") \
        and hasattr(t, "__tensor_unflatten__")


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """The same wrapper with callback(name, inner) applied to its inner tensors."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    return type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """For wrappers: an in-place operation returns its argument itself, not a new wrapper."""
    returns = getattr(getattr(func, "_schema", None), "returns", ())
    if len(returns) == 1 and getattr(returns[0], "alias_info", None) is not None \
            and returns[0].alias_info.is_write and args:
        return args[0]
    return out


def autograd_would_have_decomposed(func, flat_args):
    return False
