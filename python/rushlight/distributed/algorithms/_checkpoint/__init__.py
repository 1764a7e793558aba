"""Modules that recompute or offload what they would keep for backward."""
