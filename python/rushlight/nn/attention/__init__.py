"""Choosing the kernel of scaled dot product attention.

There is one kernel here; the choice is kept, so that programs that make it and ask for it run.
"""
import contextlib
import enum

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """The kernels that PyTorch knows."""
    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __repr__(self):
        return f"<SDPBackend.{self.name}: {self.value}>"

    def __str__(self):
        return f"SDPBackend.{self.name}"


# Which kernels may be used now, the preferred one first.
_allowed = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION]


def _cur_sdpa_kernel_backends(with_priority=False):
    return list(_allowed) if with_priority else sorted(_allowed)


def _backend_from_string(name):
    return getattr(SDPBackend, name)


def _sdpa_kernel(backends, set_priority=False):
    _allowed[:] = list(backends)


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Allow only these kernels inside the block."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    wanted = [backends] if isinstance(backends, SDPBackend) else list(dict.fromkeys(backends))
    before = list(_allowed)
    _sdpa_kernel(wanted, set_priority)
    try:
        yield {}
    finally:
        _sdpa_kernel(before)


def _sdpa_kernel_variadic(*backends):
    return sdpa_kernel(list(backends))


def _raise_kernel_warnings(params):
    """Nothing to warn of: there is one kernel."""


# Other implementations of flash attention: name -> the function that installs it.
_implementations = {}
_active = None


def register_flash_attention_impl(impl, *, register_fn):
    """Make an implementation known under a name."""
    _implementations[impl] = register_fn


def list_flash_attention_impls():
    """Names of flash attention implementations that were registered."""
    return sorted(_implementations)


def current_flash_attention_impl():
    """The flash attention implementation in use, if one was activated."""
    return _active


def activate_flash_attention_impl(impl):
    """Use another flash attention implementation."""
    global _active
    if impl not in _implementations:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available implementations: "
                         f"{list_flash_attention_impls()}")
    _implementations[impl]()
    _active = impl


def restore_flash_attention_impl(_raise_warn=True):
    """Use the default implementation again."""
    global _active
    _active = None


def __getattr__(name):
    if name in ("bias", "flex_attention", "varlen"):
        import importlib
        return importlib.import_module("rushlight.nn.attention." + name)
    raise AttributeError(f"module 'torch.nn.attention' has no attribute '{name}'")
