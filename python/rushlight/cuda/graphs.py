"""CUDA graphs: names of what records and replays work on a device."""
import rushlight as torch


def is_current_stream_capturing():
    """Whether a graph is being recorded: never without a device."""
    probe = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
    return probe() if probe is not None and torch.cuda.is_initialized() else False


def graph_pool_handle():
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.graph_pool_handle: CUDA graphs are not supported")


class CUDAGraph:
    """A recorded graph."""

    def __new__(cls, keep_graph=False):
        torch.cuda._lazy_init()
        raise NotImplementedError("torch.cuda.CUDAGraph: CUDA graphs are not supported")


class graph:
    """Context manager: records a graph."""

    default_capture_stream = None

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        torch.cuda._lazy_init()
        raise NotImplementedError("torch.cuda.graph: CUDA graphs are not supported")


def make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None):
    torch.cuda._lazy_init()
    raise NotImplementedError("torch.cuda.make_graphed_callables: CUDA graphs are not supported")
