"""What README shows is run as it stands there: the Python program, the C program, and the commands' names."""
import os
import re
import shutil
import subprocess
import sys

import pytest
from places import BUILD, ROOT

README = (ROOT / "README.md").read_text()


def block(language):
    return re.search(r"```%s\n(.*?)```" % language, README, re.S).group(1)


def run(command, **env):
    done = subprocess.run([str(c) for c in command], env=dict(os.environ, **env), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_python_program():
    printed = run([sys.executable, "-c", block("python")])
    assert printed == "tensor([0., 0., 0., 1., 2.])\n"


def test_c_program(tmp_path):
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    source, program = tmp_path / "prog.c", tmp_path / "prog"
    source.write_text(block("c"))
    found = {"PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled")}
    flags = run(["pkg-config", "--cflags", "--libs", "rushlight"], **found).split()
    run(["cc", source, *flags, "-o", program])
    assert run([program], LD_LIBRARY_PATH=str(BUILD)) == "tensor([2., 4., 6.])\n"


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_make_targets_and_files_exist():
    targets = run(["make", "-C", ROOT, "--no-print-directory", "help"])
    for name in re.findall(r"`?make (\w+)", README):
        assert name == "help" or f"make {name}" in targets
    for path in re.findall(r"`((?:src|docs|include|python|tests)/[\w/.]+)`", README):
        if path != "src/graph":     # said to be planned
            assert (ROOT / path).exists(), path


def test_ways_to_say_torch(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import torch\nprint(torch.ones(2).sum().item())\n")
    assert run([sys.executable, "-m", "rushlight", program]) == "2.0\n"
    program.write_text("import rushlight.as_torch\n" + program.read_text())
    assert run([sys.executable, program]) == "2.0\n"
