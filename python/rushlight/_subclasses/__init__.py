"""Kinds of tensors that tracers use: none exist here."""
from . import fake_tensor, meta_utils  # noqa: F401
from .fake_tensor import FakeTensor, FakeTensorMode  # noqa: F401
