"""Events of a profile: lists, averages, tables and Chrome traces."""
import itertools
import json
from collections import defaultdict, namedtuple

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel",
           "MemRecordsAcc", "StringTable"]

Kernel = namedtuple("Kernel", ["name", "device", "duration"])


def _format_time(time_us):
    if time_us >= 1e6:
        return "%.3fs" % (time_us / 1e6)
    if time_us >= 1e3:
        return "%.3fms" % (time_us / 1e3)
    return "%.3fus" % time_us


def _format_time_share(time_us, total_time_us):
    if total_time_us == 0:
        return "NaN" if time_us else "0.00%"
    return "%.2f%%" % (time_us * 100.0 / total_time_us)


def _format_memory(nbytes):
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return "%.2f %s" % (nbytes / size, unit)
    return "%d B" % nbytes


class Interval:
    def __init__(self, start, end):
        self.start, self.end = start, end

    def elapsed_us(self):
        return self.end - self.start


class FormattedTimesMixin:
    """The times as text: cpu_time_str and so on."""

    @property
    def cpu_time(self):
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self):
        return self.device_time_total / self.count if self.count else 0.0

    cuda_time = device_time

    @property
    def cpu_time_str(self):
        return _format_time(self.cpu_time)

    @property
    def device_time_str(self):
        return _format_time(self.device_time)

    @property
    def cpu_time_total_str(self):
        return _format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self):
        return _format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self):
        return _format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self):
        return _format_time(self.self_device_time_total)


class FunctionEvent(FormattedTimesMixin):
    """One call, or one range marked by record_function."""

    def __init__(self, id, name, thread, start_us, end_us, overload_name=None, fwd_thread=None, input_shapes=None,
                 stack=None, scope=0, use_device=None, cpu_memory_usage=0, device_memory_usage=0, is_async=False,
                 is_remote=False, sequence_nr=-1, node_id=-1, device_type=None, device_index=0, device_resource_id=None,
                 is_legacy=False, flops=None, trace_name=None, concrete_inputs=None, kwinputs=None,
                 is_user_annotation=False, metadata_json=None):
        self.id, self.node_id, self.name = id, node_id, name
        self.overload_name = overload_name or ""
        self.trace_name = trace_name if trace_name is not None else name
        self.time_range = Interval(start_us, end_us)
        self.thread, self.fwd_thread = thread, fwd_thread
        self.kernels, self.count = [], 1
        self.cpu_children, self.cpu_parent = [], None
        self.input_shapes = input_shapes if input_shapes is not None else []
        self.concrete_inputs, self.kwinputs = concrete_inputs or [], kwinputs or {}
        self.stack = stack if stack is not None else []
        self.scope, self.use_device = scope, use_device
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.sequence_nr = is_async, is_remote, sequence_nr
        self.device_type, self.device_index = device_type, device_index
        self.is_legacy, self.flops = is_legacy, flops
        self.is_user_annotation = is_user_annotation
        self.metadata_json = metadata_json
        self.self_cpu_percent = -1

    def append_kernel(self, name, device, duration):
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child):
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        self.cpu_parent = parent

    @property
    def cpu_time_total(self):
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self):
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self):
        return 0

    @property
    def device_time_total(self):
        return sum(kernel.duration for kernel in self.kernels)

    cuda_time_total = device_time_total

    @property
    def self_device_time_total(self):
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def key(self):
        return self.name

    def __repr__(self):
        return "<FunctionEvent id=%s name=%s cpu_time=%s input_shapes=%s>" % (self.id, self.name, self.cpu_time_str,
                                                                             self.input_shapes)


