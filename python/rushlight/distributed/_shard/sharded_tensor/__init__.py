"""Names of tensors in pieces: see the package's head."""
from ..._absent import absent
from ..metadata import ShardMetadata  # noqa: F401

globals().update(absent("Shard ShardedTensor ShardedTensorBase ShardedTensorMetadata TensorProperties",
                        "custom_sharded_op_impl empty full init_from_local_shards ones pre_load_state_dict_hook rand randn state_dict_hook zeros",
                        "_shard.sharded_tensor."))
