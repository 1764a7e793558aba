#!/usr/bin/env python3
"""Ranks of PyTorch and of rushlight in one job: tests/parity/ranks.py ORACLE [--write]

Each job does the cases of tests/python/dist_cases.py; what every rank prints must be what ranks of PyTorch alone print. ORACLE is a Python
that has PyTorch. With --write, tests/python/dist.tsv is made of what PyTorch prints.
"""
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = ROOT / "tests" / "python" / "dist_cases.py"
JOBS = ["tt", "rt", "tr", "rr", "ttt", "trr", "rtr", "rrt", "rtt"]
LIMIT = 120


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(oracle, job):
    """A dict of case and values per rank: t is a rank of PyTorch, r one of rushlight."""
    url = f"tcp://127.0.0.1:{port()}"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([oracle if kind == "t" else sys.executable, CASES, "torch" if kind == "t" else "rushlight", url, str(r), str(len(job))],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=env if kind == "t" else {**env, "PYTHONPATH": str(ROOT / "python")}) for r, kind in enumerate(job)]
    out = []
    for r, p in enumerate(ranks):
        try:
            text, errors = p.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            p.kill()
            text, errors = p.communicate()
        if p.returncode:
            print(f"{job}: rank {r} ended with {p.returncode}: {errors[-600:]}")
        out.append(dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line))
    return out


def main():
    oracle, write = sys.argv[1], "--write" in sys.argv
    want, wrong, rows = {}, 0, []
    for job in ["tt", "ttt"] if write else JOBS:
        got = run(oracle, job)
        if set(job) == {"t"}:
            want[len(job)] = got
            rows += [f"{len(job)}\t{r}\t{case}\t{values}\n" for r, cases in enumerate(got) for case, values in cases.items()]
            continue
        bad = [(r, case) for r, cases in enumerate(want[len(job)]) for case in cases if got[r].get(case) != cases[case]]
        wrong += len(bad)
        print(f"{job}: {sum(map(len, got))} answers, {len(bad)} differ {bad[:5]}", flush=True)
    if write:
        (ROOT / "tests" / "python" / "dist.tsv").write_text("".join(rows))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
