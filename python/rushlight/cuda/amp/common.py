"""Whether mixed precision can be used."""
import importlib.util

import rushlight as torch

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available():
    return not (torch.cuda.is_available() or importlib.util.find_spec("torch_xla") is not None)
