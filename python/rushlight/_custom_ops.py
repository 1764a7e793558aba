"""torch._custom_ops: the names torch.library had before."""
from rushlight.library import custom_op, impl as _impl_by_device, impl_abstract, register_fake  # noqa: F401

__all__ = ["custom_op", "impl", "impl_abstract", "get_ctx", "impl_save_for_backward", "impl_backward"]

from rushlight.library import get_ctx  # noqa: E402,F401


def impl(qualname, *, device_types=("cpu", "cuda"), func=None):
    """Decorator: a kernel for these devices."""
    def register(f):
        _impl_by_device(qualname, tuple(device_types), f)
        return f
    return register if func is None else register(func)


def impl_save_for_backward(qualname, *, func=None):
    raise NotImplementedError("impl_save_for_backward: use torch.library.register_autograd")


def impl_backward(qualname, output_differentiability=None, *, func=None):
    raise NotImplementedError("impl_backward: use torch.library.register_autograd")
