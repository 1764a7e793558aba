"""Helpers of tests of distributed tensors."""
