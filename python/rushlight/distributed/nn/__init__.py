"""Collectives with gradients."""
from .._absent import absent
from .functional import *  # noqa: F401,F403

globals().update(absent("RemoteModule", "", "nn."))
