"""Tracing through operations with real tensors."""
import contextlib

__all__ = ["PythonKeyTracer", "dispatch_trace", "make_fx", "DecompositionInterpreter", "get_proxy_mode", "handle_sym_dispatch",
           "maybe_enable_thunkify", "maybe_disable_thunkify"]


def get_proxy_mode():
    """The tracing mode that is active: never one."""
    return None


def make_fx(f, decomposition_table=None, tracing_mode="real", _allow_non_fake_inputs=False, *, pre_dispatch=False,
            record_module_stack=False, _allow_fake_constant=False, _error_on_data_dependent_ops=True, **kwargs):
    raise NotImplementedError("make_fx is not supported: use torch.fx.symbolic_trace")


@contextlib.contextmanager
def disable_proxy_modes_tracing(enable_current=False):
    yield


@contextlib.contextmanager
def maybe_disable_fake_tensor_mode():
    yield


class ProxyTorchDispatchMode:
    """The mode of make_fx."""


class PythonKeyTracer:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("PythonKeyTracer is not supported")
