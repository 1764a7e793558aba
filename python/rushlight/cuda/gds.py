"""GPU Direct Storage."""
