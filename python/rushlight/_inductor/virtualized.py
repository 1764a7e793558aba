"""Operations inside of kernels that a code generator writes: there is none."""

__all__ = ["ops", "V"]


class _Absent:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError("torch._inductor.virtualized.%s.%s: there is no code generator" % (self._name, name))


ops, V = _Absent("ops"), _Absent("V")
