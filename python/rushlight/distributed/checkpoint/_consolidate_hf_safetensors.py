"""Safetensors in pieces as one file."""
from .._absent import absent

globals().update(absent(
    "",
    "consolidate_safetensors_files", "checkpoint._consolidate_hf_safetensors."))
