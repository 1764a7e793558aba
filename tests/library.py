#!/usr/bin/env python3
"""What the library is as a whole: tests/library.py BUILD

Stripped it is below 12 MB, whatever instruction sets it carries; it takes little of the room that a process has for the thread-local
variables of libraries opened late; it exports nothing but rush_...; a program that includes
the header compiles in 0.3 s as C, in 0.8 s as C++, which compiles the functions with defaults; every folder of src has its page in docs, and the code
that docs/adding-an-operation.md shows is the library's.
"""
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def size(library, folder):
    subprocess.run(["strip", "-o", folder / "stripped.so", library], check=True)
    bytes_ = (folder / "stripped.so").stat().st_size
    assert bytes_ < 12e6, f"{bytes_ / 1e6:.1f} MB stripped"
    return f"{bytes_ / 1e6:.1f} MB stripped"


def thread_room(library):
    """Of the 1,664 bytes that glibc has for thread-local variables of all libraries that are opened late."""
    headers = subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout
    bytes_ = sum(int(line.split()[5], 16) for line in headers.splitlines() if line.split()[:1] == ["TLS"])
    assert bytes_ <= 400, f"{bytes_} bytes of thread-local variables: larger ones are for rush_of_thread()"
    return f"{bytes_} bytes in each thread"


def names(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.split("\n")
    exported = [line.split()[-1].split("@")[0] for line in listed if line and line.split()[1] in "TDBRVWi"]
    others = [name for name in exported if not name.startswith("rush_")]
    assert exported and not others, f"exported besides rush_: {others[:10]}"
    public, inner = set(), set()
    for path in [*(ROOT / "include").rglob("*.h*"), *(library.parent / "include").rglob("*.h")]:
        public |= set(re.findall(r"\brush_\w+", path.read_text()))
    for path in (ROOT / "src").rglob("*.h"):
        for line in re.findall(r"^(?:extern )?RUSH_PY .*", path.read_text(), re.M):
            inner.add(re.search(r"\brush_\w+(?=\)?[(;\[ ]*[(;\[])", line.replace("RUSH_QUICK_TLS", "")).group())
    unknown = set(exported) - public - inner - {"RUSHLIGHT_0"}
    assert not unknown, f"exported, but neither in a public header nor marked RUSH_PY: {sorted(unknown)[:10]}"
    extension = next((library.parent / "python").glob("_C.*.so"), None)
    if extension:
        users = [extension, library.parent / "rushlight", *library.parent.glob("librushlight_cuda.so")]
        wanted = "".join(subprocess.run(["nm", "-D", "--undefined-only", user], capture_output=True, text=True, check=True).stdout for user in users)
        asked = (ROOT / "tests/python/test_failing.py").read_text()  # makes allocations fail
        idle = inner - set(re.findall(r"\brush_\w+", wanted + asked))
        assert not idle, f"marked RUSH_PY, but neither the extension, nor the command, nor the CUDA part, nor a test asks for it: {sorted(idle)[:10]}"
    return f"{len(exported)} names exported, {len(inner)} of them for the extension"


def header(build, folder):
    said = []
    for name, compiler, limit in (("C", "gcc", 0.3), ("C++", "g++", 0.8)):
        if not shutil.which(compiler):
            continue
        source = folder / ("one.c" if name == "C" else "one.cpp")
        source.write_text("#include <rushlight.h>\nint main(void) { return rush_error() != 0; }\n")
        command = [compiler, "-c", source, "-o", folder / "one.o", "-I", ROOT / "include", "-I", build / "include", "-Wall", "-Werror"]
        best = 1e9
        for _ in range(5):  # the processor's time, since others may be at work
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert best < limit, f"including the header takes {best:.2f} s as {name}"
        said.append(f"{best:.2f} s to include as {name}")
    return ", ".join(said)


def pages():
    index = (ROOT / "docs" / "map.md").read_text()
    for folder in sorted(p.name for p in (ROOT / "src").iterdir() if p.is_dir()):
        page = ROOT / "docs" / f"{folder}.md"
        assert page.exists() and f"({folder}.md)" in index, f"src/{folder} has no page in docs, or docs/map.md does not link it"
    for page in sorted((ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"docs/{page.name} links {link}, which is not there"
    return "every folder has its page"


def code_in_docs():
    """What docs/adding-an-operation.md shows as the library's code is the library's code."""
    def plain(text):
        return " ".join(text.split())
    files = [p for folder in ("src", "examples", "tests") for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".def", ".tsv")]
    written = "\n".join(plain(p.read_text()) for p in files)
    for line in (ROOT / "docs" / "adding-an-operation.md").read_text().splitlines():
        if re.match(r"    \S|     ", line) and not line.strip().startswith(("cc ", "torch.ops.")):
            assert plain(line) in written, f"docs/adding-an-operation.md shows what is not there: {line.strip()}"
    return "shown code is real"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    library = build / "librushlight.so"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print("; ".join([size(library, folder), thread_room(library), names(library), header(build, folder), pages(), code_in_docs()]))


if __name__ == "__main__":
    main()
