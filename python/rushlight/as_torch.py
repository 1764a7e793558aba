"""`import rushlight.as_torch` makes every later `import torch` in this process and its children mean rushlight."""
from rushlight import _alias

_alias.activate()
