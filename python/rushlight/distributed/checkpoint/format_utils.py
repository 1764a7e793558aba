"""Checkpoints in pieces as files of torch.save(), and back."""
import os

import rushlight as torch

from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner  # noqa: F401
from .filesystem import FileSystemReader, FileSystemWriter
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .._absent import absent

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]
globals().update(absent("BroadcastingTorchSaveReader DynamicMetaLoadPlanner", "", "checkpoint.format_utils."))


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Write all of a checkpoint to one file."""
    state = {}
    _load_state_dict(state, FileSystemReader(dcp_checkpoint_dir), no_dist=True, planner=_EmptyStateDictLoadPlanner())
    torch.save(state, os.fspath(torch_save_path))


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Write a file of torch.save() as a checkpoint in pieces."""
    state = torch.load(os.fspath(torch_save_path), weights_only=False)
    _save_state_dict(state, FileSystemWriter(dcp_checkpoint_dir), no_dist=True)
