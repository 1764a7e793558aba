"""The former home of torch.ao.quantization."""
from ..ao.quantization import *  # noqa: F401,F403
from ..ao.quantization import DeQuantStub, QuantStub, QuantWrapper  # noqa: F401
