"""Changes of pictures (..., channels, height, width), named as in torchvision.transforms.v2.functional."""
import rushlight as torch

_ops = torch.ops.aten


def _interpolation(mode):
    return getattr(mode, "value", mode)


def _size(image, size, max_size=None):
    """(height, width) of a size that may be one number: then the shorter side gets it."""
    height, width = image.shape[-2:]
    if isinstance(size, int):
        size = [size]
    if size is not None and len(size) == 2:
        return list(size)
    short, long = sorted((height, width))
    if size is None:
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short, new_long = size[0], int(size[0] * long / short)
        if max_size is not None and new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return [new_short, new_long] if height <= width else [new_long, new_short]


def resize(image, size, interpolation="bilinear", max_size=None, antialias=True):
    return _ops.vision_resize(image, _size(image, size, max_size), _interpolation(interpolation), bool(antialias))


def crop(image, top, left, height, width):
    """A part of the picture; beyond its edges it is 0."""
    return _ops.vision_crop(image, top, left, height, width)


def center_crop(image, output_size):
    height, width = (output_size, output_size) if isinstance(output_size, int) else (output_size[0], output_size[-1])
    return crop(image, int(round((image.shape[-2] - height) / 2)), int(round((image.shape[-1] - width) / 2)), height, width)


def resized_crop(image, top, left, height, width, size, interpolation="bilinear", antialias=True):
    return resize(crop(image, top, left, height, width), size, interpolation, antialias=antialias)


def horizontal_flip(image):
    return image.flip(-1)


def vertical_flip(image):
    return image.flip(-2)


hflip, vflip = horizontal_flip, vertical_flip


def pad(image, padding, fill=0, padding_mode="constant"):
    """padding: one number, (x, y) or (left, top, right, bottom)."""
    p = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = p * 4 if len(p) == 1 else p * 2 if len(p) == 2 else p
    sides = [left, right, top, bottom]
    if padding_mode == "constant":
        return torch.nn.functional.pad(image, sides, value=fill)
    if padding_mode == "edge":
        padding_mode = "replicate"
    lead = image.shape[:-3]
    batch = image.reshape((-1,) + tuple(image.shape[-3:]))
    exact = batch.dtype.is_floating_point
    out = torch.nn.functional.pad(batch if exact else batch.float(), sides, mode=padding_mode)
    return (out if exact else out.to(image.dtype)).reshape(lead + tuple(out.shape[-3:]))


def normalize(image, mean, std, inplace=False):
    out = _ops.vision_normalize(image, [float(m) for m in mean], [float(s) for s in std])
    return image.copy_(out) if inplace else out


def rgb_to_grayscale(image, num_output_channels=1):
    return _ops.vision_rgb_to_grayscale(image, num_output_channels)


def adjust_brightness(image, brightness_factor):
    return _ops.vision_adjust_brightness(image, brightness_factor)


def adjust_contrast(image, contrast_factor):
    return _ops.vision_adjust_contrast(image, contrast_factor)


def adjust_saturation(image, saturation_factor):
    return _ops.vision_adjust_saturation(image, saturation_factor)


def adjust_hue(image, hue_factor):
    return _ops.vision_adjust_hue(image, hue_factor)


def adjust_gamma(image, gamma, gain=1):
    return _ops.vision_adjust_gamma(image, gamma, float(gain))


def _colour(fill, image):
    if fill is None:
        return []
    values = list(fill) if isinstance(fill, (list, tuple)) else [fill]
    return [float(v) for v in (values if len(values) > 1 else values * image.shape[-3])]


def affine(image, angle, translate, scale, shear, interpolation="nearest", fill=None, center=None):
    if center is not None:
        raise NotImplementedError("affine: only about the centre of the picture")
    shear = [float(shear), 0.0] if isinstance(shear, (int, float)) else [float(s) for s in shear]
    return _ops.vision_affine(image, float(angle), [float(t) for t in translate], float(scale), shear,
                              _interpolation(interpolation), _colour(fill, image))


def rotate(image, angle, interpolation="nearest", expand=False, center=None, fill=None):
    """Turned counter-clockwise about the centre, by degrees."""
    if expand:
        raise NotImplementedError("rotate: expand=True is not supported")
    return affine(image, -angle, [0, 0], 1.0, [0.0, 0.0], interpolation, fill, center)


def to_dtype(image, dtype=torch.float32, scale=False):
    """Another dtype; scale: floats from 0 to 1 correspond to the whole range of integers."""
    if image.dtype == dtype or not scale:
        return image.to(dtype)
    if image.dtype.is_floating_point and dtype.is_floating_point:
        return image.to(dtype)
    if image.dtype.is_floating_point:
        return image.mul(torch.iinfo(dtype).max + 1.0 - 1e-3).to(dtype)
    top = torch.iinfo(image.dtype).max
    if dtype.is_floating_point:
        return image.to(dtype).mul_(1.0 / top)
    shift = torch.iinfo(dtype).max.bit_length() - top.bit_length()
    return image.to(dtype) << shift if shift > 0 else (image >> -shift).to(dtype)
