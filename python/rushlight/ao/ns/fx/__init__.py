"""The comparison in graph mode: its measures."""
