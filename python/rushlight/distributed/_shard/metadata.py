"""Which part of a tensor a piece is."""
import dataclasses

from ..remote_device import _remote_device


@dataclasses.dataclass
class ShardMetadata:
    """The piece that starts at shard_offsets and has shard_sizes, at a device of a worker."""
    __slots__ = ("shard_offsets", "shard_sizes", "placement")

    shard_offsets: list
    shard_sizes: list
    placement: object

    def __init__(self, shard_offsets, shard_sizes, placement=None):
        self.shard_offsets, self.shard_sizes = shard_offsets, shard_sizes
        self.placement = _remote_device(placement) if isinstance(placement, str) else placement
        if len(shard_offsets) != len(shard_sizes):
            raise ValueError(f"shard_offsets and shard_sizes should have the same number of elements, found {len(shard_offsets)} and {shard_sizes} respectively")
        if min(shard_offsets, default=0) < 0:
            raise ValueError("shard_offsets should be >=0")
        if min(shard_sizes, default=0) < 0:
            raise ValueError("shard_sizes should be >= 0")

    def __hash__(self):
        return hash((*self.shard_offsets, *self.shard_sizes, self.placement))
