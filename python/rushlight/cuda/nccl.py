"""Collectives between the devices of one process: one tensor on each. By NCCL; on emulated devices without it, by copies."""
import collections
import warnings

import rushlight as torch

__all__ = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]

SUM = 0  # NCCL's numbers: sum, product, largest, smallest, mean
_REDUCE = (torch.add, torch.mul, torch.maximum, torch.minimum, torch.add)
_ALL_REDUCE, _BROADCAST, _REDUCE_TO_ONE, _ALL_GATHER, _REDUCE_SCATTER = range(5)  # enum rush_nccl_kind


def is_available(tensors):
    """Are these dense and on a device each?"""
    devices = [t.device for t in tensors]
    return torch.cuda.is_available() and all(t.is_cuda and not t.is_sparse and t.is_contiguous() for t in tensors) and len(set(devices)) == len(devices)


def version():
    """Of the library, as (major, minor, patch)."""
    torch.cuda._lazy_init()
    n = torch._C._nccl_version()
    return n // 10000, n % 10000 // 100, n % 100


def _by_copies(kind, inputs, outputs, op, root, streams):
    """What NCCL would do, where devices are emulated and it is not there; operations wait for one another by the copies."""
    if kind == _BROADCAST:
        results = [inputs[root]] * len(outputs)
    elif kind == _ALL_GATHER:
        results = [torch.cat([t.to(out.device).reshape(-1) for t in inputs]) for out in outputs]
    else:
        total = inputs[0].clone()
        for t in inputs[1:]:
            total = _REDUCE[op](total, t.to(total.device))
        total = total / len(inputs) if op == 4 else total
        results = total.reshape(-1).chunk(len(inputs)) if kind == _REDUCE_SCATTER else [total] * len(outputs)
    for out, result, stream in zip(outputs, results, streams or [None] * len(outputs)):
        if out is not None and out is not result:
            with torch.cuda.stream(stream):
                out.copy_(result.reshape(out.shape))


def _call(kind, inputs, outputs, op=SUM, root=0, streams=None, comms=None):
    torch.cuda._lazy_init()
    if comms is not None:
        raise NotImplementedError("torch.cuda.nccl: communicators of one's own are not taken")
    if len(inputs) != len(outputs):
        raise RuntimeError("input and output sequences have to be of the same length, but got input of length %d and output of length %d" % (len(inputs), len(outputs)))
    with torch.no_grad():
        if torch.cuda.get_device_properties(0).is_emulated and not torch._C._cuda_has_libraries():
            if not is_available(inputs) or not is_available([out for out in outputs if out is not None]):
                raise RuntimeError("expected dense, contiguous CUDA tensors on unique devices")
            _by_copies(kind, inputs, outputs, op, root, streams)
        else:
            torch._C._nccl_devices(kind, tuple(inputs), tuple(outputs), op, root, None if streams is None else tuple(
                torch._C._stream_current(t.device) if s is None else s.stream_id for s, t in zip(streams, inputs)))


def _check_sequence_type(inputs):
    if not isinstance(inputs, collections.abc.Container) or isinstance(inputs, torch.Tensor):
        raise TypeError("Inputs should be a collection of tensors")


def all_reduce(inputs, outputs=None, op=SUM, streams=None, comms=None):
    """Every output is the sum of all inputs."""
    _check_sequence_type(inputs)
    outputs = inputs if outputs is None else outputs
    _check_sequence_type(outputs)
    _call(_ALL_REDUCE, inputs, outputs, op, 0, streams, comms)


def reduce(inputs, output=None, root=0, op=SUM, streams=None, comms=None, *, outputs=None):
    """The output, on the device of inputs[root], is their sum."""
    _check_sequence_type(inputs)
    if outputs is not None and output is not None:
        raise ValueError("'output' and 'outputs' can not be both specified. 'outputs' is deprecated in favor of 'output', taking in a single output tensor. "
                         "The signature of reduce is: reduce(inputs, output=None, root=0, op=SUM, streams=None, comms=None).")
    if outputs is not None or (output is not None and not isinstance(output, torch.Tensor)):
        warnings.warn("`nccl.reduce` with an output tensor list is deprecated. Please specify a single output tensor with argument 'output' instead.", FutureWarning, stacklevel=2)
        output = (output if outputs is None else outputs)[root]
    output = inputs[root] if output is None else output
    _call(_REDUCE_TO_ONE, inputs, [output if i == root else None for i in range(len(inputs))], op, root, streams, comms)


def broadcast(inputs, root=0, streams=None, comms=None):
    """All become inputs[root]."""
    _check_sequence_type(inputs)
    _call(_BROADCAST, inputs, inputs, SUM, root, streams, comms)


def all_gather(inputs, outputs, streams=None, comms=None):
    """Every output is all inputs, one behind the other."""
    _check_sequence_type(inputs)
    _check_sequence_type(outputs)
    _call(_ALL_GATHER, inputs, outputs, SUM, 0, streams, comms)


def reduce_scatter(inputs, outputs, op=SUM, streams=None, comms=None):
    """Each output is its part of the sum of all inputs."""
    _check_sequence_type(inputs)
    _check_sequence_type(outputs)
    _call(_REDUCE_SCATTER, inputs, outputs, op, 0, streams, comms)
