"""Memory of torch.xpu."""
from rushlight.xpu import empty_cache, max_memory_allocated, memory_allocated, memory_stats  # noqa: F401
