"""Peak resident memory of a process that imports the framework and trains, or runs, one model; each in a process of its own."""
import os
import resource
import subprocess
import sys
from clock import show, wanted


def one(name):
    from models import TRAINING, caller, trainer
    work = trainer(name) if name in TRAINING else caller(name)
    for _ in range(5):
        work()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if os.environ.get("BENCH_MODEL"):
    one(os.environ["BENCH_MODEL"])
else:
    import torch
    from models import INFERENCE, TRAINING
    launcher = [sys.executable] if torch.__name__ == "torch" else [sys.executable, "-m", "rushlight"]
    for kind, table in (("training", TRAINING), ("inference", INFERENCE)):
        for model in table:
            if not wanted(f"{kind}: {model}"):
                continue
            done = subprocess.run([*launcher, __file__], env={**os.environ, "BENCH_MODEL": model}, capture_output=True, text=True, check=True)
            show(f"{kind}: {model}", float(done.stdout), "MB")
