"""Gradients in fewer bits."""
from ..._absent import absent

globals().update(absent(
    "",
    "allreduce_hook fp16_compress_hook bf16_compress_hook fp16_compress_wrapper bf16_compress_wrapper", "algorithms.ddp_comm_hooks.default_hooks."))
