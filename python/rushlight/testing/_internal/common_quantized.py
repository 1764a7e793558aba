"""Engines of quantized operations, for tests."""
import contextlib

import rushlight as torch

__all__ = ["override_quantized_engine"]


@contextlib.contextmanager
def override_quantized_engine(qengine):
    """Inside, quantized operations are this engine's."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = qengine
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
