"""Transformations of graphs."""
