"""Laying out the weights of convolutions for a memory format."""
import rushlight as torch

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, memory_format, kinds):
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Give all 2-d convolutions below `module` weights of this memory format.

    module: is changed and returned; memory_format: torch.channels_last, for example.

    >>> net = torch.nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(2, 2, 3), torch.channels_last)
    >>> net.weight.is_contiguous(memory_format=torch.channels_last)
    True
    """
    return _convert(module, memory_format, (torch.nn.Conv2d, torch.nn.ConvTranspose2d))


def convert_conv3d_weight_memory_format(module, memory_format):
    """Give all 3-d convolutions below `module` weights of this memory format.

    module: is changed and returned; memory_format: torch.channels_last_3d, for example.

    >>> net = torch.nn.utils.convert_conv3d_weight_memory_format(nn.Conv3d(2, 2, 3), torch.channels_last_3d)
    >>> net.weight.is_contiguous(memory_format=torch.channels_last_3d)
    True
    """
    return _convert(module, memory_format, (torch.nn.Conv3d, torch.nn.ConvTranspose3d))
