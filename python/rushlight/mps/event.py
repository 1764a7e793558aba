"""Events of torch.mps."""
from rushlight.mps import Event  # noqa: F401
