"""Batches cut for the stages."""
from .._absent import absent

globals().update(absent(
    "TensorChunkSpec",
    "split_args_kwargs_into_chunks merge_chunks", "pipelining.microbatch."))
