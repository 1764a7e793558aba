#!/usr/bin/env python3
"""Check what the house keeps to: no function of the C sources or of the package is longer than a hundred lines, the road that every
operation takes stays a file that one reads at a sitting, what the library prints and reads is the same in every locale, sources have no tabs, no blanks at the ends of lines and one newline at their end,
and every file that git keeps has a name that someone gave it.

    tests/style.py [--write]

--write mends the blanks (`make fmt`). How lines are broken and aligned is left to who writes them: rows of tables and pairs of
similar lines are to be read side by side.
"""
import ast
import pathlib
import re
import shutil
import subprocess
import sys

from formula import ROOT, closing, without_text

LONGEST = 100
SOURCES = ["include", "src", "python/_C", "tests/c", "examples"]
SUFFIXES = {".c", ".h", ".inc", ".def", ".cc", ".cu"}
FILES = {"src/api/call.c": 250}
HEAD = re.compile(r"^[A-Za-z_][^\n;={}#]*\b(\w+)\s*\([^;{}#]*\)\s*\{", re.M)
# toupper(c), strtod(s), snprintf(s, n, "%g", x); not "%.0f"
LOCAL = re.compile(r"(?<!\w)(?:(?:toupper|tolower|strtof|strtod|atof)\(|v?(?:sn|f|as)printf\([^;]*?%[-+ #0]*[\d*]*(?!\.0f)(?:\.[\d*]+)?l?[eEfgGa])")


def functions(path):
    """(name, line, lines) of each function that is written out in a file."""
    text = without_text(path.read_text())
    for head in HEAD.finditer(text):
        line = text.count("\n", 0, head.start()) + 1
        yield head.group(1), line, text.count("\n", 0, closing(text, head.end() - 1)) + 2 - line


def python_functions(path):
    """The same of a file of Python; what is inside of a function counts for it, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno + 1 - node.lineno


def tidy(text):
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    tabs = re.compile("^[ \t]*\t[ \t]*")
    return "\n".join(tabs.sub(lambda m: m.group().expandtabs(4), line) for line in lines).rstrip("\n") + "\n"


def blanks(write):
    """The sources whose blanks are not as they should be; mended, if that is wanted."""
    found = []
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and tidy(text := path.read_text()) != text:
                found.append(f"{path.relative_to(ROOT)}: tabs, blanks at ends of lines, or no newline at the end (make fmt)")
                if write:
                    path.write_text(tidy(text))
    return [] if write else found


def asks_the_locale():
    """Calls in the library of what writes 1,5 in German or knows no capital I of i in Turkish: base/text.h has it without. The command sets no locale."""
    for folder in ("src", "python/_C"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in SUFFIXES and not name.startswith(("src/cmd/", "src/serve/", "src/base/text.")):
                text = path.read_text()
                for call in LOCAL.finditer(text):
                    yield f"{name}:{text.count(chr(10), 0, call.start()) + 1}: {call.group()[:60]} is another in other locales (base/text.h)"


def strays():
    """Files in git with names like `<_io.BytesIO object at 0x7f...>`, which programs that take a buffer for a path leave behind."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        for name in subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True).stdout.split("\0"):
            if re.search(r"[^\w./+-]", name):
                yield f"{name!r}: not a file's name"


def main():
    wrong, seen = blanks("--write" in sys.argv) + list(asks_the_locale()) + list(strays()), 0
    files = [(path, functions) for folder in SOURCES for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".c", ".h", ".inc")]
    files += [(path, python_functions) for path in sorted((ROOT / "python" / "rushlight").rglob("*.py"))]
    for path, found in files:
        for name, line, lines in found(path):
            seen += 1
            if lines > LONGEST:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {name} has {lines} lines")
    for file, most in FILES.items():
        lines = len((ROOT / file).read_text().splitlines())
        if lines >= most:
            wrong.append(f"{file} has {lines} lines: it is to stay below {most}")
    assert seen > 10000, f"only {seen} functions were found"
    print("\n".join(wrong) or f"style: {seen} functions, none longer than {LONGEST} lines")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
