"""torch.backends.quantized: which kernels quantized operations use."""
import sys

from rushlight.backends import PropModule

_ENGINES = ["onednn"]
_NAMES = ("none", "fbgemm", "qnnpack", "onednn", "x86")  # all name the same kernels here


class QuantizedEngine(PropModule):
    supported_engines = _ENGINES
    _engine = "onednn"

    @property
    def engine(self):
        return self._engine

    @engine.setter  # that disable_global_flags() leaves open, unlike the switches of other backends
    def engine(self, name):
        if name not in _NAMES:
            raise RuntimeError("%s is not a valid value for quantized engine" % (name,))
        self._engine = name


_module = QuantizedEngine(sys.modules[__name__], __name__)
_module.__spec__, _module.__path__, _module.__file__ = __spec__, __path__, __file__
sys.modules[__name__] = _module
