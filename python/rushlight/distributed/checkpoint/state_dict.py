"""State dicts in pieces."""
from .._absent import absent

globals().update(absent(
    "StateDictOptions",
    "get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict set_optimizer_state_dict "
    "set_state_dict", "checkpoint.state_dict."))
