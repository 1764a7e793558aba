"""Which modules are sharded."""
from .._absent import absent

globals().update(absent(
    "ModuleWrapPolicy CustomPolicy",
    "transformer_auto_wrap_policy size_based_auto_wrap_policy always_wrap_policy lambda_auto_wrap_policy "
    "enable_wrap wrap _or_policy _module_wrap_policy", "fsdp.wrap."))
