"""__torch_dispatch__: modes that see every operation, and help for tensor classes that answer for themselves."""
import contextlib

import rushlight as torch
from rushlight import _C

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type",
           "return_and_correct_aliasing", "transform_subclass"]

_is_in_torch_dispatch_mode = False


class TorchDispatchMode:
    """Inside `with mode:` operations go to mode.__torch_dispatch__(func, types, args, kwargs)."""

    _mode_key = None

    def __init__(self, _dispatch_key=None):
        self.old_dispatch_mode_flags = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    def __enter__(self):
        _push_mode(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _pop_mode(self._mode_key)

    @classmethod
    def push(cls, *args, **kwargs):
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls):
        return cls._mode_key is not None

    @classmethod
    def ignore_compile_internals(cls):
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode):
    _C._push_on_torch_dispatch_stack(mode)


def _pop_mode(mode_key=None):
    return _C._pop_torch_dispatch_stack(mode_key)


def _get_current_dispatch_mode_stack():
    """The modes, outermost first."""
    return [_C._get_dispatch_stack_at(i) for i in range(_C._len_torch_dispatch_stack())]


def _get_current_dispatch_mode():
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def is_in_torch_dispatch_mode(include_infra_modes=True):
    return any(include_infra_modes or not mode.is_infra_mode() for mode in _get_current_dispatch_mode_stack())


def is_in_any_mode_without_ignore_compile_internals():
    return any(not mode.ignore_compile_internals() for mode in _get_current_dispatch_mode_stack())


def _len_torch_dispatch_stack_pre_dispatch():
    return 0


@contextlib.contextmanager
def _pop_mode_temporarily(mode_key=None):
    """The innermost mode, or the one of a key, is off the stack inside."""
    mode = _pop_mode(mode_key)
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextlib.contextmanager
def _disable_current_modes():
    """No dispatch mode is active inside."""
    removed = []
    while _C._len_torch_dispatch_stack():
        removed.append(_pop_mode())
    try:
        yield removed
    finally:
        for mode in reversed(removed):
            _push_mode(mode)


@contextlib.contextmanager
def _disable_infra_modes():
    """Only the modes of programs are active inside."""
    removed = [mode for mode in _get_current_dispatch_mode_stack() if mode.is_infra_mode()]
    for mode in removed:
        _pop_mode(mode._mode_key)
    try:
        yield removed
    finally:
        for mode in removed:
            _push_mode(mode)


def is_traceable_wrapper_subclass_type(t):
    """Whether tensors of this class say how to take them apart (__tensor_flatten__)."""
    return issubclass(t, torch.Tensor) and t is not torch.Tensor and hasattr(t, "__tensor_flatten__") \
        and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass(t):
    return isinstance(t, torch.Tensor) and is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """The same wrapper with callback(name, inner) applied to its inner tensors."""
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, t.size() if outer_size is None else outer_size,
                                        t.stride() if outer_stride is None else outer_stride)
    if made.shape != t.shape and outer_size is None:
        raise AssertionError("%s.__tensor_unflatten__ made a tensor of shape %s instead of %s"
                             % (type(t).__name__, tuple(made.shape), tuple(t.shape)))
    return made


def _written_arguments(func, args, kwargs):
    """The values of the arguments that the schema marks as written, in order."""
    found = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found.append(kwargs.get(argument.name) if argument.kwarg_only or i >= len(args) else args[i])
    return found


def return_and_correct_aliasing(func, args, kwargs, out):
    """What a wrapper's __torch_dispatch__ ends with: in-place and out= operations return the tensors that were given."""
    returns = func._schema.returns
    writes = [r.alias_info is not None and r.alias_info.is_write for r in returns]
    if not any(writes):
        return out
    given = iter(_written_arguments(func, args, kwargs or {}))
    results = out if len(returns) > 1 else (out,)
    results = tuple(next(given) if write else result for write, result in zip(writes, results))
    return results if len(returns) > 1 else results[0]


def autograd_would_have_decomposed(func, flat_args):
    """Whether autograd takes the operator apart before modes see it: those that are left are not taken apart."""
    return False
