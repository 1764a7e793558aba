"""Annotations that scripts use for lists of fixed length: BroadcastingList2[int] is an int or two."""
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401


class _BroadcastingList:
    """One value or several: any annotation of it stands for List."""

    def __getitem__(self, item):
        return List[item]


for _n in range(1, 7):
    globals()[f"BroadcastingList{_n}"] = _BroadcastingList()


def is_function_or_method(the_callable):
    import inspect
    return inspect.isfunction(the_callable) or inspect.ismethod(the_callable)
