"""Averages over processes."""
