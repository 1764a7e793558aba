"""The kinds of quantization."""
import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """When activations are quantized, if at all."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


_quant_type_to_str = {QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.QAT: "qat", QuantType.WEIGHT_ONLY: "weight_only"}


def _get_quant_type_to_str(quant_type):
    return _quant_type_to_str[quant_type]


def _quant_type_from_str(name):
    for quant_type, text in _quant_type_to_str.items():
        if text == name:
            return quant_type
    raise ValueError("Unknown QuantType name '%s'" % name)
