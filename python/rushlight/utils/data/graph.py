"""Finds the pipes that a data pipe is built from, by looking through what its state refers to."""
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]


def _pipes_in(value, seen, found):
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            _pipes_in(item, seen, found)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            _pipes_in(item, seen, found)


def traverse_dps(datapipe):
    """{id(pipe): (pipe, {... the pipes below it ...})}"""
    return _traverse(datapipe, set())


def _traverse(pipe, path):
    if id(pipe) in path:
        return {}
    below, found = {}, []
    _pipes_in(dict(vars(pipe)), set(), found)
    for part in found:
        below.update(_traverse(part, path | {id(pipe)}))
    return {id(pipe): (pipe, below)}


def traverse(datapipe, only_datapipe=None):
    return traverse_dps(datapipe)
