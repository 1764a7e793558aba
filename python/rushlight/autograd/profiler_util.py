"""Events of a profile: lists, averages, tables and Chrome traces."""
import math
from collections import defaultdict, namedtuple

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel",
           "MemRecordsAcc", "StringTable"]

Kernel = namedtuple("Kernel", ["name", "device", "duration"])


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def _format_time(time_us, time_unit=None):
    """As text, in the largest unit that it fills or in the one that is asked for."""
    if time_unit not in _UNITS:
        time_unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    return "%.3f%s" % (time_us / _UNITS[time_unit], time_unit)


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
                 is_user_annotation=False, is_python_function=False, activity_type=None, metadata_json=None,
                 flow_id=None, flow_type=None, flow_start=None, external_id=0, linked_correlation_id=0, extra_meta=None,
                 structured_input_shapes=None, structured_input_strides=None, input_dtypes=None, python_id=-1,
                 python_parent_id=-1, python_module_id=-1):
        given = dict(locals())
        for key in ("self", "start_us", "end_us", "overload_name", "trace_name", "input_shapes", "stack", "concrete_inputs",
                    "kwinputs", "device_type"):
            del given[key]
        vars(self).update(given)
        self.overload_name = overload_name
        self.trace_name = trace_name if trace_name is not None else name
        self.time_range = Interval(start_us, end_us)
        self.kernels, self.count = [], 1
        self.cpu_children, self.cpu_parent = [], None
        self.input_shapes = input_shapes if input_shapes is not None else []
        self.concrete_inputs, self.kwinputs = concrete_inputs or [], kwinputs or {}
        self.stack = stack if stack is not None else []
        if device_type is None:
            from rushlight.autograd.profiler import DeviceType
            device_type = DeviceType.CPU
        self.device_type = device_type
        self.self_cpu_percent = -1
        self.live_bytes = 0     # in use when it ended
        self.asked_for = []     # of a call of the driver: what ran on a device for it
        self.device_memory = [] # taken and given back within it: (time, device, bytes, in use then, taken from the driver)

    def append_kernel(self, name, device, duration):
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child):
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        self.cpu_parent = parent

    @property
    def on_device(self):
        """Did it run there? What the others asked for is counted by their kernels."""
        return self.device_type.name != "CPU"

    @property
    def cpu_time_total(self):
        return 0 if self.on_device else self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self):
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self):
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    @property
    def device_time_total(self):
        if self.on_device:
            return self.time_range.elapsed_us()
        return sum(kernel.duration for kernel in self.kernels) + sum(child.device_time_total for child in self.cpu_children)

    cuda_time_total = device_time_total

    @property
    def self_device_time_total(self):
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def key(self):
        return self.name

    def __repr__(self):
        device = self.use_device
        shown = (("id", self.id), ("name", self.name), ("overload_name", self.overload_name),
                 ("device_type", "DeviceType." + self.device_type.name), ("node_id", self.node_id),
                 ("cpu_time", self.cpu_time_str), ("start_us", self.time_range.start), ("end_us", self.time_range.end),
                 ("cpu_children", [child.id for child in self.cpu_children]), ("%s_time" % device, self.device_time_str),
                 ("name", self.name), ("thread", self.thread), ("input_shapes", self.input_shapes),
                 ("cpu_memory_usage", self.cpu_memory_usage), ("%s_memory_usage" % device, self.device_memory_usage),
                 ("is_async", self.is_async), ("is_remote", self.is_remote), ("seq_nr", self.sequence_nr),
                 ("is_legacy", self.is_legacy))
        return "<FunctionEvent %s>" % " ".join("%s=%s" % pair for pair in shown)


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
        device = self.use_device or "cuda"
        return ("<FunctionEventAvg key=%s self_cpu_time=%s cpu_time=%s  self_%s_time=%s %s_time=%s input_shapes=%s "
                "cpu_memory_usage=%s %s_memory_usage=%s>" %
                (self.key, self.self_cpu_time_total_str, self.cpu_time_str, device, self.self_device_time_total_str, device,
                 self.device_time_str, self.input_shapes, self.cpu_memory_usage, device, self.device_memory_usage))


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
            if not event.is_async and not event.on_device:
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
                   event.is_user_annotation, event.device_type)
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
        total.key = "Total"
        return total

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):
        """The events as text, the largest first when sort_by names a column."""
        if not self:
            return ""
        events = list(self)
        if sort_by is not None:
            name = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
            events.sort(key=lambda e: getattr(e, name), reverse=True)
        layout = _Layout(events, self._profile_memory, self._with_flops, max_src_column_width, max_name_column_width,
                         max_shapes_column_width, time_unit)
        shown = [e for e in events if not top_level_events_only or e.cpu_parent is None]
        lines = []
        for title in [header] * (header is not None) + ["This report only display top-level ops statistics"] * top_level_events_only:
            lines += ["=" * layout.width, title]
        lines += [layout.rule, layout.line([column.title for column in layout.columns]), layout.rule]
        for event in shown[:row_limit if row_limit >= 0 else None]:
            lines += layout.rows(event)
        lines += [layout.rule, "Self CPU time total: " + _format_time(layout.total, time_unit)]
        if layout.device:
            lines.append("Self %s time total: %s" % (layout.device, _format_time(layout.device_total, time_unit)))
        lines.append("")
        return "\n".join(lines)

    def export_chrome_trace(self, path):
        """Write the events for chrome://tracing and Perfetto."""
        from rushlight.autograd.profiler_trace import write
        write(self, path)

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
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]


