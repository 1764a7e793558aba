"""torch.ao: what packages import of quantization."""
from . import quantization  # noqa: F401
