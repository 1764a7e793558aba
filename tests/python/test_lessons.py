"""Programs in the manner of PyTorch's tutorials (lessons/*.py) print what they print under PyTorch 2.13 (lessons/*.txt).

They import torch and run unchanged as `python -m rushlight lesson.py`. The last printed digit of a number may be off by
one, since other processors add in another order; everything else is the same text. To record what PyTorch prints:
OMP_NUM_THREADS=1 python -W ignore lesson.py >lesson.txt
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent / "lessons"
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?:e[-+]\d+)?")


def unit(text):
    """The value of a number's last digit."""
    digits, _, exponent = text.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


@pytest.mark.parametrize("lesson", sorted(p.stem for p in FOLDER.glob("*.py")))
def test_lesson(lesson):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-m", "rushlight", FOLDER / (lesson + ".py")], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    want = (FOLDER / (lesson + ".txt")).read_text(encoding="utf-8")
    assert NUMBER.sub("#", done.stdout).split() == NUMBER.sub("#", want).split()
    for x, y in zip(NUMBER.findall(done.stdout), NUMBER.findall(want)):
        assert x == y or abs(float(x) - float(y)) <= 1.01 * max(unit(x), unit(y)), (x, y)
