"""Types of tensors by their shape, for annotations."""


class _DynType:
    def __repr__(self):
        return "Dyn"


Dyn = _DynType()


class TensorType:
    def __init__(self, dim):
        self.__origin__, self.__args__ = TensorType, dim

    def __eq__(self, other):
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self):
        return hash(tuple(self.__args__))

    def __class_getitem__(cls, dims):
        return TensorType(dims)

    def __repr__(self):
        return "TensorType%s" % (self.__args__,)
