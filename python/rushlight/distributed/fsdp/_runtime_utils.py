"""What sharded modules do around a call."""
from .._absent import absent

globals().update(absent(
    "",
    "_root_pre_forward _lazy_init", "fsdp._runtime_utils."))
