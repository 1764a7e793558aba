#!/usr/bin/env python3
"""Ranks of PyTorch and of rushlight in one job: tests/parity/ranks.py ORACLE [--write]

Each job does the cases of tests/python/dist_cases.py; what every rank prints must be what ranks of PyTorch alone print. Then they train together by
DistributedDataParallel (tests/python/ddp_cases.py): losses and weights of all ranks must be those of PyTorch alone, to 1e-5. ORACLE is a Python that
has PyTorch. With --write, tests/python/dist.tsv is made of what PyTorch prints.
"""
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES, TRAINED = (ROOT / "tests" / "python" / name for name in ("dist_cases.py", "ddp_cases.py"))
MODELS = ["mlp", "cnn", "unused", "hook", "no_sync", "norm"]
JOBS = ["tt", "rt", "tr", "rr", "ttt", "trr", "rtr", "rrt", "rtt"]
TRAINING = ["tt", "rt", "tr", "ttt", "rtr"]
LIMIT = 120


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(oracle, job, model=None):
    """A dict of case and values per rank (of a model: losses, by their number, and weights): t is a rank of PyTorch, r one of rushlight."""
    url = f"tcp://127.0.0.1:{port()}"
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([oracle if kind == "t" else sys.executable, TRAINED if model else CASES, "torch" if kind == "t" else "rushlight", *[model] * bool(model),
                               url, str(r), str(len(job))], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
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
        pairs = [line.split("\t", 1) for line in text.splitlines() if "\t" in line]
        out.append({f"{name} {i}": value for i, (name, value) in enumerate(pairs)} if model else dict(pairs))
    return out


def near(a, b):
    """The same numbers, but for rounding."""
    x, y = ([float(v) for v in (text or "").split()] for text in (a, b))
    return len(x) == len(y) and all(abs(p - q) <= 1e-5 * max(1, abs(q)) for p, q in zip(x, y))


def train(oracle):
    wrong = 0
    for model in MODELS:
        want = {}
        for job in TRAINING:
            got = run(oracle, job, model)
            want.setdefault(len(job), got)
            if "r" in job:
                bad = [(r, step) for r, steps in enumerate(want[len(job)]) for step in steps if not near(got[r].get(step), steps[step])]
                bad += [(r, "nothing") for r, steps in enumerate(want[len(job)]) if not steps]
                wrong += len(bad)
                print(f"{model}, {job}: {sum(map(len, got))} answers, {len(bad)} differ {bad[:5]}", flush=True)
    return wrong


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
    else:
        wrong += train(oracle)
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
