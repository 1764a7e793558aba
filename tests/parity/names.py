"""Which names that real programs use are there: names.py API.TSV [--missing N]

API.TSV has the columns kind, name (without "torch."), programs, uses. Names are looked up, nothing is called.
"""
import argparse
import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import rushlight as torch  # noqa: E402


def found(name):
    """Whether a dotted name leads somewhere: attributes first, then submodules."""
    value, path = torch, "rushlight"
    for part in name.split("."):
        path += "." + part
        try:
            value = getattr(value, part)
            continue
        except (AttributeError, NotImplementedError, ImportError):
            value = None    # perhaps a submodule that nothing has imported yet
        try:
            value = importlib.import_module(path)
        except ImportError:
            return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table")
    parser.add_argument("--missing", type=int, default=40, help="how many missing names to print")
    options = parser.parse_args()
    rows = []
    with open(options.table) as f:
        next(f)
        for line in f:
            kind, name, programs, _ = line.rstrip("\n").split("\t")[:4]
            rows.append((int(programs), name, kind))
    missing = []
    for programs, name, kind in rows:
        if not found(name):
            missing.append((programs, name, kind))
    for least in (1, 2, 5, 20):
        total = sum(1 for row in rows if row[0] >= least)
        lost = sum(1 for row in missing if row[0] >= least)
        print("names used by >= %2d programs: %4d of %4d there (%.1f%%)" % (least, total - lost, total,
                                                                           100 * (total - lost) / max(total, 1)))
    for programs, name, kind in sorted(missing, reverse=True)[:options.missing]:
        print("missing %3d %-14s %s" % (programs, kind, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
