"""Making modules without spending time on their initial values."""
import inspect

import rushlight as torch

__all__ = ["skip_init"]


def skip_init(module_cls, *args, **kwargs):
    """An instance of `module_cls` whose parameters are not initialised.

    args, kwargs: of module_cls, which takes device.

    >>> torch.nn.utils.skip_init(nn.Linear, 3, 4).weight.shape
    torch.Size([4, 3])
    """
    if not issubclass(module_cls, torch.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=device)
