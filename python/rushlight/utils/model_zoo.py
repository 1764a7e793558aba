"""Downloading of weights: the older names of torch.hub's functions."""
from rushlight.hub import _import_tqdm, load_state_dict_from_url as load_url

__all__ = ["load_url"]

tqdm = _import_tqdm()