class _Column:
    """One column of a table: its title, its width, to which side it is set, and the cell of an event."""

    def __init__(self, title, cell, width=12, left=False):
        self.title, self.cell, self.width, self.left = title, cell, width, left


class _Layout:
    """The columns that a list of events asks for."""

    gap = "  "

    def __init__(self, events, memory, flops, source_width, name_width, shapes_width, unit):
        self.total = total = sum(e.self_cpu_time_total for e in events)
        self.device_total = device_total = sum(e.self_device_time_total for e in events if e.device_type is not None and e.device_type.name != "CPU" and not e.is_user_annotation)
        self.source_width = _column_width([frame for e in events for frame in e.stack], source_width)
        shapes = _column_width([str(e.input_shapes) for e in events if e.input_shapes], shapes_width)
        scale, title = _flops_scale([e.flops for e in events if e.flops])

        def spent(name):
            return lambda e: _format_time(getattr(e, name), unit)

        def share(name, of=total):
            return lambda e: _format_time_share(getattr(e, name), of)
        columns = [_Column("Name", lambda e: _cut(e.key, name_width), _column_width([e.key for e in events], name_width)),
                   _Column("Self CPU %", share("self_cpu_time_total")), _Column("Self CPU", spent("self_cpu_time_total")),
                   _Column("CPU total %", share("cpu_time_total") if any(not e.is_async for e in events) else lambda e: "0.00%"),
                   _Column("CPU total", spent("cpu_time_total")), _Column("CPU time avg", spent("cpu_time"))]
        device = next((e.use_device.upper() for e in events if e.use_device), None)
        self.device = device if any(e.self_device_time_total > 0 for e in events) else None
        if self.device:
            columns += [_Column("Self " + self.device, spent("self_device_time_total")), _Column("Self %s %%" % self.device, share("self_device_time_total", device_total)),
                        _Column(self.device + " total", spent("device_time_total")), _Column(self.device + " time avg", spent("device_time"))]
        if memory:
            columns += [_Column("CPU Mem", lambda e: _format_memory(e.cpu_memory_usage)),
                        _Column("Self CPU Mem", lambda e: _format_memory(e.self_cpu_memory_usage))]
        if memory and device and any(e.self_device_memory_usage > 0 for e in events):
            columns += [_Column(device + " Mem", lambda e: _format_memory(e.device_memory_usage)),
                        _Column("Self %s Mem" % device, lambda e: _format_memory(e.self_device_memory_usage))]
        columns.append(_Column("# of Calls", lambda e: str(e.count)))
        if any(e.input_shapes for e in events):
            columns.append(_Column("Input Shapes", lambda e: str(e.input_shapes)[:shapes], shapes))
        self.source = any(e.stack for e in events)
        if self.source:
            columns.append(_Column("Source Location", lambda e: _tail(e.stack[0], self.source_width) if e.stack else "",
                                   self.source_width, left=True))
        if flops and title:
            columns.append(_Column(title, lambda e: "%8.3f" % (e.flops / scale) if e.flops and e.flops > 0 else "--"))
        self.columns = columns
        self.rule = "".join("-" * column.width + self.gap for column in columns)
        self.width = len(self.rule) - len(self.gap)

    def line(self, cells):
        return "".join((cell.ljust if column.left else cell.rjust)(column.width) + self.gap
                       for column, cell in zip(self.columns, cells))

    def rows(self, event):
        """The event's line, and under it the rest of its stack."""
        yield self.line([column.cell(event) for column in self.columns])
        if self.source:
            for frame in event.stack[1:]:
                yield self.line([_tail(frame, self.source_width) if column.title == "Source Location" else "" for column in self.columns])
            yield self.line([""] * len(self.columns))


def _column_width(texts, most):
    longest = max((len(text) for text in texts), default=0) + 4
    return longest if most is None else min(longest, most)


def _flops_scale(counts):
    """(divisor, title) for a column of counts; the title is None where there is none."""
    if not counts:
        return 1, None
    step = max(0, min(int(math.log10(min(counts)) / 3), 5))
    return 1000 ** step, "Total " + ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")[step]


def _cut(text, width):
    """Names that nearly fill their column lose their end."""
    return text[:width - 3] + "..." if width is not None and len(text) >= width - 3 else text


def _tail(path, width):
    return path if len(path) <= width else "..." + path[len(path) - width + 3:]
