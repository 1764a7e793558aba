"""Checkpoints in pieces."""
from .._absent import absent

globals().update(absent(
    "FileSystemReader FileSystemWriter StorageReader StorageWriter DefaultLoadPlanner DefaultSavePlanner LoadPlan "
    "SavePlan Metadata",
    "load save load_state_dict save_state_dict async_save", "checkpoint."))
