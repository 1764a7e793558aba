"""Parameters of several layers as one."""
from .._absent import absent
from .fully_sharded_data_parallel import FlatParameter  # noqa: F401

globals().update(absent("FlatParamHandle", "", "fsdp._flat_param."))
