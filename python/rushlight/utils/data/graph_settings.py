"""Walks over a graph of data pipes to change shuffling and sharding of the pipes in it."""
import inspect

from rushlight.utils.data.datapipes.iter import SHARDING_PRIORITIES
from rushlight.utils.data.graph import traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
           "get_all_graph_pipes"]


def get_all_graph_pipes(graph):
    """Every pipe of a traverse() graph, each once."""
    found, stack = {}, [graph]
    while stack:
        for key, (pipe, below) in stack.pop().items():
            if key not in found:
                found[key] = pipe
                stack.append(below)
    return list(found.values())


def apply_sharding(datapipe, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT):
    """Tell every sharding pipe which share of the stream is its own; on each way to a source there may be one."""
    def apply(graph, before):
        for pipe, sources in graph.values():
            method = getattr(pipe, "apply_sharding", None)
            applied = before
            if inspect.ismethod(method):
                if before is not None:
                    raise RuntimeError("Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding already "
                                       "applied to %s while trying to apply to %s" % (before, pipe))
                groups = {"sharding_group": sharding_group} if len(inspect.signature(method).parameters) >= 3 else {}
                method(num_of_instances, instance_id, **groups)
                applied = pipe
            apply(sources, applied)
    apply(traverse_dps(datapipe), None)
    return datapipe


def _shufflers(datapipe):
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if hasattr(pipe, "set_shuffle") and hasattr(pipe, "set_seed") and inspect.ismethod(pipe.set_shuffle):
            yield pipe


def apply_shuffle_settings(datapipe, shuffle=None):
    """Switch every shuffling pipe on or off; one is added where shuffle is asked for and none is there."""
    if shuffle is None:
        return datapipe
    shufflers = list(_shufflers(datapipe))
    if shuffle and not shufflers:
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_shuffle_seed(datapipe, rng):
    return apply_random_seed(datapipe, rng)


def apply_random_seed(datapipe, rng):
    """Give every pipe that takes a seed one drawn from rng."""
    import rushlight as torch
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        method = getattr(pipe, "set_seed", None)
        if inspect.ismethod(method):
            method(int(torch.empty((), dtype=torch.int64).random_(generator=rng).item()))
    return datapipe
