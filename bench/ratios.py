#!/usr/bin/env python3
"""Print how much faster rushlight is than PyTorch: the programs of this folder run under both, in turn.

    bench/ratios.py [--peer PYTHON] [--rounds N] [--threads N] [--device cuda] [--json FILE] PROGRAM... [-- WORD...]

PROGRAM is calls, kernels, breadth, transforms, training, inference, compiled, memory, around or scaling. PYTHON is an interpreter that has PyTorch;
without one only rushlight's own figures are printed. WORDs choose cases by a part of their name. A ratio above 1 means that rushlight
is faster, or smaller. Of several rounds the median counts.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LESS_IS_BETTER = ("us", "ms", "s", "MB")


def figures(command, program, words, env):
    """What one run of a program printed: {case: (value, unit)}."""
    done = subprocess.run([*command, str(HERE / f"{program}.py"), *words], env=env, text=True, capture_output=True)
    if done.returncode or "BENCH_DEVICE" in env:
        print(f"{program}: {' '.join(command)} {'failed' if done.returncode else 'said'}\n{done.stderr[-2000:]}" if done.stderr else "", end="", file=sys.stderr)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["name"]: (row["value"], row["unit"]) for row in rows}


def compare(program, opt, words):
    """{case: {"ours", "peer", "unit", "ratio"}}; without a peer the last two numbers are missing."""
    env = dict(os.environ, PYTHONPATH=str(HERE.parent / "python"))
    if opt.device:
        env["BENCH_DEVICE"] = opt.device
    if opt.threads:
        env["OMP_NUM_THREADS"] = str(opt.threads)
    ours, peer = [], []
    for _ in range(opt.rounds):
        if opt.peer:
            peer.append(figures([opt.peer], program, words, env))
        ours.append(figures([sys.executable, "-m", "rushlight"], program, words, env))
    table = {}
    for name, (_, unit) in (peer or ours)[0].items():
        mine = [run[name][0] for run in ours if name in run]
        row = table[name] = {"unit": unit, "ours": statistics.median(mine) if mine else None}
        if not peer or not mine:
            continue
        theirs = [run[name][0] for run in peer]
        each = [a / b if unit in LESS_IS_BETTER else b / a for a, b in zip(theirs, mine)]
        row.update(peer=statistics.median(theirs), ratio=statistics.median(each))
    return table


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("programs", nargs="+")
    args.add_argument("--peer")
    args.add_argument("--rounds", type=int, default=1)
    args.add_argument("--threads", type=int)
    args.add_argument("--device")
    args.add_argument("--json")
    argv = sys.argv[1:]
    cut = argv.index("--") if "--" in argv else len(argv)
    opt, words = args.parse_args(argv[:cut]), argv[cut + 1:]
    results, missing = {}, 0
    for program in opt.programs:
        table = results[program] = compare(program, opt, words)
        print(f"\n{program:46s} {'PyTorch':>11s} {'rushlight':>11s} {'':10s} {'ratio':>6s}")
        for name, row in table.items():
            missing += row["ours"] is None
            shown = [f"{row[k]:11.4g}" if row.get(k) is not None else f"{'-':>11s}" for k in ("peer", "ours")]
            print(f"  {name:44s} {shown[0]} {shown[1]} {row['unit']:10s}", f"{row['ratio']:6.2f}" if "ratio" in row else "")
        ratios = [row["ratio"] for row in table.values() if "ratio" in row]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            print(f"  {len(ratios)} cases: geometric mean {mean:.2f}, worst {min(ratios):.2f}", flush=True)
    if opt.json:
        Path(opt.json).write_text(json.dumps(results, indent=1) + "\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
