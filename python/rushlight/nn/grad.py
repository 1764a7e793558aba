"""Gradients of convolutions by themselves, for code that writes its own backward."""
import rushlight as torch
from rushlight.nn._tuples import _pair, _single, _triple


def _gradient(which, spread, input, weight, grad_output, stride, padding, dilation, groups):
    mask = (which == 0, which == 1, False)
    return torch.ops.aten.convolution_backward(
        grad_output, input, weight, None, spread(stride), spread(padding), spread(dilation), False, (0,), groups,
        mask)[which]


def _of_input(spread, input_size, weight, grad_output, stride, padding, dilation, groups):
    # Only the shape of the input matters, so a single element stands for it.
    input = grad_output.new_empty(1).expand(input_size)
    return _gradient(0, spread, input, weight, grad_output, stride, padding, dilation, groups)


def _of_weight(spread, input, weight_size, grad_output, stride, padding, dilation, groups):
    weight = grad_output.new_empty(1).expand(weight_size)
    return _gradient(1, spread, input, weight, grad_output, stride, padding, dilation, groups)


def conv1d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Gradient of conv1d for its input."""
    return _of_input(_single, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Gradient of conv1d for its weight."""
    return _of_weight(_single, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Gradient of conv2d for its input."""
    return _of_input(_pair, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Gradient of conv2d for its weight."""
    return _of_weight(_pair, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Gradient of conv3d for its input."""
    return _of_input(_triple, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
    """Gradient of conv3d for its weight."""
    return _of_weight(_triple, input, weight_size, grad_output, stride, padding, dilation, groups)
