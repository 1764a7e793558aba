#!/usr/bin/env python3
"""Check that a room of src/ includes only rooms before it: the order of the house, docs/map.md."""
import pathlib
import re
import sys

ORDER = ["base", "tensor", "kernels", "op", "autograd", "api", "ops", "cuda", "sparse", "nn", "optim", "data", "io", "script", "graph", "quant", "lm", "dist", "stable", "serve", "cmd"]
SAME_FLOOR = {frozenset(p) for p in (("tensor", "kernels"), ("nn", "optim"), ("data", "io"), ("base", "kernels"))}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent / "src"
    wrong = []
    for path in sorted(root.rglob("*.[ch]")):
        room = path.relative_to(root).parts[0]
        for line in path.read_text().splitlines():
            found = re.match(r'\s*#\s*include\s+"([a-z_]+)/', line)
            if not found or found.group(1) not in ORDER or room not in ORDER:
                continue
            other = found.group(1)
            if ORDER.index(other) > ORDER.index(room) and frozenset((room, other)) not in SAME_FLOOR:
                wrong.append(f"{path.relative_to(root.parent)} includes {other}/, which comes after {room}/")
    print("\n".join(wrong) or "include order: every room knows only those before it")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
