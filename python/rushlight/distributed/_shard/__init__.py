"""Where tensors in pieces lay before DTensor (torch.distributed.tensor): what programs import to look for them. There are none here."""
from .._absent import absent

globals().update(absent("", "_shard_tensor load_with_process_group shard_module shard_parameter", "_shard."))
