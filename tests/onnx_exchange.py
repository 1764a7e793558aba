#!/usr/bin/env python3
"""Exchange networks with PyTorch's ONNX exporters and with onnxruntime.

    PYTHON tests/onnx_exchange.py write FOLDER [NAME...]                  exports the networks of tests/exported.py, both ways that PyTorch has
    PYTHON tests/onnx_exchange.py check FOLDER [NAME...] [--build build]  runs and trains them without Python; prints the differences
    PYTHON -m rushlight tests/onnx_exchange.py export FOLDER [NAME...]    exports them from here, has onnx check them and onnxruntime run them

PYTHON has PyTorch, onnx, onnxscript and onnxruntime. What onnxruntime computes is the measure of results (NAME_out.npz), PyTorch that
of weights after three steps of Adam (NAME_state.npz). Descriptions of where calls came from are taken out of the files.
"""
import argparse
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from exported import LIMIT, largest, networks, train


def strip(graph):
    """Without what names anybody's folders."""
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
        for a in node.attribute:
            if a.HasField("g"):
                strip(a.g)
    for value in [*graph.value_info, *graph.input, *graph.output, *graph.initializer]:
        del value.metadata_props[:]
    del graph.metadata_props[:]
    graph.doc_string = ""


def tidy(path):
    import onnx
    model = onnx.load(path)
    strip(model.graph)
    del model.metadata_props[:]
    onnx.save(model, path)


def infer(path, inputs):
    """What onnxruntime computes; `inputs` in the order of the model's."""
    import onnxruntime
    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(path))
    return session.run(None, {i.name: x for i, x in zip(session.get_inputs(), inputs)})


def write(folder, names):
    import torch
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    for name, (make, inputs, shapes) in networks().items():
        if names and name not in names:
            continue
        new = {"dynamo": True, "dynamic_shapes": shapes, "external_data": False}
        for kind, options in (("", new), ("_plain", {**new, "optimize": False}), ("_old", {"dynamo": False, "opset_version": 17})):
            torch.manual_seed(1)
            path, net = folder / f"{name}{kind}.onnx", make().eval()
            try:
                torch.onnx.export(net, inputs, str(path), verbose=False, **options)
            except Exception as error:  # the older exporter lacks some operations
                print(name + kind, "is not exported by PyTorch:", str(error).strip().splitlines()[-1][:120])
                continue
            tidy(path)
            given = [x.numpy() for x in inputs]
            np.savez_compressed(folder / f"{name}{kind}_in.npz", **{f"in{i}": x for i, x in enumerate(given)})
            np.savez_compressed(folder / f"{name}{kind}_out.npz", **{f"out{i}": y for i, y in enumerate(infer(path, given))})
            if kind == "_plain":  # optimising joins and turns weights
                np.savez_compressed(folder / f"{name}_plain_state.npz", **train(net, inputs))
            print(name + kind, "written")


def weights(got, want):
    """The largest difference of the weights that both have by name, and how many those are."""
    a, b = np.load(got), np.load(want)
    both = [k for k in b.files if k in a.files and a[k].shape == b[k].shape]
    return max((float(np.abs(a[k] - b[k]).max(initial=0)) for k in both), default=math.inf), len(both), len(b.files)


def check(folder, names, build):
    bad = 0
    with tempfile.TemporaryDirectory() as room:
        out, state = f"{room}/out.npz", f"{room}/state.npz"
        for inputs in sorted(folder.glob("*_in.npz")):
            name = inputs.name[:-7]
            if names and name not in names:
                continue
            model, line = folder / f"{name}.onnx", f"{name:16s}"
            done = subprocess.run([build / "rushlight", "run", model, inputs, "-o", out], capture_output=True, text=True, timeout=300)
            differs = largest(out, folder / f"{name}_out.npz") if done.returncode == 0 else math.inf
            line += f"  results {differs:.1e}" if done.returncode == 0 else f"  {done.stderr.strip()[:300]}"
            bad += differs > LIMIT
            if (folder / f"{name}_state.npz").exists():
                done = subprocess.run([build / "examples/finetune", model, inputs, state], capture_output=True, text=True, timeout=300)
                differs, n, all_ = weights(state, folder / f"{name}_state.npz") if done.returncode == 0 else (math.inf, 0, 0)
                line += f"  weights {differs:.1e} ({n} of {all_} by name)" if done.returncode == 0 else f"  training: {done.stderr.strip()[:300]}"
                bad += differs > LIMIT
            print(line)
    print(f"{bad} differ by more than {LIMIT:g}")
    return bad > 0


def export(folder, names):
    """What this library exports, checked by onnx and run by onnxruntime."""
    import onnx
    import torch
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    bad = 0
    for name, (make, inputs, shapes) in networks().items():
        if names and name not in names:
            continue
        torch.manual_seed(1)
        path, net = folder / f"{name}_ours.onnx", make().eval()
        try:
            torch.onnx.export(net, inputs, path, dynamic_shapes=shapes)
            onnx.checker.check_model(onnx.load(path), full_check=True)
            with torch.no_grad():
                want = net(*inputs)
            want = want if isinstance(want, tuple) else (want,)
            got = infer(path, [x.numpy() for x in inputs])
            differs = max(float(np.abs(a.astype("f8") - b.numpy().astype("f8")).max(initial=0)) if a.shape == tuple(b.shape) else math.inf for a, b in zip(got, want))
            print(f"{name:16s}  results {differs:.1e}")
        except Exception as error:
            differs = math.inf
            print(f"{name:16s}  {type(error).__name__}: {str(error)[:300]}")
        bad += differs > LIMIT
    print(f"{bad} differ by more than {LIMIT:g}")
    return bad > 0


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("what", choices=["write", "check", "export"])
    args.add_argument("folder", type=pathlib.Path)
    args.add_argument("names", nargs="*")
    args.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    opt = args.parse_args()
    opt.folder.mkdir(parents=True, exist_ok=True)
    if opt.what == "export":
        return export(opt.folder, opt.names)
    return write(opt.folder, opt.names) if opt.what == "write" else check(opt.folder, opt.names, opt.build)


if __name__ == "__main__":
    sys.exit(main())
