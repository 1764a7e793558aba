"""Parameters to one flat vector and back."""
import rushlight as torch

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def _check_param_device(param, old_param_device):
    """The device number of `param` (-1 for the CPU), which must be the one before."""
    here = param.get_device() if param.device.type in ("cuda", "xpu") else -1
    if old_param_device is not None and here != old_param_device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return here


def parameters_to_vector(parameters):
    """All parameters, flattened and joined.

    parameters: any iterable of tensors.

    >>> torch.nn.utils.parameters_to_vector([torch.ones(2), torch.zeros(1, 2)])
    tensor([1., 1., 0., 0.])
    """
    device, pieces = None, []
    for param in parameters:
        device = _check_param_device(param, device)
        pieces.append(param.view(-1))
    return torch.cat(pieces)


def vector_to_parameters(vec, parameters):
    """Cut `vec` up and put the pieces in place of the parameters' data.

    vec: with as many elements as all parameters have.

    >>> w = torch.zeros(2)
    >>> torch.nn.utils.vector_to_parameters(torch.tensor([1., 2.]), [w])
    >>> w
    tensor([1., 2.])
    """
    if not isinstance(vec, torch.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {torch.typename(vec)}")
    device, start = None, 0
    for param in parameters:
        device = _check_param_device(param, device)
        size = param.numel()
        param.data = vec[start:start + size].view_as(param).data
        start += size
