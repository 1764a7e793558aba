"""How many numbers of a tensor share a scale, and what a scale maps onto what: the words in which quantized tensors are described."""
import dataclasses
import enum

MappingType = enum.Enum("MappingType", "SYMMETRIC SYMMETRIC_NO_CLIPPING_ERR ASYMMETRIC", module=__name__)
MappingType.__doc__ = "Whether zero lies in the middle of the integers."
ZeroPointDomain = enum.Enum("ZeroPointDomain", "INT FLOAT NONE", module=__name__)
ZeroPointDomain.__doc__ = "What zero points are."
TorchAODType = enum.Enum("TorchAODType", "INT1 INT2 INT3 INT4 INT5 INT6 INT7", module=__name__)
TorchAODType.__doc__ = "Integers that no dtype of tensors stands for."


@dataclasses.dataclass(frozen=True)
class Granularity:
    """What its subclasses say: the numbers that share a scale."""


@dataclasses.dataclass(frozen=True)
class PerTensor(Granularity):
    """All."""


@dataclasses.dataclass(frozen=True)
class PerAxis(Granularity):
    """Those with the same index along a dimension."""

    axis: int


@dataclasses.dataclass(frozen=True)
class PerGroup(Granularity):
    """As many neighbours in a row of a matrix."""

    group_size: int


@dataclasses.dataclass(frozen=True)
class PerBlock(Granularity):
    """Those of a block of this size."""

    block_size: tuple


@dataclasses.dataclass(frozen=True)
class PerRow(Granularity):
    """Those of a row, which the last dimension has."""


@dataclasses.dataclass(frozen=True)
class PerToken(Granularity):
    """The same, of activations."""


def get_block_size(input_shape, granularity):
    """The sizes of the blocks that share a scale, of a tensor of this shape."""
    shape = tuple(input_shape)
    if isinstance(granularity, PerTensor):
        return shape
    if isinstance(granularity, PerAxis):
        sizes = list(shape)
        sizes[granularity.axis] = 1
        return tuple(sizes)
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (len(shape) - 1) + shape[-1:]
    if isinstance(granularity, PerGroup):
        if len(shape) != 2:
            raise AssertionError(f"quantization by groups is of matrices, got input shape: {shape}")
        return 1, granularity.group_size
    raise ValueError(f"Unsupported Granularity: {granularity}")
