"""Function transforms: derivatives and batching as functions of functions."""
from .._functorch.functional import functionalize
from .._functorch.transforms import (debug_unwrap, functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize,
                                     replace_all_batch_norm_modules_, stack_module_state, vjp)
from .._functorch.rearrange import rearrange
from .._functorch.vmap import vmap

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "rearrange",
           "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]
