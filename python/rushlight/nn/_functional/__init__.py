"""The functions of `nn.functional`, a file per family."""
