"""PNG and JPEG files as tensors (channels, height, width); names of torchvision.io."""
import rushlight as torch

_MODES = {"UNCHANGED": 0, "GRAY": 1, "GRAY_ALPHA": 2, "RGB": 3, "RGB_ALPHA": 4, "RGBA": 4}


def _mode(mode):
    if isinstance(mode, str):
        try:
            return _MODES[mode.upper()]
        except KeyError:
            raise ValueError("mode is one of %s, not %r" % (", ".join(_MODES), mode)) from None
    return int(getattr(mode, "value", mode))


def _bytes(source):
    """A file's bytes as a tensor: of a path, of bytes, or a tensor as it is."""
    if isinstance(source, torch.Tensor):
        return source
    if isinstance(source, (bytes, bytearray, memoryview)):
        return torch.frombuffer(bytearray(source), dtype=torch.uint8)
    return torch.ops.image.read_file(str(source))


def decode_image(input, mode="UNCHANGED", apply_exif_orientation=False):
    """The picture in a PNG or JPEG file: its path, its bytes or a uint8 tensor of them."""
    return torch.ops.image.decode_image(_bytes(input), _mode(mode), apply_exif_orientation)


def decode_png(input, mode="UNCHANGED", apply_exif_orientation=False):
    return torch.ops.image.decode_png(_bytes(input), _mode(mode), apply_exif_orientation)


def decode_jpeg(input, mode="UNCHANGED", apply_exif_orientation=False):
    return torch.ops.image.decode_jpeg(_bytes(input), _mode(mode), apply_exif_orientation)


def read_image(path, mode="UNCHANGED", apply_exif_orientation=False):
    """The picture in a file."""
    return decode_image(path, mode, apply_exif_orientation)


def encode_png(input, compression_level=6):
    """The bytes of a PNG file, as a uint8 tensor."""
    return torch.ops.image.encode_png(input, compression_level)


def encode_jpeg(input, quality=75):
    """The bytes of a JPEG file, as a uint8 tensor."""
    return torch.ops.image.encode_jpeg(input, quality)


def write_png(input, filename, compression_level=6):
    torch.ops.image.write_file(str(filename), encode_png(input, compression_level))


def write_jpeg(input, filename, quality=75):
    torch.ops.image.write_file(str(filename), encode_jpeg(input, quality))
