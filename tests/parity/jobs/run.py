#!/usr/bin/env python3
"""Jobs of two processes, unchanged, under PyTorch and under rushlight: the same lines?

    tests/parity/jobs/run.py ORACLE PYTHON EXAMPLES [NAME...]

ORACLE is a Python with PyTorch, PYTHON one without it but with lightning, accelerate, torchmetrics, torchvision, transformers<4.48 (the last to have
AdamW), gymnasium (these without their dependency torch) and hydra-core, boto3, fsspec, aiohttp, cloudpickle, farama-notifications, pillow, pandas,
sentencepiece, protobuf, setuptools<70; the packages are taken from PYTHON for both. EXAMPLES is a checkout of pytorch/examples, every program of whose
distributed/ is run. Lines are compared sorted; numbers may differ by 1e-3.

In place of what is not here, the same for both: the CPU for accelerators, with seeds (several.py, stand_ins.py); made-up words, digits and pairs for
texts, MNIST and wikihow (words, digits, nlp.py); a small random T5 for t5-base (t5_small.py); CartPole counts as solved at 22.
"""
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LAUNCH, ACCELERATE = ["-m", "torch.distributed.run", "--nproc-per-node"], ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
ALONE, LOOP = [str(HERE / "several.py")], str(HERE / "accelerate_loop.py")
SEVERAL = LAUNCH + ["2"] + ALONE
SERVER = ALONE + ["rpc_parameter_server.py", "--world_size", "2", "--rank"]
SMALL_GPT = ["data_config.path=text", "trainer_config.max_epochs=1", "trainer_config.batch_size=16", "trainer_config.use_amp=False", "gpt_config.n_layer=2",
             "gpt_config.n_embd=64", "gpt_config.n_head=4"]
JOBS = {  # name: folder of the examples, commands one after the other, or a tuple of some that run together
    "lightning": ("", [[str(HERE / "lightning_ddp.py")]]),
    "accelerate": ("", [ACCELERATE + ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", LOOP]]),
    "accelerate-torchrun": ("", [LAUNCH + ["2", LOOP]]),
    "ddp": ("ddp", [SEVERAL + ["example.py"]]),
    "ddp-tutorial": ("ddp-tutorial-series", [SEVERAL + ["multigpu_torchrun.py", "3", "1"]]),
    "ddp-tutorial-machines": ("ddp-tutorial-series", [SEVERAL + ["multinode.py", "3", "1"]]),
    "ddp-tutorial-spawn": ("ddp-tutorial-series", [ALONE + ["multigpu.py", "3", "1"]]),
    "ddp-tutorial-one": ("ddp-tutorial-series", [ALONE + ["single_gpu.py", "3", "1"]]),
    "minGPT-ddp": ("minGPT-ddp/mingpt", [SEVERAL + ["main.py"] + SMALL_GPT]),
    "tensor-parallel": ("tensor_parallelism", [SEVERAL + ["tensor_parallel_example.py"]]),
    "sequence-parallel": ("tensor_parallelism", [SEVERAL + ["sequence_parallel_example.py"]]),
    "tensor-parallel-FSDP": ("tensor_parallelism", [LAUNCH + ["4"] + ALONE + ["fsdp_tp_example.py"]]),
    "FSDP": ("FSDP", [[str(HERE / "t5_small.py")], SEVERAL + ["T5_training.py"]]),
    "FSDP2": ("FSDP2", [SEVERAL + ["example.py"]] * 2),
    "FSDP2-prefetch": ("FSDP2", [SEVERAL + ["example.py", "--explicit-prefetching"]]),
    "FSDP2-mixed": ("FSDP2", [SEVERAL + ["example.py", "--mixed-precision"]]),
    "FSDP2-dcp": ("FSDP2", [SEVERAL + ["example.py", "--dcp-api"]] * 2),
    "rpc-rnn": ("rpc/rnn", [["main.py"]]),
    "rpc-batch": ("rpc/batch", [ALONE + ["parameter_server.py"]]),
    "rpc-batch-rl": ("rpc/batch", [ALONE + ["reinforce.py"]]),
    "rpc-rl": ("rpc/rl", [ALONE + ["main.py"]]),
    "rpc-ddp": ("rpc/ddp_rpc", [ALONE + ["main.py"]]),
    "rpc-parameter-server": ("rpc/parameter_server", [(SERVER + ["0"], SERVER + ["1"])]),
    "rpc-pipeline": ("rpc/pipeline", [ALONE + ["main.py"]]),
}
SECONDS = 900
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]\d+)?(?!\w)")
# Times and ports; how far a server had counted when it printed that; losses of two trainers who race for one table.
OWN = re.compile(r"\[\d+\]|MASTER_(?:ADDR|PORT)': '[^']*'|^\d+/\d+/\d+ .. [AP]M |^\d+:\d+:\d+ |(?<=^PS got )\d|(?<=time = ).*|(?<=time of run = ).*|(?<=^2, )\d.*"
                 r"|(?<=^trainer\d loss ).*")


