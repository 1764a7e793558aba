#!/usr/bin/env python3
"""Jobs of two processes, unchanged, under PyTorch and under rushlight: the same lines?

    tests/parity/jobs/run.py ORACLE PYTHON EXAMPLES [NAME...]

ORACLE is a Python with PyTorch, PYTHON one without it but with lightning, accelerate, torchmetrics (installed without their dependency torch),
hydra-core, boto3, fsspec and aiohttp; the packages are taken from PYTHON for both. EXAMPLES is a checkout of pytorch/examples. Those that want
accelerators are run by several.py, which takes the CPU for them. Lines are compared sorted; numbers may differ by 1e-3.
"""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LAUNCH, ACCELERATE = ["-m", "torch.distributed.run", "--nproc-per-node", "2"], ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
SEVERAL, LOOP = LAUNCH + [str(HERE / "several.py")], str(HERE / "accelerate_loop.py")
SMALL_GPT = ["data_config.path=text", "trainer_config.max_epochs=1", "trainer_config.batch_size=16", "trainer_config.use_amp=False", "gpt_config.n_layer=2",
             "gpt_config.n_embd=64", "gpt_config.n_head=4"]
JOBS = {  # name: folder of the examples, commands one after the other
    "lightning": ("", [[str(HERE / "lightning_ddp.py")]]),
    "accelerate": ("", [ACCELERATE + ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", LOOP]]),
    "accelerate-torchrun": ("", [LAUNCH + [LOOP]]),
    "ddp": ("ddp", [SEVERAL + ["example.py"]]),
    "ddp-tutorial": ("ddp-tutorial-series", [SEVERAL + ["multigpu_torchrun.py", "3", "1"]]),
    "ddp-tutorial-machines": ("ddp-tutorial-series", [SEVERAL + ["multinode.py", "3", "1"]]),
    "minGPT-ddp": ("minGPT-ddp/mingpt", [SEVERAL + ["main.py"] + SMALL_GPT]),
    "tensor-parallel": ("tensor_parallelism", [SEVERAL + ["tensor_parallel_example.py"]]),
    "sequence-parallel": ("tensor_parallelism", [SEVERAL + ["sequence_parallel_example.py"]]),
    "FSDP2": ("FSDP2", [SEVERAL + ["example.py"]] * 2),
    "FSDP2-prefetch": ("FSDP2", [SEVERAL + ["example.py", "--explicit-prefetching"]]),
    "FSDP2-mixed": ("FSDP2", [SEVERAL + ["example.py", "--mixed-precision"]]),
    "rpc-rnn": ("rpc/rnn", [["main.py"]]),
    "FSDP2-dcp": ("FSDP2", [SEVERAL + ["example.py", "--dcp-api"]] * 2),
}
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]\d+)?(?!\w)")
OWN = re.compile(r"\[\d+\]|MASTER_(?:ADDR|PORT)': '[^']*'|^\d+/\d+/\d+ .. [AP]M ")


def run(command, folder, env):
    """(lines that are the same from run to run, what went wrong)"""
    done = subprocess.run(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **env}, capture_output=True, text=True, timeout=300)
    return sorted(OWN.sub("", line) for line in done.stdout.splitlines() if line.strip()), done.stderr[-600:] if done.returncode else ""


def same(a, b):
    """Texts with the same words, and numbers that are close."""
    x, y = NUMBER.findall(a), NUMBER.findall(b)
    return NUMBER.sub("#", a) == NUMBER.sub("#", b) and all(abs(float(p) - float(q)) <= 1e-3 * max(1, abs(float(q))) for p, q in zip(x, y))


def words():
    rng = random.Random(1)
    known = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 8))) for _ in range(200)]
    return "\n".join(" ".join(rng.choices(known, k=12)) for _ in range(900))


def main():
    oracle, python, examples, *names = sys.argv[1:]
    packages = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], capture_output=True, text=True, check=True).stdout.strip()
    sides = {"PyTorch": ([oracle], {"PYTHONPATH": packages}),
             "rushlight": ([python, "-m", "rushlight"], {"PYTHONPATH": str(HERE.parent.parent.parent / "python")})}
    wrong = 0
    for name, (source, commands) in JOBS.items():
        if names and name not in names:
            continue
        found = {}
        for side, (start, env) in sides.items():
            with tempfile.TemporaryDirectory() as home:
                folder = pathlib.Path(home) / "job"
                shutil.copytree(pathlib.Path(examples) / "distributed" / source, folder) if source else folder.mkdir()
                (folder / "text").write_text(words())
                found[side] = [run(start + command, folder, env) for command in commands]
        bad = [error for _, error in found["rushlight"] if error]
        for (theirs, error), (ours, _) in zip(*found.values()):
            bad += [error] if error else [] if len(theirs) == len(ours) else [f"{len(theirs)} lines and {len(ours)}"]
            bad += [f"{a} | {b}" for a, b in zip(theirs, ours) if not same(a, b)]
        wrong += bool(bad)
        print(f"{name}: {sum(len(lines) for lines, _ in found['PyTorch'])} lines, " + ("DIFFERENT:\n    " + "\n    ".join(bad[:6]) if bad else "the same"), flush=True)
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
