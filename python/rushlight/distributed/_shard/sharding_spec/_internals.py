"""Looking at pieces."""


def _check_shard_metadata_pair_overlap(shard1, shard2):
    """Whether two pieces of a tensor have elements in common."""
    return all(a < b + n and b < a + m for a, m, b, n in zip(shard1.shard_offsets, shard1.shard_sizes, shard2.shard_offsets, shard2.shard_sizes))
