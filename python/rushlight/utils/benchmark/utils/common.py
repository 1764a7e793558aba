"""Measurements: what was run, and how long it took."""
import contextlib
import dataclasses
import math
import statistics

import rushlight as torch


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What is timed."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: object = None
    sub_label: object = None
    description: object = None
    env: object = None
    num_threads: int = 1

    @property
    def title(self):
        if self.label is not None:
            return self.label + (": " + self.sub_label if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else "stmt:\n" + "\n".join("  " + line for line in self.stmt.split("\n"))

    def setup_str(self):
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" not in self.setup:
            return "setup: " + self.setup
        return "setup:\n" + "\n".join("  " + line for line in self.setup.split("\n"))

    def summarize(self):
        lines = [self.title, self.description or "", self.setup_str()]
        return "\n".join(line for line in lines if line)


class Measurement:
    """Times of several runs; mean, median and iqr are seconds per execution."""

    def __init__(self, number_per_run, raw_times, task_spec, metadata=None):
        self.number_per_run, self.raw_times = number_per_run, list(raw_times)
        self.task_spec, self.metadata = task_spec, metadata

    def __getattr__(self, name):
        if name in ("task_spec", "raw_times") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self):
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self):
        return statistics.median(self.times)

    @property
    def mean(self):
        return statistics.fmean(self.times)

    @property
    def iqr(self):
        if len(self.times) < 2:
            return 0.0
        quarter = statistics.quantiles(self.times, n=4, method="inclusive")
        return quarter[2] - quarter[0]

    @property
    def significant_figures(self):
        """How many digits the mean of the middle half can be known to: its 90 % interval, of 25 ns at least, beside the median; four at most."""
        count = len(self.times)
        middle = sorted(self.times)[count // 4:math.ceil(3 * count / 4)]
        spread = statistics.pstdev(middle)
        interval = max(1.645 * spread / math.sqrt(len(middle)), 25e-9)
        return max(1, min(math.floor(-math.log10(interval / self.median)), 4)) if self.median else 1

    @property
    def has_warnings(self):
        return not self.meets_confidence()

    def meets_confidence(self, threshold=0.1):
        return self.iqr / max(self.median, 1e-300) < threshold

    @property
    def title(self):
        return self.task_spec.title

    @property
    def as_row_name(self):
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @property
    def env(self):
        return self.task_spec.env or ""

    def __repr__(self):
        unit, scale = select_unit(self.median)
        lines = ["<torch.utils.benchmark.utils.common.Measurement object at %#x>" % id(self), self.task_spec.summarize()]
        if len(self.raw_times) == 1:
            lines.append("  %.2f %s" % (self.median / scale, unit))
            lines.append("  1 measurement, %d runs , %d thread%s" % (self.number_per_run, self.num_threads,
                                                                   "s" if self.num_threads > 1 else ""))
        else:
            lines.append("  Median: %.2f %s" % (self.median / scale, unit))
            if len(self.raw_times) >= 4:
                low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
                lines.append("  IQR:    %.2f %s (%.2f to %.2f)" % (self.iqr / scale, unit, low / scale, high / scale))
            lines.append("  %d measurements, %d runs per measurement, %d thread%s" % (
                len(self.raw_times), self.number_per_run, self.num_threads, "s" if self.num_threads > 1 else ""))
        if self.has_warnings:
            varies = self.iqr / self.median
            lines += ["  WARNING: Interquartile range is %.1f%% of the median measurement." % (varies * 100),
                      "           This %s" % ("could indicate system fluctuation." if varies < 0.25 else "suggests significant environmental influence.")]
        return "\n".join(lines)

    @staticmethod
    def merge(measurements):
        """Measurements of the same task as one."""
        groups = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [Measurement(1, [t for m in group for t in m.times], spec) for spec, group in groups.items()]


def select_unit(t):
    """(name, seconds) of the unit that suits a time."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= scale:
            return unit, scale
    return "ns", 1e-9


def unit_to_english(u):
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x, n):
    """x with n significant digits."""
    return float("%.*g" % (n, x)) if x else 0.0


def ordered_unique(elements):
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
