"""Passes of PyTorch's code generator."""
