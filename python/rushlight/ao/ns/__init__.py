"""Comparing the numbers of a model with those of its quantized form."""
