"""The headers for C and C++ programs: nothing is warned of, by gcc and clang, and what the typed functions promise holds."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RUSHLIGHT_BUILD", ROOT / "build"))
INCLUDE = ["-I", str(ROOT / "include"), "-I", str(BUILD / "include")]
LINK = ["-L", str(BUILD), "-lrushlight", "-Wl,-rpath," + str(BUILD)]
STRICT = ["-Wall", "-Wextra", "-Werror"]


def sanitizers():
    """The flags of the library at hand: a program needs the same."""
    told = (BUILD / "build.ninja").read_text() if (BUILD / "build.ninja").exists() else ""
    return re.findall(r"-fsanitize=[\w,]+", told)[:1]


def compiled(compiler, *flags, text=None):
    """Compiles, or only checks; warnings are errors."""
    if not shutil.which(compiler):
        pytest.skip(compiler + " is not installed")
    done = subprocess.run([compiler, *STRICT, *map(str, flags), *INCLUDE], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def printed(compiler, standard, source, program):
    """What a program prints. Of clang, which may have no runtime of the library's sanitizers, that it compiles is enough."""
    compiled(compiler, standard, *sanitizers(), source, *LINK, "-o", program)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("compiler, standard, source", [("gcc", "-std=gnu11", "typed.c"), ("g++", "-std=c++17", "typed.cpp")])
def test_typed(compiler, standard, source, tmp_path):
    assert printed(compiler, standard, ROOT / "tests" / "cpp" / source, tmp_path / "program") == "fine\n"


@pytest.mark.parametrize("compiler, standard, source", [("clang", "-std=gnu11", "typed.c"), ("clang++", "-std=c++17", "typed.cpp"), ("g++", "-std=c++20", "typed.cpp")])
def test_typed_compiles(compiler, standard, source):
    compiled(compiler, standard, "-fsyntax-only", ROOT / "tests" / "cpp" / source)


def test_torch_headers(tmp_path):
    folders = [f"-I{top}/include/rushlight/cpp" for top in (ROOT, BUILD)]
    compiled("g++", "-std=c++17", *sanitizers(), *folders, ROOT / "tests" / "cpp" / "torch.cpp", *LINK, "-o", tmp_path / "program")
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True)
    assert done.stdout + done.stderr == "fine\n"


def test_readme_as_cpp(tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text(re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1))
    assert printed("g++", "-std=c++17", source, tmp_path / "program") == "tensor([2., 4., 6.])\n"


@pytest.mark.parametrize("compiler, flags", [("gcc", "-x c -std=gnu11 -Wshadow"), ("clang++", "-x c++ -std=c++11")])
def test_each_header_alone(compiler, flags):
    text = "".join(f"#include <rushlight/{h.name}>\n" for h in sorted((ROOT / "include/rushlight").glob("*.h")))
    compiled(compiler, *flags.split(), "-fsyntax-only", "-", text=text)


def test_examples_compile_without_a_warning():
    compiled("gcc", "-std=gnu11", "-Wno-unused-parameter", "-fsyntax-only", "-I", ROOT / "src", *sorted((ROOT / "examples").rglob("*.c")))
