#!/usr/bin/env python3
"""Check that shape rules, composites and derivatives are formulas: they call operations and read sizes, never memory.

    tests/formula.py

What computes on memory is a kernel; a graph, a tracer and a device other than the CPU must be able to see or replace it. This
finds, in the C sources, the functions that `.shape`, `.run`, `.open` and `.grad` of records reach, and in them the words that
touch memory.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["src/ops", "src/sparse", "src/optim", "src/nn"]
# Pointers to elements, elements as numbers, loops and the tables of kernels.
FORBIDDEN = re.compile(r"\brush_(?:ptr|data|item|item_int|k_\w+|parallel_for|iterate|iter_init|iter_run|lines|walk_\w+)\b|storage\s*->\s*data\b")
WORD = re.compile(r"(?<![\w.])(?<!->)[A-Za-z_]\w*")  # of members, only the structure
NOT_FUNCTIONS = {"if", "for", "while", "switch", "return", "sizeof", "__attribute__", "defined", "_Alignas"}


def without_text(source):
    """Without comments and without what strings say; lines stay where they are."""
    blank = lambda found: "\n" * found.group().count("\n") if found.group().startswith("/") else '""' if found.group()[0] == '"' else "0"
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, source, flags=re.S)


def closing(text, at):
    """Where the bracket at text[at] is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if not depth:
            return i
    return len(text) - 1


def arguments(text):
    """What stands between commas that no bracket encloses."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append(text[begin:i])
            begin = i + 1
    return [p.strip() for p in [*parts, text[begin:]]]


class Source:
    """One file: bodies of functions, initialisers and macros by name; what its records name."""

    def __init__(self, path):
        self.path, self.bodies, self.shared, self.roots, self.kernels = path, {}, set(), set(), set()
        text = without_text(path.read_text())
        self.macros = {}
        for name, parameters, body in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?((?:[^\n]*\\\n)*[^\n]*)", text, flags=re.M):
            self.macros[name] = (arguments(parameters[1:-1]) if parameters else None, body.replace("\\\n", "\n"))
            self.bodies[name] = body
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda found: "\n" * found.group().count("\n"), text, flags=re.M)
        self.read(text)

    def expanded(self, name, inside):
        parameters, body = self.macros[name]
        given = dict(zip(parameters, arguments(inside)))
        if parameters[-1:] == ["..."]:
            given["__VA_ARGS__"] = ", ".join(arguments(inside)[len(parameters) - 1:])
        body = re.sub(r"\s*##\s*", "\1", body)
        return re.sub(r"[A-Za-z_]\w*", lambda word: given.get(word.group(), word.group()), body).replace("\1", "")

    def read(self, text):
        """Walks what stands outside of functions."""
        at = 0
        while found := re.compile(r"(\w+)\s*(?=[({])|(\w+)(?:\s*\[[^\]]*\])*(?:\s*__attribute__\s*\(\(.*?\)\))?\s*=(?=[^=])|;").search(text, at):
            name, variable, end = found.group(1), found.group(2), found.end()
            if variable:
                stop = end
                while stop < len(text) and text[stop] != ";":
                    stop = closing(text, stop) + 1 if text[stop] in "([{" else stop + 1
                self.initialiser(variable, text[end:stop])
                at = stop
            elif name and text[end] == "(" and name not in NOT_FUNCTIONS:
                close = closing(text, end)
                after = re.compile(r"\s*\{").match(text, close + 1)
                if after:
                    stop = closing(text, after.end() - 1)
                    self.bodies[name] = text[after.end():stop]
                    line = text.rfind("\n", 0, found.start()) + 1
                    if "static" not in text[line:found.start()] or self.path.suffix == ".h":
                        self.shared.add(name)
                    at = stop + 1
                elif name in self.macros and self.macros[name][0] is not None:
                    self.read(self.expanded(name, text[end + 1:close]) + ";")
                    at = close + 1
                else:
                    at = close + 1
            elif name and text[end] == "{":
                at = closing(text, end) + 1
            else:
                at = end

    def initialiser(self, variable, value):
        for word in list(self.macros):  # .shape and others may stand in a macro of fields
            parameters, body = self.macros[word]
            if re.search(r"\.(?:shape|run|grad|open)\s*=", body):
                for use in re.finditer(rf"\b{word}\b(\s*\()?", value):
                    inside = value[use.end():closing(value, use.end() - 1)] if use.group(1) and parameters is not None else ""
                    value += " " + (self.expanded(word, inside) if parameters is not None else body)
        self.bodies[variable] = value
        roots = re.findall(r"\.(?:shape|run|grad|open)\s*=\s*&?(\w+)", value)
        kernels = re.findall(r"\.(?:cpu|meta|cuda)\s*=\s*&?(\w+)", value)
        self.roots.update(roots)
        if roots and not kernels:  # what its row names runs in the formula, too
            self.roots.update(re.findall(r"\.row\s*=\s*&?(\w+)", value))
            for row in re.finditer(r"\.row\s*=\s*&?\(", value):
                brace = value.find("{", row.end())
                self.roots.update(WORD.findall(value[brace:closing(value, brace)]))


def reached(sources):
    """(file, function) of everything that formulas reach."""
    shared = {name: source for source in sources for name in source.shared}
    todo = [(source, name) for source in sources for name in source.roots]
    seen = set()
    while todo:
        source, name = todo.pop()
        if name not in source.bodies:
            source = shared.get(name)
        if source is None or (source, name) in seen:
            continue
        seen.add((source, name))
        for word in set(WORD.findall(source.bodies[name])):
            if word != name and (word in source.bodies or word in shared):
                todo.append((source, word))
    return seen


def main():
    sources = [Source(path) for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.[ch]"))]
    seen, wrong = reached(sources), []
    for source, name in seen:
        words = FORBIDDEN.findall(source.bodies[name])
        if words:
            wrong.append(f"{source.path.relative_to(ROOT)}: {name}: {' '.join(words)}")
    assert len(seen) > 1500, f"only {len(seen)} functions were found"
    print("\n".join(sorted(wrong)) or f"formulas: {len(seen)} functions, none touches memory")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
