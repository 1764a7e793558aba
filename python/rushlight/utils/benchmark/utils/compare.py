"""Compare: measurements as a table, one column per description."""
import enum
import itertools
import math

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
        names = common.ordered_unique((m.env or "", m.as_row_name) for m in results)
        cells = {(m.num_threads, (m.env or "", m.as_row_name), m.description or ""): m for m in results}
        rows = [(count, name) for count, name in itertools.product(common.ordered_unique(m.num_threads for m in results), names)
                if any((count, name, column) in cells for column in columns)]
        titles = ["  %s  %s" % ("(%s)" % env if env else "  ", name) for _, (env, name) in rows]
        first = max(map(len, titles)) + 2
        texts, line = [], " " * first
        for column in columns:
            of_it = [cells.get((count, name, column)) for count, name in rows]
            shown = self._numbers(of_it, scale)
            width = max(len(column), *map(len, shown))
            line += "|  " + column.center(width) + "  "
            texts.append([self._coloured(v.center(width), m, self._rivals(m, of_it, cells)) for v, m in zip(shown, of_it)])
        line = line[:-2]
        out, now = ["[" + (" %s " % (results[0].label or "")).center(len(line) - 2, "-") + "]", line], None
        for i, (count, _) in enumerate(rows):
            if count != now:
                out.append(("%d threads: " % count).ljust(len(line), "-"))
                now = count
            out.append(titles[i].ljust(first) + "|  " + "  |  ".join(column[i] for column in texts))
        out += ["", "Times are in %ss (%s)." % (common.unit_to_english(unit), unit)]
        if self._highlight and any(m.has_warnings for m in results):
            out.append("(! XX%) Measurement has high variance, where XX is the IQR / median * 100.")
        return "\n".join([*out, ""])

    def _numbers(self, column, scale):
        """The medians of a column, one below the other, with how much they vary where that is asked for and much."""
        known = [m for m in column if m is not None]
        digits = 1 if not self._trim else min(max(m.significant_figures - math.ceil(math.log10(m.median / scale)), 0) for m in known)
        values = ["" if m is None else "%.*f" % (digits, common.trim_sigfig(m.median / scale, m.significant_figures) if self._trim else m.median / scale) for m in column]
        width = max(map(len, values))
        if self._highlight and any(m.has_warnings for m in known):
            return [v if m is None else v.rjust(width) + (" (! %.0f%%)" % (m.iqr / m.median * 100) if m.has_warnings else " " * 7) for v, m in zip(values, column)]
        return [v if m is None else v.rjust(width) for v, m in zip(values, column)]

    def _rivals(self, m, column, cells):
        if self._color == Colorize.COLUMNWISE or m is None:
            return column
        return [other for (count, name, _), other in cells.items() if (count, name) == (m.num_threads, (m.env or "", m.as_row_name))]

    def _coloured(self, text, m, rivals):
        """Green and bold: the best, or as good; blue: a tenth slower at most; red: twice as slow, or five times."""
        if self._color == Colorize.NONE or m is None:
            return text
        best = min(other.median for other in rivals if other is not None)
        if m.median <= max(best * 1.01, best + 100e-9):
            style = "\033[92m\033[1m"
        elif m.median <= best * 1.1:
            style = "\033[34m\033[1m"
        elif m.median >= best * 5:
            style = "\033[31m\033[1m"
        elif m.median >= best * 2:
            style = "\033[2m\033[91m"
        else:
            return text
        return style + text + "\033[0m\033[0m"
