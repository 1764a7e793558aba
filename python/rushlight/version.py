"""Version numbers: of rushlight itself, and of the PyTorch whose behaviour it follows."""
from typing import Optional

__all__ = ["__version__", "debug", "cuda", "git_version", "hip", "rocm", "xpu", "rushlight"]

rushlight = "0.1.0"
__version__ = "2.13.0+cpu"
debug = False
cuda: Optional[str] = None
git_version = "rushlight-" + rushlight
hip: Optional[str] = None
rocm: Optional[str] = None
xpu: Optional[str] = None
