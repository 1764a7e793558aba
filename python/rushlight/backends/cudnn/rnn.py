"""Dropout states of cuDNN's recurrent networks."""
