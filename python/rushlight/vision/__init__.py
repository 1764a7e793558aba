"""rushlight.vision: pictures in and out of files, and the changes that data loading makes to them.

Names and arguments are those of torchvision.io, torchvision.utils and torchvision.transforms.v2.functional; the work is
done by operations of the library, so torchvision is not needed. Where it is installed, it runs on rushlight itself.
"""
from . import functional
from .files import (decode_image, decode_jpeg, decode_png, encode_jpeg, encode_png, read_image, write_jpeg, write_png)
from .grid import make_grid, save_image

__all__ = ["functional", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png", "read_image",
           "write_jpeg", "write_png", "make_grid", "save_image"]
