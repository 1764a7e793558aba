"""Remote calls: functions that run at other workers, and references to what they return there."""
from . import constants, functions  # noqa: F401
from ._agent import is_set as _is_current_rpc_agent_set  # noqa: F401
from .api import *  # noqa: F401,F403
from .api import RRef as PyRRef  # noqa: F401
