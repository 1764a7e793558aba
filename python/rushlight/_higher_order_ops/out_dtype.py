"""out_dtype(op, dtype, *tensors): an operation whose result is of a wider type than its arguments."""
import rushlight as torch
from rushlight.utils import _pytree as pytree

from . import _operator


@_operator
def _out_dtype(op, output_dtype, *args):
    """op of the arguments in the type that holds both them and the result, as output_dtype."""
    tensors = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
    if op is torch.ops.aten.mm.default and output_dtype == torch.int32 and all(x.dtype == torch.int8 for x in tensors):
        return torch._int_mm(*args)
    wide = output_dtype
    for x in tensors:
        wide = torch.promote_types(wide, x.dtype)
    return op(*pytree.tree_map_only(torch.Tensor, lambda x: x.to(wide), args)).to(output_dtype)


out_dtype = torch.ops.higher_order.out_dtype
