"""Settings of a code generator that is not there."""
from . import config  # noqa: F401,E402
