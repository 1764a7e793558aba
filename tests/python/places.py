"""Where what is tested lies: in a build folder, or beside the package where that is installed, as from a wheel."""
import os
import pathlib

import pytest
import rushlight

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RUSHLIGHT_BUILD", ROOT / "build"))


def command(**how):
    """The command `rushlight`; skips the test where there is none."""
    package = pathlib.Path(rushlight.__file__).resolve().parent
    here = BUILD / "rushlight" if "RUSHLIGHT_BUILD" in os.environ or package.parent == ROOT / "python" else package / "bin" / "rushlight"
    if not here.is_file():
        pytest.skip(f"there is no {here}", **how)
    return str(here)
