"""Stands in a package for what was mocked out: it has any name, and refuses any use. (This file is copied into packages.)"""


class MockedObject:
    def __init__(self, name):
        self.__dict__["_name"] = name

    def __repr__(self):
        return "MockedObject(%s)" % self._name


def _refusing(use):
    def refuse(self, *args, **kwargs):
        if use == "__getattr__" and args[0].startswith("__"):
            raise AttributeError(args[0])
        raise NotImplementedError("Object '%s' was mocked out during packaging but it is being used in %s" % (self._name, use))
    return refuse


for _use in """call getattr setattr getitem setitem delitem iter next len contains bool int float complex index enter exit
               add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor
               lshift rlshift rshift rrshift neg pos abs invert lt le gt ge mro_entries""".split():
    setattr(MockedObject, "__%s__" % _use, _refusing("__%s__" % _use))
