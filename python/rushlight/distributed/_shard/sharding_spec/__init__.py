"""Names of ways to cut a tensor: see the package's head."""
from ..._absent import absent
from ..metadata import ShardMetadata  # noqa: F401

globals().update(absent("ChunkShardingSpec DevicePlacementSpec EnumerableShardingSpec PlacementSpec ShardingSpec", "", "_shard.sharding_spec."))
