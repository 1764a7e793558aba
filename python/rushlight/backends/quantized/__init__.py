"""torch.backends.quantized: which kernels quantized operations use."""
import sys

from rushlight.backends import FreeProp, PropModule, switch

_ENGINES = ["onednn"]


class QuantizedEngine(PropModule):
    engine = switch("quantized.engine", "onednn", FreeProp)
    supported_engines = _ENGINES


_module = QuantizedEngine(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
