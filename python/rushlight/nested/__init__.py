"""torch.nested: tensors of parts of different sizes.

Of jagged layout (nested/_internal/nested_tensor.py) one dimension is ragged, and operations treat all parts at once. Of
strided layout (nested/_internal/strided.py) any dimension may be, and operations go part by part.
"""
import rushlight as torch

__all__ = ["to_padded_tensor", "as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "narrow",
           "masked_select"]


def _layout_of(layout):
    layout = torch.strided if layout is None else layout
    if layout not in (torch.strided, torch.jagged):
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def _only_lists():
    return TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor, a leaf, of copies of the parts: tensors, or what torch.tensor takes."""
    jagged = _layout_of(layout) is torch.jagged
    if not isinstance(tensor_list, (list, tuple)) and not (jagged and isinstance(tensor_list, torch.Tensor)):
        raise _only_lists()
    with torch.no_grad():
        parts = [t.detach() if isinstance(t, torch.Tensor) else torch.as_tensor(t) for t in tensor_list]
        if not jagged:
            from rushlight.nested._internal.strided import from_list
            result = from_list(parts, dtype, device, "nested_tensor")
        else:
            from rushlight.nested._internal.nested_tensor import jagged_from_list
            if device is None and parts:
                device = parts[0].device
            result = jagged_from_list([p.to(dtype=dtype) for p in parts], None, dtype, device)[0]
    return result.requires_grad_(requires_grad)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of these parts; gradients reach them."""
    if isinstance(ts, torch.Tensor) and ts.is_nested:
        if ts.layout != _layout_of(layout):
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(dtype=dtype, device=device)
    if not (isinstance(ts, torch.Tensor) or (isinstance(ts, (list, tuple)) and all(isinstance(t, torch.Tensor) for t in ts))):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    if isinstance(ts, torch.Tensor) and ts.dim() < 2:
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() > 1")
    if isinstance(ts, tuple):
        ts = list(ts)
    if _layout_of(layout) is torch.jagged:
        from rushlight.nested._internal.nested_tensor import jagged_from_list, nested_view_from_values_offsets
        if isinstance(ts, torch.Tensor):
            ts = ts.to(dtype=dtype, device=device)
            batch, length = ts.shape[:2]
            offsets = torch.arange(batch + 1, device=ts.device) * length
            return nested_view_from_values_offsets(ts.reshape(-1, *ts.shape[2:]), offsets, 1, length, length)
        return jagged_from_list(ts, None, dtype, device)[0]
    from rushlight.nested._internal.strided import from_list
    return from_list(list(ts.unbind()) if isinstance(ts, torch.Tensor) else ts, dtype, device, "as_nested_tensor")


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    """A view of values (total, ...) as parts that lie between offsets, or are as long as lengths say."""
    from rushlight.nested._internal.nested_tensor import _offsets_of, nested_view_from_values_offsets_lengths
    if not isinstance(values, torch.Tensor) or values.is_nested:
        raise ValueError("nested_tensor_from_jagged(): expected values to be a dense tensor")
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = _offsets_of(lengths, lengths.device), None
    for name, given in (("offsets", offsets), ("lengths", lengths)):
        if given is not None and not isinstance(given, torch.Tensor):
            raise TypeError("nested_tensor_from_jagged(): argument '%s' must be Tensor, not %s" % (name, type(given).__name__))
    return nested_view_from_values_offsets_lengths(values, offsets, lengths, 1 if jagged_dim is None else jagged_dim, min_seqlen, max_seqlen)


def narrow(tensor, dim, start, length, layout=None):
    """Of row b of tensor the part start[b] : start[b] + length[b] along dim; of jagged layout a view."""
    if not isinstance(start, (int, torch.SymInt, torch.Tensor)):
        raise RuntimeError("start must be an integer or a tensor")
    if not isinstance(length, (int, torch.SymInt, torch.Tensor)):
        raise RuntimeError("length must be an integer or a tensor")
    if _layout_of(layout) is torch.strided:
        if isinstance(start, torch.Tensor) or isinstance(length, torch.Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(list(tensor.unbind()), layout=torch.strided).narrow(dim, start, length)
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    from rushlight.nested._internal.nested_tensor import jagged_from_tensor_and_lengths
    return jagged_from_tensor_and_lengths(tensor, start, length)[0]


def masked_select(tensor, mask):
    """Of each row of a matrix what the mask has: as many parts as rows, of jagged layout."""
    if tensor.layout != torch.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, got {tensor.layout}")
    if mask.layout != torch.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, got {mask.layout}")
    full = mask.expand(tensor.shape) if mask.shape != tensor.shape else mask
    lengths = full.sum(dim=tuple(range(1, full.dim()))) if full.dim() > 1 else full.sum().reshape(1)
    from rushlight.nested._internal.nested_tensor import _offsets_of, nested_view_from_values_offsets
    return nested_view_from_values_offsets(tensor.masked_select(full), _offsets_of(lengths, lengths.device))


def to_padded_tensor(input, padding, output_size=None, out=None):
    """(batch, ...): the parts in the corner of one dense tensor, padding around them."""
    if not input.is_nested:
        raise NotImplementedError("to_padded_tensor: expected a nested tensor, but got a dense one")
    if out is not None:
        out.resize_(0)
        return out.resize_as_(result := to_padded_tensor(input, padding, output_size)).copy_(result)
    from rushlight.nested._internal import ops, strided
    if input.layout is torch.strided:
        return strided.padded(input, padding, output_size)
    with torch._C.DisableTorchFunctionSubclass():
        return ops.padded(input, padding, None if output_size is None else output_size[input._ragged_idx])
