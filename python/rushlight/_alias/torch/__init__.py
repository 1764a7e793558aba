"""Stands first on the path of processes that run under the alias: `import torch` lands here and becomes rushlight."""
import os as _os
import sys as _sys

_home = _os.path.dirname(_os.path.dirname(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))))
try:
    from rushlight import _alias
except ModuleNotFoundError:
    _sys.path.append(_home)
    from rushlight import _alias

_alias.activate()
