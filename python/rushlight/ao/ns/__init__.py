"""Numeric comparison of models."""
