"""What passes over graphs share."""
from .common import HolderModule, compare_graphs, lift_subgraph_as_module  # noqa: F401
