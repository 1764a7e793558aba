"""Names of PyTorch's own test helpers that other programs use."""
