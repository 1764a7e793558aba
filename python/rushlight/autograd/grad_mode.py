"""Context managers and decorators that switch recording of the graph."""
import rushlight as torch
from rushlight import _C
from rushlight.utils._contextlib import _DecoratorContextManager

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled"]


no_grad, enable_grad, set_grad_enabled, inference_mode = (_C.no_grad, _C.enable_grad, _C.set_grad_enabled,
                                                         _C.inference_mode)


def _enter_inference_mode(mode):
    context = _C._InferenceMode(mode)
    context.__enter__()
    return context


def _exit_inference_mode(mode):
    mode.__exit__(None, None, None)


class set_multithreading_enabled(_DecoratorContextManager):
    """Whether backward may use more threads than the calling one (here it never does)."""

    def __init__(self, mode):
        if not isinstance(mode, bool):
            raise TypeError("set_multithreading_enabled(): argument 'enabled' (position 1) must be bool, not %s" % type(mode).__name__)
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
