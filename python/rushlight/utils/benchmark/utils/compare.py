"""Compare: measurements as a table, one column per description."""
import enum
import itertools

from rushlight.utils.benchmark.utils import common


class Colorize(enum.Enum):
    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Compare(measurements).print()"""

    def __init__(self, results):
        self._results = []
        self.extend_results(results)
        self._trim, self._color, self._highlight = False, Colorize.NONE, False

    def extend_results(self, results):
        for result in results:
            if not isinstance(result, common.Measurement):
                raise ValueError("Expected an instance of `Measurement`, got %s instead." % type(result))
        self._results.extend(results)

    def trim_significant_figures(self):
        self._trim = True

    def colorize(self, rowwise=False):
        self._color = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self):
        self._highlight = True

    def __str__(self):
        merged = common.Measurement.merge(self._results)
        labels = common.ordered_unique(m.label for m in merged)
        return "\n".join(self._table([m for m in merged if m.label == label]) for label in labels)

    def print(self):
        print(str(self))

    def _table(self, results):
        unit, scale = common.select_unit(min(m.median for m in results))
        columns = common.ordered_unique(m.description or "" for m in results)
        threads = common.ordered_unique(m.num_threads for m in results)
        names = common.ordered_unique((m.env or "", m.as_row_name) for m in results)
        cells = {(m.num_threads, (m.env or "", m.as_row_name), m.description or ""): m for m in results}
        head = results[0].label or ""
        rows = []
        for count, name in itertools.product(threads, names):
            row = []
            for column in columns:
                m = cells.get((count, name, column))
                if m is None:
                    row.append("")
                    continue
                value = m.median / scale
                value = common.trim_sigfig(value, m.significant_figures) if self._trim else value
                row.append("%.1f" % value)
            if any(row):
                rows.append((count, ("[%s] " % name[0] if name[0] else "") + name[1], row))
        first = max([len(r[1]) for r in rows] + [len("1 threads: ----")]) + 6
        widths = [max([len(c)] + [len(r[2][i]) for r in rows]) + 2 for i, c in enumerate(columns)]
        line = " " * first + "|" + "|".join(c.center(w + 2) for c, w in zip(columns, widths))
        bar = "[" + (" %s " % head).center(len(line) - 2, "-") + "]"
        out, shown = [bar, line], None
        for count, name, row in rows:
            if count != shown:
                out.append(("%d threads: " % count).ljust(len(line), "-"))
                shown = count
            out.append(("      " + name).ljust(first) + "|" + "|".join(v.rjust(w) + "  " for v, w in zip(row, widths)))
        out += ["", "Times are in %ss (%s)." % (common.unit_to_english(unit), unit), ""]
        return "\n".join(out)
