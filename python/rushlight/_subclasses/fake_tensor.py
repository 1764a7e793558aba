"""Fake tensors: the meta device does what they do; these classes are for isinstance."""


class FakeTensor:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch._subclasses.FakeTensor: use tensors on the meta device")


class FakeTensorMode:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("torch._subclasses.FakeTensorMode: use tensors on the meta device")


class UnsupportedFakeTensorException(RuntimeError):
    pass


def is_fake(x):
    """Whether x is a fake tensor: never."""
    return False
