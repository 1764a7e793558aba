"""The pytree functions under the name of PyTorch's C++ variant."""
from rushlight.utils._pytree import *  # noqa: F401,F403
from rushlight.utils._pytree import __all__  # noqa: F401
