#!/usr/bin/env python3
"""Training with weights spread over processes, under PyTorch and under rushlight, side by side.

    tests/parity/training.py ORACLE [--sizes 2,4] [--curves] [--write] [CASE...]

ORACLE is a Python with PyTorch. The ranks of each library run tests/python/sharded_cases.py. For each case a line: the largest difference of the two
loss curves over 20 steps, and how far the weights are in the end from those of one process alone (PyTorch's ranks, ours). --curves prints the curves.
--write makes tests/python/sharded.tsv of what PyTorch prints. Asked: losses within 1e-5, weights within 1e-6; ways that round gradients only have to
follow PyTorch's within 5e-3 (PowerSGD makes nearly dependent columns orthogonal, so that rounding grows).
"""
import os
import pathlib
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = ROOT / "tests" / "python" / "sharded_cases.py"
EVERY = ["ddp", "fsdp2", "full", "gradop", "noshard", "original", "zero", "gpipe", "pipe1f1b", "loopedbfs", "interleaved", "zerobubble", "zbv",
         "dualpipe"]
MODELS = ["mlp", "cnn", "gpt"]
MORE = ["tp-mlp", "tp-cnn", "tp-gpt", "sp-mlp", "sp-gpt", "both-mlp", "cp-gpt", "sync-bn", "fp16-mlp", "bf16-mlp", "powersgd-mlp", "powersgd-cnn", "joined-mlp",
        "joined-cnn", "ddpclip-mlp", "fsdp2clip-gpt", "fullclip-cnn", "zeroclip-mlp"]
LOSSY = ("fp16", "bf16", "powersgd", "joined")
LOOPED = ("loopedbfs", "interleaved", "zerobubble", "zbv", "dualpipe")
LIMIT = 600


def cases_of(size):
    """Two stages on each of four processes take models of nine layers."""
    deep = {"mlp": "mlp9", "cnn": "cnn9", "gpt": "gpt8"}
    return [f"{way}-{deep[model] if size == 4 and way in LOOPED else model}" for way in EVERY for model in MODELS] + MORE


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(python, library, size, cases):
    """({case: (losses, worst weight)} of rank 0, with the worst of all ranks, what went wrong)"""
    url, env = f"tcp://127.0.0.1:{port()}", {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "" if library == "torch" else str(ROOT / "python")}
    ranks = [subprocess.Popen([python, "-W", "ignore", CASES, library, ",".join(cases), url, str(r), str(size)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, env=env) for r in range(size)]
    found, errors = {}, ""
    for p in ranks:
        try:
            out, said = p.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            p.kill()
            out, said = p.communicate()
        errors = errors or (said[-400:] or "no end" if p.returncode else "")
        for case, losses, worst in (line.split("\t") for line in out.splitlines() if line.count("\t") == 2):
            before = found.get(case, ([float(v) for v in losses.split()], 0.0))
            found[case] = before[0], max(before[1], float(worst))
    return found, errors


def curves(case, theirs, ours):
    print(f"{case}\n  step   PyTorch rushlight")
    for step, (a, b) in enumerate(zip(theirs, ours)):
        print(f"  {step + 1:4d} {a:9.5f} {b:9.5f}")


def run_all(python, library, size, cases):
    """{case: (losses, worst weight), or the last line of the error that ended it}: after one that fails the others run again."""
    found, left = {}, list(cases)
    while left:
        some, errors = run(python, library, size, left)
        found.update(some)
        left = [case for case in left if case not in found]
        if left:
            found[left.pop(0)] = errors.strip().splitlines()[-1][:100] if errors.strip() else "no end"
    return found


def verdict(size, case, theirs, ours, show):
    """A line about one case; whether it is as asked."""
    if isinstance(ours, str):
        print(f"{size} {case:16s} FAILED: {ours}", flush=True)
        return False
    good = ours[1] < 1e-6 or case.startswith(LOSSY)
    if isinstance(theirs, str):
        print(f"{size} {case:16s} {'ok ' if good else 'BAD'} not in PyTorch ({theirs}); weights from one process alone {ours[1]:.0e}", flush=True)
        return good
    if show:
        curves(case, theirs[0], ours[0])
    apart = max(abs(a - b) for a, b in zip(theirs[0], ours[0])) if len(theirs[0]) == len(ours[0]) else float("inf")
    good = good and apart < (5e-3 if case.startswith(LOSSY) else 1.1e-5)
    print(f"{size} {case:16s} {'ok ' if good else 'BAD'} losses {apart:.0e}, weights from one process alone {theirs[1]:.0e} {ours[1]:.0e}", flush=True)
    return good


def main():
    oracle, *rest = sys.argv[1:]
    sizes = [int(n) for n in rest.pop(rest.index("--sizes") + 1).split(",")] if "--sizes" in rest else [2, 4]
    names = [a for a in rest if not a.startswith("--")]
    wrong, compared, rows = 0, 0, {}
    for size in sizes:
        cases = [case for case in cases_of(size) if not names or case in names]
        theirs, ours = run_all(oracle, "torch", size, cases), run_all(sys.executable, "rushlight", size, cases)
        for case in cases:
            wrong += not verdict(size, case, theirs[case], ours[case], "--curves" in rest)
            if not isinstance(theirs[case], str):
                rows.setdefault(case, theirs[case][0])
                compared += 1
    if "--write" in rest:
        (ROOT / "tests" / "python" / "sharded.tsv").write_text("".join(f"{case}\t{' '.join('%.5f' % v for v in losses)}\n" for case, losses in rows.items()))
    print(f"{compared} curves compared, {wrong} cases not as asked")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
