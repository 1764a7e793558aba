"""Chrome traces of a profile: what chrome://tracing, Perfetto and TensorBoard read."""
import gzip
import json
import os
import socket

_C_TYPES = {"float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int64": "long int",
            "int32": "int", "int16": "short int", "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
            "complex64": "c10::complex<float>", "complex128": "c10::complex<double>"}

_LAST = 5000000     # devices stand below processes


def write(events, path, metadata={}):
    """Write an EventList and what else is to be told to a file, compressed when its name ends in .gz."""
    pid = os.getpid()
    base = getattr(events, "_start_ns", 0) / 1000.0
    first = min((event.time_range.start for event in events), default=0.0) + base
    threads = sorted({event.thread for event in events if not event.on_device})
    entries = [_named(pid, 0, first, "process_name", {"name": "python"}), _named(pid, 0, first, "process_labels", {"labels": "CPU"}),
               _named(pid, 0, first, "process_sort_index", {"sort_index": pid})]
    for thread in threads:
        entries += [_named(pid, thread, first, "thread_name", {"name": "thread %d (python)" % thread}),
                    _named(pid, thread, first, "thread_sort_index", {"sort_index": thread})]
    rows = sorted({(event.device_index, event.device_resource_id) for event in events if event.on_device})
    for device in sorted({device for device, _ in rows}):
        entries += [_named(device, 0, first, "process_name", {"name": "python"}), _named(device, 0, first, "process_labels", {"labels": "GPU %d" % device}),
                    _named(device, 0, first, "process_sort_index", {"sort_index": _LAST + device})]
    for device, stream in rows:
        entries += [_named(device, stream, first, "thread_name", {"name": "stream %d" % stream}), _named(device, stream, first, "thread_sort_index", {"sort_index": stream})]
    forward = {}
    for i, event in enumerate(events):
        at = base + event.time_range.start
        entries += [_memory(pid, event, base + time, i, nbytes, active, reserved, device) for time, device, nbytes, active, reserved in event.device_memory]
        if event.name == "[memory]":
            if event.cpu_memory_usage:
                entries.append(_memory(pid, event, at, i, event.cpu_memory_usage, event.live_bytes))
            continue
        if event.on_device:
            entries.append(_work(event, at))
            continue
        entries.append(_call(pid, event, at, i))
        for work in event.asked_for:
            entries += _asked(pid, event, work, base)
        if event.sequence_nr >= 0:
            if event.scope == 1:
                entries += _arrow(pid, forward.get(event.sequence_nr), event, base)
            else:
                forward[event.sequence_nr] = event
        if event.self_cpu_memory_usage:
            entries.append(_memory(pid, event, base + event.time_range.end, i, event.self_cpu_memory_usage, event.live_bytes))
    trace = {"schemaVersion": 1, "deviceProperties": [], "host_name": socket.gethostname(), "displayTimeUnit": "ms",
             "baseTimeNanoseconds": 0, **metadata, "traceEvents": entries, "traceName": str(path)}
    with (gzip.open if str(path).endswith(".gz") else open)(path, "wt") as f:
        json.dump(trace, f)


def _named(pid, tid, at, name, args):
    return {"ph": "M", "name": name, "ts": at, "pid": pid, "tid": tid, "args": args}


def _call(pid, event, at, i):
    args = {"External id": i + 1, "Record function id": 0, "Ev Idx": i}
    if event.sequence_nr >= 0:
        args.update({"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread or 0})
    if event.structured_input_shapes is not None:
        args.update({"Concrete Inputs": ["" if x is None else str(x) for x in event.concrete_inputs],
                     "Input type": [_C_TYPES.get(name, name) for name in event.input_dtypes],
                     "Input Strides": event.structured_input_strides, "Input Dims": event.structured_input_shapes})
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    return {"ph": "X", "cat": event.activity_type or ("user_annotation" if event.is_user_annotation else "cpu_op"), "name": event.trace_name, "pid": pid,
            "tid": event.thread, "ts": at, "dur": event.time_range.elapsed_us(), "args": args}


def _work(event, at):
    """What ran on a device: its stream is the row."""
    return {"ph": "X", "cat": event.activity_type, "name": event.trace_name, "pid": event.device_index, "tid": event.device_resource_id, "ts": at,
            "dur": event.time_range.elapsed_us(), "args": event.extra_meta}


def _asked(pid, call, work, base):
    """From a call of the driver to what it asked for."""
    common = {"id": call.linked_correlation_id, "cat": "ac2g", "name": "ac2g"}
    return [dict(common, ph="s", pid=pid, tid=call.thread, ts=base + call.time_range.start),
            dict(common, ph="f", pid=work.device_index, tid=work.device_resource_id, ts=base + work.time_range.start, bp="e")]


def _memory(pid, event, at, i, nbytes, active, reserved=0, device=-1):
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": event.thread, "ts": at,
            "args": {"Total Reserved": reserved, "Total Allocated": active, "Bytes": nbytes, "Device Id": device, "Device Type": int(device >= 0), "Ev Idx": i}}


def _arrow(pid, forward, backward, base):
    """From a recorded call to the node that runs for it in a backward."""
    if forward is None:
        return []
    common = {"id": backward.sequence_nr + 1, "pid": pid, "cat": "fwdbwd", "name": "fwdbwd"}
    return [dict(common, ph="s", tid=forward.thread, ts=base + forward.time_range.start),
            dict(common, ph="f", tid=backward.thread, ts=base + backward.time_range.start, bp="e")]
