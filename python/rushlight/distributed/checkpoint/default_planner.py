"""Plans of what is saved where."""
from .._absent import absent

globals().update(absent(
    "DefaultLoadPlanner DefaultSavePlanner _EmptyStateDictLoadPlanner",
    "", "checkpoint.default_planner."))
