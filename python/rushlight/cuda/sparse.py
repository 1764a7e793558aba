"""Names of the old classes of sparse tensors on CUDA."""