def run(commands, folder, env):
    """(lines that are the same from run to run, what went wrong) of commands that run together."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        started = [subprocess.Popen(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **env}, stdout=out, stderr=errors, start_new_session=True)
                   for command in commands]
        wrong, end = [], time.monotonic() + SECONDS
        for process in started:
            try:
                wrong += [process.returncode] if process.wait(max(0, end - time.monotonic())) else []
            except subprocess.TimeoutExpired:
                wrong.append("%d seconds were not enough" % SECONDS)
                os.killpg(process.pid, signal.SIGKILL)
        out.seek(0), errors.seek(0)
        return sorted(OWN.sub("", OWN.sub("", line)) for line in out.read().splitlines() if line.strip()), f"{wrong}: {errors.read()[-1500:]}" if wrong else ""


def same(a, b):
    """Texts with the same words, and numbers that are close."""
    x, y = NUMBER.findall(a), NUMBER.findall(b)
    return NUMBER.sub("#", a) == NUMBER.sub("#", b) and all(abs(float(p) - float(q)) <= 1e-3 * max(1, abs(float(q))) for p, q in zip(x, y))


def words():
    rng = random.Random(1)
    known = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 8))) for _ in range(200)]
    return "\n".join(" ".join(rng.choices(known, k=12)) for _ in range(900))


def digits(folder):
    """MNIST's four files, of noise around the digit's own row."""
    rng = random.Random(2)
    folder.mkdir(parents=True)
    for part, n in ("train", 640), ("t10k", 96):
        labels = bytes(rng.randrange(10) for _ in range(n))
        images = b"".join(bytes(255 if row // 2 == label else rng.randrange(64) for row in range(28) for _ in range(28)) for label in labels)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, n, 28, 28) + images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, n) + labels)


def main():
    oracle, python, examples = (os.path.abspath(a) for a in sys.argv[1:4])
    names = sys.argv[4:]
    packages = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], capture_output=True, text=True, check=True).stdout.strip()
    sides = {"PyTorch": ([oracle], {"PYTHONPATH": packages}),
             "rushlight": ([python, "-m", "rushlight"], {"PYTHONPATH": str(HERE.parent.parent.parent / "python")})}
    wrong = 0
    for name, (source, commands) in JOBS.items():
        if names and name not in names:
            continue
        found, took = {}, []
        for side, (start, env) in sides.items():
            with tempfile.TemporaryDirectory() as home:
                folder = pathlib.Path(home) / "job"
                shutil.copytree(pathlib.Path(examples) / "distributed" / source, folder) if source else folder.mkdir()
                (folder / "text").write_text(words())
                digits(folder.parent / "data" / "MNIST" / "raw")
                together = [step if isinstance(step, tuple) else (step,) for step in commands]
                began = time.monotonic()
                found[side] = [run([start + command for command in step], folder, env) for step in together]
                took.append(time.monotonic() - began)
        bad = [error for _, error in found["rushlight"] if error]
        for (theirs, error), (ours, _) in zip(*found.values()):
            bad += [error] if error else [] if len(theirs) == len(ours) else [f"{len(theirs)} lines and {len(ours)}"]
            bad += [f"{a} | {b}" for a, b in zip(theirs, ours) if not same(a, b)]
        wrong += bool(bad)
        print(f"{name}: {sum(len(lines) for lines, _ in found['PyTorch'])} lines, {took[0]:.0f} and {took[1]:.0f} s, " + ("DIFFERENT:\n    " + "\n    ".join(bad[:6]) if bad else "the same"), flush=True)
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
