"""torch.backends.quantized: which kernels quantized operations use."""
import sys

from rushlight.backends import FreeProp, PropModule, _state

_ENGINES = ["onednn"]
_NAMES = ("none", "fbgemm", "qnnpack", "onednn", "x86")  # all name the same kernels here


_state["quantized.engine"] = _ENGINES[0]


def _set_engine(name):
    if name not in _NAMES:
        raise RuntimeError("%s is not a valid value for quantized engine" % (name,))
    _state["quantized.engine"] = name


class QuantizedEngine(PropModule):
    supported_engines = _ENGINES
    engine = FreeProp(lambda: _state["quantized.engine"], _set_engine)


_module = QuantizedEngine(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
