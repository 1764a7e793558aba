"""Parameters averaged over processes."""
from ..._absent import absent

globals().update(absent(
    "ModelAverager PeriodicModelAverager",
    "", "algorithms.model_averaging.averagers."))
