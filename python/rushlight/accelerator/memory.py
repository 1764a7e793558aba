"""Memory of the accelerator."""
from rushlight.accelerator import (empty_cache, get_memory_info, max_memory_allocated, max_memory_reserved,  # noqa
                                   memory_allocated, memory_reserved, memory_stats, reset_accumulated_memory_stats,
                                   reset_peak_memory_stats)
