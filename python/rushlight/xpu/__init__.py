"""torch.xpu: Intel devices. There is no backend for them."""
from rushlight._absent_device import fill

fill(__name__, "xpu", AssertionError("Torch not compiled with XPU enabled"))


def _lazy_init():
    raise AssertionError("Torch not compiled with XPU enabled")
