"""The documents as a site: links lead somewhere, names are found; what the guides show is run, and prints what they say."""
import os
import re
import shutil
import subprocess
import sys

import pytest
from places import BUILD, ROOT

GUIDES = sorted((ROOT / "docs/guide").glob("*.md"))
SANITIZED = (BUILD / "build.ninja").exists() and "-fsanitize=" in (BUILD / "build.ninja").read_text()


def blocks(path):
    """(language, program, what it prints or None) of each block; those of Python go on where the one before ended."""
    found = re.findall(r"^```(\w+)\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", path.read_text(), re.M | re.S)
    return [(language, program, printed) for language, program, printed in found if language != "text"]


@pytest.mark.parametrize("path", GUIDES, ids=lambda p: p.stem)
def test_snippets(path, tmp_path):
    """Those of Python first, as one program: what they write, those of C may read."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = blocks(path)
    python = "".join(program for language, program, _ in found if language == "python")
    if python:
        prints(tmp_path, "".join(printed or "" for language, _, printed in found if language == "python"), sys.executable, "-c", python)
    for number, (language, program, printed) in enumerate(found):
        if language == "python" or SANITIZED:
            continue
        compiler, *standard = {"c": ("gcc", "-std=gnu11"), "cpp": ("g++", "-std=c++17")}[language]
        if not shutil.which(compiler) or not (BUILD / "librushlight.so").exists():
            continue
        source = tmp_path / f"{number}.{language}"
        source.write_text(program)
        subprocess.run([compiler, *standard, "-Wall", "-Wextra", "-Werror", source, "-I", ROOT / "include", "-I", BUILD / "include", "-L", BUILD, "-lrushlight",
                        f"-Wl,-rpath,{BUILD}", "-o", tmp_path / str(number)], check=True)
        prints(tmp_path, printed, tmp_path / str(number))


def prints(folder, expected, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.stdout == expected, done.stdout + done.stderr


@pytest.mark.skipif(not (BUILD / "rushlight").exists(), reason="there is no build folder")
def test_site(tmp_path):
    done = subprocess.run([sys.executable, ROOT / "tools/site", BUILD, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0 and " 0 links lead nowhere" in done.stdout, done.stdout + done.stderr[-2000:]
    index = (tmp_path / "index.js").read_text()
    for name in ('"conv2d"', '"rush_conv2d"', '"torch.nn.Linear"', '"rush_loader_next"', '"A first network in C"'):
        assert name in index, name
    page = (tmp_path / "ops/c.html").read_text()
    assert 'id="conv2d"' in page and "rush_conv2d(input, weight, .bias = NULL" in page and "torch.cumsum(torch.tensor" in page
    if shutil.which("node"):    # the search itself, with as much of a browser as it asks for
        program = """
const fs = require('fs'), list = [];
const element = () => ({addEventListener() {}, append(...x) { this.parts = x; }, set innerHTML(x) { list.length = 0; }});
const box = {value: '', addEventListener(_, f) { this.input = f; }};
global.document = {addEventListener() {}, querySelector: () => box, getElementById: () => ({addEventListener() {}, append: x => list.push(x), set innerHTML(x) { list.length = 0; }}),
                   body: {dataset: {base: ''}}, createElement: element};
global.location = {search: ''};
eval(fs.readFileSync('index.js', 'utf8') + fs.readFileSync('search.js', 'utf8') +
     "box.value = 'CONV2D'; show(); console.log(list[0].parts[0].textContent, list[0].parts[0].href, list.length > 3)");
"""
        done = subprocess.run(["node", "-e", program], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "conv2d ops/c.html#conv2d true\n", done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("chromium") or not (BUILD / "rushlight").exists(), reason="chromium is not installed, or there is no build folder")
def test_search_in_a_browser(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/site", BUILD, tmp_path / "site"], check=True, capture_output=True)
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}  # the sanitizers are for the library, not for a browser
    page = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=%s" % (tmp_path / "user"), "--virtual-time-budget=5000",
                           "--dump-dom", "file://%s?q=conv2d" % (tmp_path / "site/guide/c.html")], env=env, capture_output=True, text=True, timeout=600).stdout
    assert re.search(r'<ul id="found"><li><a href="\.\./ops/c\.html#conv2d">conv2d</a>', page)
