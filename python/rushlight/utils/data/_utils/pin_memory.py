"""Copies batches into page-locked memory, from which devices can read while the program runs on."""
import collections.abc
import queue

import rushlight as torch
from rushlight.utils.data._utils import MP_STATUS_CHECK_INTERVAL, ExceptionWrapper
from rushlight.utils.data._utils.collate import _is_namedtuple, _rebuild_mapping, _rebuild_sequence


def pin_memory(data, device=None):
    """The same structure with pinned tensors; objects with a pin_memory() method do it themselves."""
    if isinstance(data, torch.Tensor):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_mapping(data, lambda key: pin_memory(data[key], device))
    if _is_namedtuple(data):
        return type(data)(*(pin_memory(item, device) for item in data))
    if isinstance(data, tuple):
        return [pin_memory(item, device) for item in data]
    if isinstance(data, collections.abc.Sequence):
        return _rebuild_sequence(data, [pin_memory(item, device) for item in data])
    return data


def _pin_memory_loop(in_queue, out_queue, device_id, done_event, device):
    """Body of a thread that pins what passes from one queue to the other."""
    while not done_event.is_set():
        try:
            item = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            continue
        number, data = item
        if not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device)
            except Exception:
                data = ExceptionWrapper(where="in pin memory thread for device %s" % device_id)
        out_queue.put((number, data))
