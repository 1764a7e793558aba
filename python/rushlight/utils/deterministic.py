"""torch.utils.deterministic.fill_uninitialized_memory"""
import sys
import types

import rushlight as torch


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self):
        """Whether torch.empty is filled with a known value while algorithms are to be deterministic."""
        return torch._C._get_deterministic_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode):
        torch._C._set_deterministic_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
