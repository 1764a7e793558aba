"""Backends that run graphs as they are, to look for errors."""
from .common import aot_autograd
from .registry import register_debug_backend as register


@register
def eager(gm, fake_tensor_inputs, **kwargs):
    """The graph's own code."""
    return gm.forward


@register
def eager_noexcept(gm, fake_tensor_inputs, **kwargs):
    """The graph's own code; an error in it is one of the backend."""
    def inner(*args):
        try:
            return gm(*args)
        except Exception as error:
            raise RuntimeError("Unexpected exception when running generated GraphModule") from error
    return inner


def boxed_nop(fx_g, example_inputs):
    def run(args):
        return fx_g(*args)
    run._boxed_call = True
    return run


aot_eager = register(aot_autograd(fw_compiler=boxed_nop), name="aot_eager")


@register
def aot_eager_decomp_partition(gm, fake_tensor_inputs, **kwargs):
    """As aot_eager, of core operations."""
    from rushlight._decomp import core_aten_decompositions
    return aot_autograd(fw_compiler=boxed_nop, decompositions=core_aten_decompositions())(gm, fake_tensor_inputs, **kwargs)
