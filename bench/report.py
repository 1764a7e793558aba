#!/usr/bin/env python3
"""Put measured ratios into docs/performance.md, and draw how cost grows with size.

    bench/report.py RESULTS.json...          the tables between the marks of docs/performance.md
    bench/report.py --plot DIRECTORY RESULTS.json   SVG pictures of the program `scaling`

RESULTS come from `bench/ratios.py --json`. The document is text with one pair of marks for each program:
<!-- calls --> ... <!-- end -->.
"""
import argparse
import json
import math
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
COLOURS = {"PyTorch": "#c0504d", "rushlight": "#2e75b6"}


def number(x):
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


def table(rows):
    lines = ["| case | PyTorch | rushlight | | ratio |", "| --- | ---: | ---: | --- | ---: |"]
    ratios = []
    for name, row in rows.items():
        if "ratio" not in row:
            continue
        ratios.append(row["ratio"])
        lines.append(f"| {name} | {number(row['peer'])} | {number(row['ours'])} | {row['unit']} | {row['ratio']:.2f} |")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return "\n".join([*lines, "", f"Geometric mean {mean:.2f}, worst {min(ratios):.2f}, of {len(ratios)}."])


def lagging_table(rows):
    """Of `breadth`, whose cases are many: those that PyTorch is faster at."""
    ratios = sorted(row["ratio"] for row in rows.values() if "ratio" in row)
    slow = dict(sorted(((n, r) for n, r in rows.items() if r.get("ratio", 1) < 0.95), key=lambda item: item[1]["ratio"]))
    lines = table(slow).split("\n")[:-1] if slow else []
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return "\n".join([*lines, f"Geometric mean of all {len(ratios)} cases {mean:.2f}, median {ratios[len(ratios) // 2]:.2f}, worst {ratios[0]:.2f}."])


def growth_table(rows):
    """Of `scaling`: a line per size, the time at one and at two threads and the ratio to PyTorch."""
    cells = {}
    for name, row in rows.items():
        what, size, threads = name.rsplit(", ", 2)
        cells.setdefault(f"{what}, {size}", {})[threads[0]] = row
    lines = ["| case | 1 thread, us | ratio | 2 threads, us | ratio |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, by in cells.items():
        shown = " | ".join(f"{number(by[t]['ours'])} | {by[t]['ratio']:.2f}" if t in by else "|" for t in "12")
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


def fill(results):
    text = PAGE.read_text()
    for program, rows in results.items():
        made = {"scaling": growth_table, "breadth": lagging_table}.get(program, table)(rows)
        text, n = re.subn(rf"(<!-- {program} -->\n).*?(<!-- end -->)", lambda m: m[1] + made + "\n" + m[2], text, flags=re.S)
        if not n:
            raise SystemExit(f"{PAGE} has no place for {program}")
    PAGE.write_text(text)


def series(rows, what, threads):
    """[(size, PyTorch's microseconds, ours)] of the cases of one kind."""
    points = []
    for name, row in rows.items():
        kind, size, by = name.rsplit(", ", 2)
        if kind == what and by.startswith(str(threads)):
            points.append((int(re.search(r"\d+", size)[0]), row.get("peer"), row["ours"]))
    return sorted(points)


def picture(what, points, threads):
    """Both axes logarithmic: size to the right, microseconds upwards."""
    wide, high, left, low = 460, 300, 60, 40
    xs = [math.log10(max(n, 1)) for n, _, _ in points]
    ys = [math.log10(v) for _, a, b in points for v in (a, b) if v]
    x0, x1, y0, y1 = min(xs), max(max(xs), min(xs) + 1), math.floor(min(ys)), math.ceil(max(ys))

    def place(x, y):
        return f"{left + (x - x0) / (x1 - x0) * (wide - left - 20):.1f},{high - low - (y - y0) / (y1 - y0) * (high - low - 30):.1f}"

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="{left}" y="18">{what}, {threads} thread(s): microseconds by size</text>']
    for y in range(y0, y1 + 1):
        a, b = place(x0, y).split(","), place(x1, y).split(",")
        out += [f'<line x1="{a[0]}" y1="{a[1]}" x2="{b[0]}" y2="{b[1]}" stroke="#ddd"/>', f'<text x="8" y="{a[1]}">{10.0**y:g}</text>']
    for x in range(math.ceil(x0), math.floor(x1) + 1):
        a = place(x, y0).split(",")
        out.append(f'<text x="{a[0]}" y="{high - 20}" text-anchor="middle">{10**x:g}</text>')
    for k, (label, colour) in enumerate(COLOURS.items()):
        line = [place(x, math.log10(p[k + 1])) for x, p in zip(xs, points) if p[k + 1]]
        out += [f'<polyline points="{" ".join(line)}" fill="none" stroke="{colour}" stroke-width="2"/>',
                f'<text x="{wide - 90}" y="{40 + 15 * k}" fill="{colour}">{label}</text>']
    return "\n".join([*out, "</svg>\n"])


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("results", nargs="+")
    args.add_argument("--plot")
    opt = args.parse_args()
    results = {}
    for path in opt.results:
        results.update(json.loads(Path(path).read_text()))
    if not opt.plot:
        fill(results)
        return
    rows, folder = results["scaling"], Path(opt.plot)
    folder.mkdir(parents=True, exist_ok=True)
    for what in dict.fromkeys(name.rsplit(", ", 2)[0] for name in rows):
        for threads in (1, 2):
            points = series(rows, what, threads)
            if points:
                (folder / f"{what.split(',')[0].replace(' ', '-')}-{threads}.svg").write_text(picture(what, points, threads))


if __name__ == "__main__":
    main()
