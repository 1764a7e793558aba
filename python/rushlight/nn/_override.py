"""The __torch_function__ protocol as the functions of this package need it.

`overridden(*args)` is the cheap question (is there an argument, or a mode, that wants to take
over?), `handle(fn, args_to_ask, *args, **kwargs)` hands the call to it.  Both are the extension's
own when it has them; `rushlight.overrides` is loaded only when somebody really overrides.
"""
import rushlight as torch

_disabled = torch._C._disabled_torch_function_impl


def _scan(*values):
    for value in values:
        kind = type(value)
        if kind is torch.Tensor or value is None:
            continue
        method = getattr(kind, "__torch_function__", None)
        if method is not None and method is not _disabled:
            return True
    return False


overridden = getattr(torch._C, "_has_torch_function_variadic", _scan)


def handle(public_api, relevant_args, *args, **kwargs):
    """Let the first argument that overrides `function` answer in its place.

    public_api: the function that was called with relevant_args, args and kwargs.

    >>> F.has_torch_function((torch.ones(1),))
    False
    """
    from rushlight.overrides import handle_torch_function
    return handle_torch_function(public_api, relevant_args, *args, **kwargs)
