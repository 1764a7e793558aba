"""What a code generator makes of operators: rules are taken in, and nothing asks for them, as there is no code generator."""

__all__ = ["lowerings", "register_lowering", "to_dtype"]

lowerings = {}


def register_lowering(aten_fn, broadcast=False, type_promotion_kind=None, convert_input_to_bool=False, lowering_dict=None):
    """Decorator: the rule for an operator."""
    def register(function):
        for fn in aten_fn if isinstance(aten_fn, (list, tuple)) else [aten_fn]:
            (lowerings if lowering_dict is None else lowering_dict)[fn] = function
        return function
    return register


def to_dtype(x, dtype, copy=False):
    raise NotImplementedError("torch._inductor.lowering.to_dtype: there is no code generator")
