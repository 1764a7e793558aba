"""associative_scan under its module's name."""
from rushlight._higher_order_ops import associative_scan  # noqa: F401
