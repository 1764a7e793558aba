#!/usr/bin/env python3
"""Run packages written for PyTorch, as they come from the index, on rushlight, and compare with PyTorch where it is.

    tests/packages.py [--venv FOLDER] [--oracle PYTHON] [NAME...]

The packages are installed without their dependencies (PyTorch would be one) into a virtual environment, on first use.
Every check prints ok, or what went wrong. --oracle is an interpreter with PyTorch: the same checks run there, on the
same packages, and the numbers are compared. docs/packages.md says what the outcome was.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHOUT_DEPENDENCIES = ["torchvision", "torchaudio", "torchmetrics", "safetensors", "torchinfo", "torchdata"]
THEIR_NEEDS = ["numpy", "pillow", "packaging", "typing_extensions", "lightning-utilities", "requests"]


def prepare(home):
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run(pip + THEIR_NEEDS, check=True)
        subprocess.run(pip + ["--no-deps"] + WITHOUT_DEPENDENCIES, check=True)
        (home / "complete").touch()
    return python


def run(command, names, env):
    """{check: [sums] or an error's text} of package_checks.py under one interpreter."""
    done = subprocess.run(command + [str(ROOT / "tests" / "package_checks.py")] + names, env=env, stdout=subprocess.PIPE, text=True)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    if done.returncode:
        found["(the checks themselves)"] = "ended with %d" % done.returncode
    return found


def close(a, b):
    """Sums of numbers agree to what float32 and a pixel's rounding allow."""
    return len(a) == len(b) and all(x[0] == y[0] and abs(x[1] - y[1]) <= 2e-3 * max(1, abs(y[1])) + 1e-3 for x, y in zip(a, b))


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "packages")
    cli.add_argument("--oracle")
    cli.add_argument("names", nargs="*")
    args = cli.parse_args()
    python = prepare(args.venv)
    ours = run([str(python), "-m", "rushlight"], args.names, {**os.environ, "PYTHONPATH": str(ROOT / "python")})
    theirs = {}
    if args.oracle:
        site, = args.venv.glob("lib/python*/site-packages")
        theirs = run([args.oracle], args.names, {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"})
    failed = 0
    for name, got in ours.items():
        wanted = theirs.get(name)
        if isinstance(got, str):
            if isinstance(wanted, str):
                verdict = "same error as PyTorch: " + got
            else:
                verdict, failed = "FAIL " + got, failed + 1
        elif args.oracle and isinstance(wanted, list):
            verdict = "ok, PyTorch's numbers" if close(got, wanted) else "FAIL other numbers than PyTorch's: %s, not %s" % (got, wanted)
            failed += verdict.startswith("FAIL")
        else:
            verdict = "ok"
        print("%-44s %s" % (name, verdict))
    print("%d checks, %d failed" % (len(ours), failed))
    return failed != 0 or not ours


if __name__ == "__main__":
    sys.exit(main())
