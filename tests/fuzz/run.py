#!/usr/bin/env python3
"""Run the fuzz targets one after the other: tests/fuzz/run.py --build build-fuzz --seconds 60 [--python PYTHON] [NAME...]

PYTHON has NumPy and makes the seeds (corpus.py). What a target finds is left beside it as NAME-crash-..., NAME-oom-... or
NAME-timeout-...; a table of seconds, executions and findings comes last. Inputs that reached something new are kept in
found/NAME, from which the next run goes on.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KNOWN = ROOT / "tests" / "data" / "fuzz"    # inputs that once were findings: NAME/..., run first
SANITIZERS = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
LIMITS = ["-rss_limit_mb=2500", "-malloc_limit_mb=700", "-max_len=16384", "-timeout=25", "-report_slow_units=25", "-print_final_stats=1"]


def run(build, name, seconds):
    """(seconds, executions, findings) of one target; after a finding it goes on."""
    found, corpus, known = build / "found" / name, build / "corpus" / name, KNOWN / name
    found.mkdir(parents=True, exist_ok=True)
    before = set(build.glob(f"{name}-*"))
    start, executions = time.time(), 0
    while True:
        left = int(seconds - (time.time() - start))
        if left <= 0:
            break
        done = subprocess.run([build / "tests" / f"fuzz_{name}", f"-max_total_time={left}", *LIMITS, "-verbosity=0",
                               f"-artifact_prefix={build}/{name}-", found, corpus, *[p for p in [known] if p.is_dir()]],
                              text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, **SANITIZERS})
        ran = re.search(r"number_of_executed_units: (\d+)", done.stdout)
        executions += int(ran.group(1)) if ran else 0
        if not done.returncode:
            break
        print(done.stdout[-8000:], flush=True)
        if len(set(build.glob(f"{name}-*")) - before) >= 8 or not ran and not set(build.glob(f"{name}-*")) - before:
            break
    return time.time() - start, executions, sorted(p.name for p in set(build.glob(f"{name}-*")) - before)


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--build", type=pathlib.Path, default=ROOT / "build-fuzz")
    cli.add_argument("--seconds", type=int, default=60)
    cli.add_argument("--python", default=sys.executable)
    cli.add_argument("names", nargs="*")
    args = cli.parse_args()
    build = args.build.resolve()
    subprocess.run([args.python, HERE / "corpus.py", build / "corpus"], env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, check=True)
    table = {}
    for path in sorted(HERE.glob("*.c")):
        if not args.names or path.stem in args.names:
            table[path.stem] = run(build, path.stem, args.seconds)
            print("%-12s %6d s %12d executions   %s" % (path.stem, *table[path.stem][:2], ", ".join(table[path.stem][2]) or "no finding"), flush=True)
    return any(bad for _, _, bad in table.values()) or not table


if __name__ == "__main__":
    sys.exit(main())
