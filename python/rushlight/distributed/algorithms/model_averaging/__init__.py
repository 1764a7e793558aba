"""Parameters averaged over processes."""
