"""functorch.compile: graphs of operators for those who write backends."""
from torch._decomp import get_decompositions  # noqa: F401
from torch._functorch.aot_autograd import (aot_function, aot_module, aot_module_simplified, make_boxed_compiler, make_boxed_func)  # noqa: F401
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition  # noqa: F401
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: F401


def nop(fx_g, _):
    """A compiler that returns the graph."""
    return fx_g


def print_compile(fx_g, _):
    """The same, after printing its code."""
    print(fx_g.code)
    return fx_g
