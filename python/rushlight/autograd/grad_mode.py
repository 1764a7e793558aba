"""Context managers and decorators that switch recording of the graph."""
import rushlight as torch
from rushlight import _C
from rushlight.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled"]


class no_grad(_NoParamDecoratorContextManager):
    """Nothing is recorded inside."""

    def __init__(self):
        self.prev = False

    def __enter__(self):
        self.prev = torch.is_grad_enabled()
        _C._set_grad_enabled(False)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)


class enable_grad(_NoParamDecoratorContextManager):
    """Operations are recorded inside, also within no_grad."""

    def __enter__(self):
        self.prev = torch.is_grad_enabled()
        _C._set_grad_enabled(True)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)


class set_grad_enabled(_DecoratorContextManager):
    """Set recording on or off: at once, for a block, or for a function."""

    def __init__(self, mode):
        self.prev = torch.is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, orig_func):
        _C._set_grad_enabled(self.prev)
        return super().__call__(orig_func)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def __exit__(self, exc_type, exc_value, traceback):
        _C._set_grad_enabled(self.prev)

    def __str__(self):
        return "%s(mode=%s)" % (torch.typename(self), self.mode)

    __repr__ = __str__

    def clone(self):
        return type(self)(self.mode)


class inference_mode(_DecoratorContextManager):
    """no_grad without even the bookkeeping that would let the results be recorded later."""

    def __init__(self, mode=True):
        self.mode = mode

    def __new__(cls, mode=True):
        if isinstance(mode, bool):
            return super().__new__(cls)
        return cls()(mode)      # the decorator without parentheses

    def __enter__(self):
        self._context = _C._InferenceMode(self.mode)
        self._context.__enter__()

    def __exit__(self, exc_type, exc_value, traceback):
        self._context.__exit__(exc_type, exc_value, traceback)

    def clone(self):
        return type(self)(self.mode)


def _enter_inference_mode(mode):
    context = _C._InferenceMode(mode)
    context.__enter__()
    return context


def _exit_inference_mode(mode):
    mode.__exit__(None, None, None)


class set_multithreading_enabled(_DecoratorContextManager):
    """Whether backward may use more threads than the calling one (here it never does)."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        return None

    def __exit__(self, exc_type, exc_value, traceback):
        return None

    def clone(self):
        return type(self)(self.mode)


class enforce_grad_layout_policy(_DecoratorContextManager):
    """Whether .grad takes the strides of its tensor."""

    def __init__(self, enable=True):
        self.mode = enable

    def __enter__(self):
        return None

    def __exit__(self, exc_type, exc_value, traceback):
        return None

    def clone(self):
        return type(self)(self.mode)


class _force_original_view_tracking(_DecoratorContextManager):
    """Whether views remember how they were made."""

    def __init__(self, mode):
        self.mode = mode

    def __enter__(self):
        return None

    def __exit__(self, *error):
        return None

    def clone(self):
        return type(self)(self.mode)


class _unsafe_preserve_version_counter(_DecoratorContextManager):
    """Changes made inside do not count as changes."""

    def __init__(self, tensors):
        self.tensors = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
        self.versions = tuple(t._version for t in self.tensors)

    def __enter__(self):
        return None

    def __exit__(self, *error):
        _C._autograd._unsafe_set_version_counter(self.tensors, self.versions)
