"""Parameters of several layers as one."""
from .._absent import absent

globals().update(absent(
    "FlatParameter FlatParamHandle",
    "", "fsdp._flat_param."))
