"""Backends of the compiler: none."""
