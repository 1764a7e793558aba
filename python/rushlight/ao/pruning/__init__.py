"""Pruning of models."""
