"""The launcher of several processes."""
from ._absent import absent

globals().update(absent(
    "",
    "run main get_args_parser config_from_args", "run."))
