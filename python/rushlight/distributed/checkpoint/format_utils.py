"""Checkpoints in pieces from and to single files."""
from .._absent import absent

globals().update(absent(
    "BroadcastingTorchSaveReader DynamicMetaLoadPlanner _EmptyStateDictLoadPlanner",
    "dcp_to_torch_save torch_save_to_dcp _load_state_dict", "checkpoint.format_utils."))
