"""Memory does not grow with the number of different shapes seen: bench/growth.py over fewer of them."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc")
def test_shapes_do_not_pile_up():
    done = subprocess.run([sys.executable, "-m", "rushlight", str(ROOT / "bench" / "growth.py"), "3000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["value"] < 32
