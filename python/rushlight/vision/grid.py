"""Many pictures as one: make_grid and save_image, as in torchvision.utils."""
import math

import rushlight as torch
from .files import write_jpeg, write_png


def _batch(tensor):
    if isinstance(tensor, (list, tuple)):
        tensor = torch.stack(list(tensor))
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("tensor or list of tensors expected, got %s" % type(tensor))
    if tensor.dim() == 2:
        tensor = tensor[None]
    if tensor.dim() == 3:
        tensor = tensor[None]
    return tensor.repeat(1, 3, 1, 1) if tensor.size(1) == 1 else tensor


def _stretched(pictures, value_range):
    low, high = (float(pictures.min()), float(pictures.max())) if value_range is None else value_range
    return (pictures.clamp(low, high) - low) / max(high - low, 1e-5)


def make_grid(tensor, nrow=8, padding=2, normalize=False, value_range=None, scale_each=False, pad_value=0.0):
    """Pictures of one size side by side, nrow in a row. normalize: the smallest number becomes 0, the largest 1."""
    pictures = _batch(tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        parts = pictures if scale_each else (pictures,)
        pictures = torch.stack([_stretched(p, value_range) for p in parts]) if scale_each else _stretched(pictures, value_range)
    count, channels, height, width = pictures.shape
    if count == 1:
        return pictures[0]
    columns = min(nrow, count)
    rows = math.ceil(count / columns)
    high, wide = height + padding, width + padding
    grid = pictures.new_full((channels, high * rows + padding, wide * columns + padding), pad_value)
    for k, picture in enumerate(pictures):
        top, left = k // columns * high + padding, k % columns * wide + padding
        grid[:, top:top + height, left:left + width] = picture
    return grid


def save_image(tensor, fp, format=None, **kwargs):
    """Write a picture, or a grid of several (see make_grid for the options), from 0 to 1, as PNG or JPEG."""
    grid = make_grid(tensor, **kwargs).mul(255).add_(0.5).clamp_(0, 255).to(torch.uint8)
    kind = (format or str(fp).rsplit(".", 1)[-1]).lower()
    if kind not in ("png", "jpg", "jpeg"):
        raise ValueError("pictures are saved as png or jpeg, not as %r" % kind)
    (write_png if kind == "png" else write_jpeg)(grid, fp)
