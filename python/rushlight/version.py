"""Version numbers: of rushlight itself, and of the PyTorch whose behaviour it follows."""
__all__ = ["__version__", "debug", "cuda", "git_version", "hip", "rocm", "xpu", "rushlight"]

rushlight = "0.1.0"
__version__ = "2.13.0+cpu"
debug = False
cuda = None
git_version = "rushlight-" + rushlight
hip = None
rocm = None
xpu = None