class FunctionEventAvg(FormattedTimesMixin):
    """Events of one name added up."""

    def __init__(self):
        self.key = None
        self.overload_name = None
        self.count = 0
        self.node_id = 0
        self.is_async = self.is_remote = False
        self.use_device = None
        self.cpu_time_total = self.device_time_total = 0
        self.self_cpu_time_total = self.self_device_time_total = 0
        self.input_shapes = self.stack = self.scope = None
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.cpu_children, self.cpu_parent = [], None
        self.device_type = None
        self.is_legacy = False
        self.flops = 0
        self.is_user_annotation = False

    def add(self, other):
        if self.key is None:
            for name in ("key", "overload_name", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children",
                         "input_shapes", "stack", "scope", "device_type", "is_legacy", "use_device",
                         "is_user_annotation"):
                setattr(self, name, getattr(other, name))
        for name in ("cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
                     "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage",
                     "count"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    def __iadd__(self, other):
        return self.add(other)

    def __repr__(self):
        return "<FunctionEventAvg key=%s self_cpu_time=%s cpu_time=%s  self_device_time=%s device_time=%s " \
            "input_shapes=%s cpu_memory_usage=%d>" % (self.key, self.self_cpu_time_total_str, self.cpu_time_str,
                                                      self.self_device_time_total_str, self.device_time_str,
                                                      self.input_shapes, self.cpu_memory_usage)


class StringTable(defaultdict):
    def __missing__(self, key):
        self[key] = key
        return key


class MemRecordsAcc:
    """Memory events by time."""

    def __init__(self, mem_records):
        self._records = sorted(mem_records, key=lambda r: r[0])

    def in_interval(self, start_us, end_us):
        return [r for r in self._records if start_us <= r[0] <= end_us]


class EventList(list):
    """Events of a profile."""

    def __init__(self, *args, **kwargs):
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        super().__init__(*args, **kwargs)

    def _build_tree(self):
        """Find each event's parent: the innermost event of its thread that encloses it."""
        for event in self:
            event.cpu_children, event.cpu_parent = [], None
        threads = defaultdict(list)
        for event in self:
            if not event.is_async:
                threads[event.thread].append(event)
        for events in threads.values():
            events.sort(key=lambda e: (e.time_range.start, -e.time_range.end))
            open_events = []
            for event in events:
                while open_events and event.time_range.start >= open_events[-1].time_range.end:
                    open_events.pop()
                if open_events:
                    open_events[-1].append_cpu_child(event)
                    event.set_cpu_parent(open_events[-1])
                open_events.append(event)

    @property
    def self_cpu_time_total(self):
        return sum(event.self_cpu_time_total for event in self)

    def __str__(self):
        return self.table()

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        """The events added up by name (and shapes, and the last lines of the stack)."""
        groups = {}
        for event in self:
            key = (event.key, str(event.input_shapes) if group_by_input_shapes else "",
                   tuple(event.stack[:group_by_stack_n]), event.overload_name if group_by_overload_name else "",
                   event.is_user_annotation)
            groups.setdefault(key, FunctionEventAvg()).add(event)
        result = EventList(groups.values(), use_device=self._use_device, profile_memory=self._profile_memory,
                           with_flops=self._with_flops)
        for average in result:
            average.stack = average.stack[:group_by_stack_n] if group_by_stack_n else []
            if not group_by_input_shapes:
                average.input_shapes = ""
        return result

    def total_average(self):
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = None
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):
        """The events as text, the largest first when sort_by names a column."""
        events = [e for e in self if not top_level_events_only or e.cpu_parent is None]
        if not events:
            return ""
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            events = sorted(events, key=lambda e: getattr(e, name), reverse=True)
        total = sum(e.self_cpu_time_total for e in events)
        columns = [("Name", lambda e: _cut(e.key, max_name_column_width), "<"),
                   ("Self CPU %", lambda e: _format_time_share(e.self_cpu_time_total, total), ">"),
                   ("Self CPU", lambda e: e.self_cpu_time_total_str, ">"),
                   ("CPU total %", lambda e: _format_time_share(e.cpu_time_total, total), ">"),
                   ("CPU total", lambda e: e.cpu_time_total_str, ">"),
                   ("CPU time avg", lambda e: e.cpu_time_str, ">")]
        if self._profile_memory:
            columns += [("CPU Mem", lambda e: _format_memory(e.cpu_memory_usage), ">"),
                        ("Self CPU Mem", lambda e: _format_memory(e.self_cpu_memory_usage), ">")]
        columns.append(("# of Calls", lambda e: str(e.count), ">"))
        if any(e.input_shapes for e in events):
            columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes), max_shapes_column_width), ">"))
        if self._with_flops:
            columns.append(("Total FLOPs", lambda e: str(e.flops or "--"), ">"))
        if any(e.stack for e in events):
            columns.append(("Source Location", lambda e: _cut(e.stack[0] if e.stack else "", max_src_column_width), "<"))
        rows = [[show(e) for _, show, _ in columns] for e in events[:row_limit if row_limit >= 0 else None]]
        widths = [max([len(title)] + [len(row[i]) for row in rows]) + 2 for i, (title, _, _) in enumerate(columns)]
        rule = "  ".join("-" * width for width in widths)
        lines = [header] if header else []
        lines += [rule, "  ".join("%*s" % (width, title) for (title, _, _), width in zip(columns, widths)), rule]
        lines += ["  ".join("%*s" % (width, cell) for cell, width in zip(row, widths)) for row in rows]
        lines += [rule, "Self CPU time total: %s" % _format_time(total), ""]
        return "\n".join(lines)

    def export_chrome_trace(self, path):
        """Write the events for chrome://tracing and Perfetto."""
        import gzip
        entries = []
        for event in self:
            entry = {"ph": "X", "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                     "name": event.trace_name, "pid": 0, "tid": event.thread, "ts": event.time_range.start,
                     "dur": event.time_range.elapsed_us(), "args": {}}
            if event.input_shapes:
                entry["args"]["Input Dims"] = event.input_shapes
            entries.append(entry)
        opener = gzip.open if str(path).endswith(".gz") else open
        with opener(path, "wt") as f:
            json.dump({"schemaVersion": 1, "traceEvents": entries}, f)

    def export_stacks(self, path, metric):
        """Write "frames value" lines for flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError("metric should be one of: " + str(self.supported_export_stacks_metrics()))
        with open(path, "w") as f:
            for event in self:
                if event.stack:
                    value = int(getattr(event, metric.replace("cuda", "device")))
                    if value > 0:
                        f.write("%s %d\n" % (";".join(frame.translate({ord(c): "_" for c in " ;\t\n"})
                                                      for frame in reversed(event.stack)), value))

    def supported_export_stacks_metrics(self):
        return ["self_cpu_time_total", "self_cuda_time_total"]


def _cut(text, width):
    if width is not None and width > 3 and len(text) > width:
        return text[:width - 3] + "..."
    return text


_counter = itertools.count()
