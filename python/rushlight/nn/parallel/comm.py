"""Copies between the devices of one process: each copy is one of the driver's, in the order of the current streams."""
import rushlight as torch

__all__ = ["broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather"]


def _device(device):
    """A device, a number of one or its text; -1 is the CPU."""
    torch.cuda._lazy_init()
    if isinstance(device, int):
        return torch.device("cpu") if device < 0 else torch.device("cuda", device)
    device = torch.device(device)
    return torch.device("cuda", torch.cuda.current_device()) if device.type == "cuda" and device.index is None else device


def _one_of(devices, out):
    if (devices is None) == (out is None):
        raise RuntimeError("Exactly one of 'devices' and 'out' must be specified, but got devices=%s and out=%s" % (devices, out))


def _on_devices(tensors, what):
    for i, x in enumerate(tensors):
        if x.device.type == "cpu":
            raise RuntimeError("Expected all %s tensors to be CUDA tensors, but %stensor at index %d has device '%s'" % (what, "output " if what == "output" else "", i, x.device))


def broadcast(tensor, devices=None, *, out=None):
    """The tensor on each of `devices`, or copied into each of the tensors `out`; a tuple. On its own device it is itself."""
    _one_of(devices, out)
    if out is not None:
        _on_devices(out, "output")
        with torch.no_grad():
            return tuple(to.copy_(tensor, non_blocking=True) for to in out)
    return tuple(tensor.to(_device(device), non_blocking=True) for device in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """For each of `devices` a list of the tensors; the first device is that where they lie. buffer_size: a hint, in bytes."""
    return [list(on_one) for on_one in zip(*(broadcast(x, devices) for x in tensors))] if tensors else [[] for _ in devices]


def reduce_add(inputs, destination=None):
    """The sum of tensors of one shape from several devices, on `destination` (the current device)."""
    if not inputs:
        raise RuntimeError("reduce_add expects at least one tensor")
    for i, x in enumerate(inputs):
        if not x.is_cuda:
            raise AssertionError("reduce_add expects all inputs to be on GPUs, but input %d is on CPU" % i)
        if x.shape != inputs[0].shape:
            raise ValueError("input %s does not match %s in size" % (list(x.shape), list(inputs[0].shape)))
    to = _device(torch.cuda.current_device() if destination is None else destination)
    result, *others = sorted(inputs, key=lambda x: x.device != to)
    if not others:
        return result.to(to)
    result = result.to(to) + others[0].to(to, non_blocking=True)
    for x in others[1:]:
        result.add_(x.to(to, non_blocking=True))
    return result


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """inputs: for each device a list of tensors; the sums of the first of each, the second of each, ..., as a tuple."""
    return tuple(reduce_add(list(same), destination) for same in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """Pieces of the tensor along `dim`, one for each of `devices`, or copied into the tensors `out`; a tuple.

    chunk_sizes: how long each is, equal by default; streams: for each device one to copy in, or None.
    """
    if out is not None:
        if devices is not None or chunk_sizes is not None:
            raise RuntimeError("'devices' and 'chunk_sizes' must not be specified when 'out' is specified, but got devices=%s and chunk_sizes=%s" % (devices, chunk_sizes))
        with torch.no_grad():
            return tuple(to.copy_(piece) for to, piece in zip(out, tensor.split([to.shape[dim] for to in out], dim)))
    devices = list(range(torch.cuda.device_count())) if devices is None else devices
    pieces = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    streams = [None] * len(pieces) if streams is None else streams
    moved = []
    for piece, device, stream in zip(pieces, devices, streams):
        with torch.cuda.stream(stream):
            moved.append(piece.to(_device(device), non_blocking=True))
    return tuple(moved)


def gather(tensors, dim=0, destination=None, *, out=None):
    """Tensors of several devices one after the other along `dim`, on `destination` (the current device; "cpu" or -1), or in `out`."""
    _on_devices(tensors, "input")
    if out is not None:
        if destination is not None:
            raise RuntimeError("'destination' must not be specified when 'out' is specified, but got destination=%s" % (destination,))
        return torch.cat([x.to(out.device) for x in tensors], dim, out=out)
    to = _device(torch.cuda.current_device() if destination is None else destination)
    return torch.cat([x.to(to, non_blocking=True) for x in tensors], dim)
