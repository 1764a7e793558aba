"""Kinds of tensors that tracers use."""
from . import fake_tensor, functional_tensor, meta_utils  # noqa: F401
from .fake_tensor import (  # noqa: F401
    DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode, UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
