"""torch._VF: the library's functions without Python in front of them."""
import sys
import types

from rushlight import _C


class VFModule(types.ModuleType):
    vf: types.ModuleType

    def __init__(self, name):
        super().__init__(name)
        self.vf = _C._VariableFunctions

    def __getattr__(self, name):
        return getattr(self.vf, name)


sys.modules[__name__] = VFModule(__name__)
