"""torch.nested: tensors of parts of different sizes."""
import rushlight as torch

__all__ = ["to_padded_tensor", "as_nested_tensor", "nested_tensor", "nested_tensor_from_jagged", "narrow",
           "masked_select"]


def _function(name):
    space = getattr(torch._C, "_nested", None)
    function = getattr(space, name, None) if space is not None else None
    if function is None:
        raise NotImplementedError("nested tensors are not part of this build of rushlight")
    return function


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    return _function("nested_tensor")(tensor_list, dtype=dtype, device=device, requires_grad=requires_grad,
                                      pin_memory=pin_memory)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    return _function("as_nested_tensor")(ts, dtype=dtype, device=device)


def to_padded_tensor(input, padding, output_size=None, out=None):
    if not input.is_nested:
        raise RuntimeError("to_padded_tensor: expected a nested tensor")
    return _function("nested_to_padded_tensor")(input, padding, output_size)


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None, max_seqlen=None):
    raise NotImplementedError("nested tensors of jagged layout are not part of this build of rushlight")


def narrow(tensor, dim, start, length, layout=None):
    raise NotImplementedError("nested tensors are not part of this build of rushlight")


def masked_select(tensor, mask):
    raise NotImplementedError("nested tensors are not part of this build of rushlight")
