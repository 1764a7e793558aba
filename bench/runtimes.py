#!/usr/bin/env python3
"""Networks run by several runtimes from one export: milliseconds a call.

    bench/runtimes.py [--peer PYTHON] [--rounds N] [--threads N] [--json FILE] [NAME...]

The networks are those of models.py and the small ones of tests/exported.py; NAMEs choose by a part of their name. rushlight
exports each to .pt2 and to ONNX. `rushlight run --frozen --bench` runs the first, with no Python in the process; onnxruntime
and OpenVINO (float32, for latency) run the second where this interpreter has them; rushlight, and the PyTorch of --peer
plainly and compiled, call the module. Each has a process of its own, in turns; the least time of all rounds counts.
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
ROLES = "program", "rushlight", "pytorch", "compiled", "onnxruntime", "openvino"


def networks():
    """name -> function that makes (module, inputs); under any torch"""
    import torch
    import exported
    from models import INFERENCE

    def made(make, seed=1):
        def both():
            torch.manual_seed(seed)
            net, x = make()
            return net.eval(), x if isinstance(x, tuple) else (x,)
        return both
    found = {name: made(make) for name, make in INFERENCE.items()}
    torch.manual_seed(0)
    for name, (make, inputs, _) in exported.networks().items():
        found[f"small {name}"] = made(lambda make=make, inputs=inputs: (make(), inputs))
    return found


def prepare(folder, name):
    """Under rushlight: the network's exports and inputs."""
    import numpy as np
    import torch
    net, inputs = networks()[name]()
    np.savez(folder / "in.npz", **{f"in{i}": x.numpy() for i, x in enumerate(inputs)})
    torch.export.save(torch.export.export(net, inputs, strict=False), folder / "net.pt2")
    torch.onnx.export(net, inputs, folder / "net.onnx")


def calls(role, folder, name):
    """A function that runs the network once."""
    if role in ("rushlight", "pytorch", "compiled"):
        import torch
        net, inputs = networks()[name]()
        net = torch.compile(net) if role == "compiled" else net
        return torch.no_grad()(lambda: net(*inputs))
    import numpy as np
    inputs = list(np.load(folder / "in.npz").values())
    threads = int(os.environ["OMP_NUM_THREADS"])
    if role == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(folder / "net.onnx"), options)
        given = {i.name: x for i, x in zip(session.get_inputs(), inputs)}
        return lambda: session.run(None, given)
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(folder / "net.onnx"), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    return lambda: request.infer(inputs)


def milliseconds(role, folder, name, peer, env):
    """What one process measures; None where it cannot."""
    if role == "program":
        command = [HERE.parent / "build/rushlight", "run", folder / "net.pt2", folder / "in.npz", "--frozen", "--bench"]
    else:
        python = {"rushlight": [sys.executable, "-m", "rushlight"], "pytorch": [peer], "compiled": [peer]}.get(role, [sys.executable])
        command = [*python, __file__, "time", role, folder, name]
    done = subprocess.run(command, env=env, text=True, capture_output=True)
    found = re.search(r"([\d.e+-]+) ms$", done.stdout.strip())
    if not found:
        print(f"! {name}, {role}: {(done.stderr.strip().splitlines() or ['nothing'])[-1][:200]}", file=sys.stderr)
    return float(found[1]) if found else None


def main():
    if sys.argv[1:2] == ["prepare"]:
        return prepare(pathlib.Path(sys.argv[2]), sys.argv[3])
    if sys.argv[1:2] == ["time"]:
        from clock import best_time
        print(best_time(calls(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4]), 1.0) * 1e3, "ms")
        return 0
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("names", nargs="*")
    cli.add_argument("--peer")
    cli.add_argument("--rounds", type=int, default=2)
    cli.add_argument("--threads", type=int, default=2)
    cli.add_argument("--json")
    args = cli.parse_args()
    env = dict(os.environ, PYTHONPATH=str(HERE.parent / "python"), OMP_NUM_THREADS=str(args.threads))
    under = [sys.executable, "-m", "rushlight", __file__]
    listed = subprocess.run([*under, "names"], env=env, text=True, capture_output=True, check=True).stdout.splitlines()
    roles = [r for r in ROLES if args.peer or r not in ("pytorch", "compiled")]
    print(f"{'milliseconds':34s}" + "".join(f"{r:>13s}" for r in roles) + "   program is times as fast as the best other")
    table, first = {}, 0
    for name in (n for n in listed if not args.names or any(w in n for w in args.names)):
        with tempfile.TemporaryDirectory() as room:
            subprocess.run([*under, "prepare", room, name], env=env, check=True)
            rounds = [[milliseconds(r, pathlib.Path(room), name, args.peer, env) for r in roles] for _ in range(args.rounds)]
        best = {r: min((x for x in column if x), default=math.nan) for r, column in zip(roles, zip(*rounds))}
        ratio = min(v for r, v in best.items() if r not in ("program", "rushlight") and v == v) / best["program"]
        first += ratio > 1
        table[name] = best
        print(f"{name:34s}" + "".join(f"{best[r]:13.4g}" for r in roles) + f"   {ratio:.2f}", flush=True)
    print(f"the program is first in {first} of {len(table)}")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["names"]:
        print("\n".join(networks()))
    else:
        sys.exit(main())
