"""Functional tensors: never made."""


class FunctionalTensor:
    pass


class FunctionalTensorMode:
    pass
