"""Checkpoints as safetensors."""
from .._absent import absent

globals().update(absent(
    "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "", "checkpoint.hf_storage."))
