"""Timing for the programs of this folder: every case is a statement, run under PyTorch and under rushlight alike.

A program calls `run` with cases of the form (name, statement, work, unit). Without `work` the result is the time of one
run in `unit` (us, ms, s); with it, work per second. What is printed is one JSON object a line; ratios.py reads it.
With BENCH_DEVICE=cuda tensors are made there, times are from one synchronisation to another, and a case that fails says so on stderr.
"""
import json
import os
import sys
import time

DEVICE = os.environ.get("BENCH_DEVICE")
if DEVICE:
    import torch
    torch.set_default_device(DEVICE)

SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}


def wait():
    """For what is under way on the device."""
    if DEVICE:
        torch.cuda.synchronize()


def best_time(fn, budget, batches=6):
    """Seconds of one fn(), the best of some batches that take about `budget` seconds together."""
    fn()
    fn()
    wait()
    begin = time.perf_counter()
    fn()
    wait()
    n = max(1, int(budget / batches / max(time.perf_counter() - begin, 1e-7)))
    fastest = float("inf")
    for _ in range(batches):
        begin = time.perf_counter()
        for _ in range(n):
            fn()
        wait()
        fastest = min(fastest, (time.perf_counter() - begin) / n)
    return fastest


def wanted(name):
    """Do the command line's words choose this case? Without words all are."""
    return len(sys.argv) < 2 or any(word in name for word in sys.argv[1:])


def show(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def measure(name, fn, work=None, unit="us", budget=0.5):
    try:
        seconds = best_time(fn, budget / 4 if DEVICE else budget) # a device's time is dear
    except (RuntimeError, NotImplementedError) as error:
        if not DEVICE:
            raise
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return
    show(name, work / seconds if work else seconds * SCALE[unit], unit)


def run(cases, names, budget=0.5):
    """Times the statements, which see the variables of `names`."""
    for name, statement, work, unit in cases:
        if wanted(name):
            measure(name, eval(compile(f"lambda: {statement}", name, "eval"), names), work, unit, budget)
