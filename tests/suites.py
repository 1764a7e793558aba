#!/usr/bin/env python3
"""The test suites of packages built on PyTorch, under PyTorch and under rushlight: what passes there must pass here.

    tests/suites.py CHECKOUTS [--keep FOLDER] [--part N[:K]] [--minutes M] [--ours] [--again] [NAME[:ARGUMENT]...]

CHECKOUTS holds the repositories as owner+name. The Python that runs this has PyTorch, pytest with pytest-timeout, the
packages (pip install --no-deps -e each checkout) and what their tests import. A suite runs under PyTorch once; FOLDER
remembers the outcomes. Under rushlight run the tests that passed there, --again only those that have not passed here.
ARGUMENT is one more for pytest (timm:tests/test_optim.py). --part 10 takes a tenth of the tests, chosen by their
names, --part 10:1 to 10:9 the others. --minutes 8 takes the tests in a random order, as many as PyTorch runs in that time, and is gone on with
when it is called again. --ours turns it round, for suites that take long: what passes here is not run under PyTorch, what fails is.
Every test starts from the same seeds; a process that dies or hangs fails the test that it was at, and another goes on after it. Ends with 1 if less than 99.5 % pass.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEEDED = 0.995
# name: (repository, folder within it to run in, arguments of pytest)
SUITES = {
    "einops": ("arogozhnikov+einops", ".", ["einops/tests"]),
    "linear_operator": ("cornellius-gp+linear_operator", ".", ["test"]),
    "gpytorch": ("cornellius-gp+gpytorch", ".", ["test"]),
    "skorch": ("skorch-dev+skorch", ".", ["skorch/tests", "--no-cov"]),
    "timm": ("huggingface+pytorch-image-models", ".", ["tests", "--ignore=tests/test_models.py"]),
    "timm_models": ("huggingface+pytorch-image-models", ".", ["tests/test_models.py"]),
    "geometric": ("pyg-team+pytorch_geometric", ".", ["test"]),
    "torchmetrics": ("Lightning-AI+torchmetrics", "tests", ["unittests", "-m", "not DDP"]),
    "torchdiffeq": ("rtqichen+torchdiffeq", "tests", ["-c", "/dev/null", "--rootdir=.", "api_tests.py", "event_tests.py", "gradient_tests.py", "norm_tests.py", "odeint_tests.py"]),
    "torchsde": ("google-research+torchsde", ".", ["tests"]),
    "e3nn": ("e3nn+e3nn", ".", ["tests"]),
    "opacus": ("pytorch+opacus", ".", ["opacus/tests"]),
    "baselines": ("DLR-RM+stable-baselines3", ".", ["tests"]),
    "optimizer": ("kozistr+pytorch_optimizer", ".", ["tests", "--no-cov"]),
    "x_transformers": ("lucidrains+x-transformers", ".", ["tests"]),
    "vector_quantize": ("lucidrains+vector-quantize-pytorch", ".", ["tests"]),
    "kornia": ("kornia+kornia", ".", ["tests"]),
    "pyro": ("pyro-ppl+pyro", ".", ["tests", "--ignore=tests/test_examples.py"]),
    "botorch": ("pytorch+botorch", ".", ["test"]),
    "captum": ("pytorch+captum", ".", ["tests"]),
    "fabric": ("Lightning-AI+pytorch-lightning", "tests", ["tests_fabric"]),
    "lightning": ("Lightning-AI+pytorch-lightning", "tests", ["tests_pytorch"]),
    "metric_learning": ("KevinMusgrave+pytorch-metric-learning", ".", ["tests"]),
    "segmentation": ("qubvel-org+segmentation_models.pytorch", ".", ["tests"]),
    "peft": ("huggingface+peft", ".", ["tests", "-o", "addopts="]),
    "diffusers": ("huggingface+diffusers", ".", ["tests/schedulers", "tests/models", "tests/others"]),
    "tensordict": ("pytorch+tensordict", ".", ["test"]),
    "ignite": ("pytorch+ignite", ".", ["tests"]),
    "geoopt": ("geoopt+geoopt", ".", ["tests"]),
    "backpack": ("f-dangel+backpack", ".", ["test"]),
    "torchjd": ("TorchJD+torchjd", ".", ["tests"]),
    "curvlinops": ("f-dangel+curvlinops", ".", ["test"]),
    "tensorly": ("tensorly+tensorly", ".", ["tensorly"]),
    "pypose": ("pypose+pypose", ".", ["tests"]),
    "snntorch": ("jeshraghian+snntorch", ".", ["tests"]),
    "torcheval": ("pytorch+torcheval", ".", ["tests"]),
    "higher": ("facebookresearch+higher", ".", ["tests"]),
    "fvcore": ("facebookresearch+fvcore", ".", ["tests"]),
    "entmax": ("deep-spin+entmax", ".", ["entmax"]),
    "torchcde": ("patrick-kidger+torchcde", ".", ["test"]),
    "nflows": ("bayesiains+nflows", ".", ["tests"]),
    "kymatio": ("kymatio+kymatio", ".", ["tests"]),
    "torchquad": ("esa+torchquad", ".", ["tests"]),
    "neuraloperator": ("neuraloperator+neuraloperator", ".", ["neuralop"]),
    "monai": ("Project-MONAI+MONAI", ".", ["tests"]),
    "accelerate": ("huggingface+accelerate", ".", ["tests", "--ignore=tests/deepspeed", "--ignore=tests/fsdp", "--ignore=tests/tp"]),
    "mmengine": ("open-mmlab+mmengine", ".", ["tests"]),
    "sbi": ("sbi-dev+sbi", ".", ["tests", "-m", "not slow and not gpu"]),
    "speechbrain": ("speechbrain+speechbrain", ".", ["tests/unittests", "tests/integration"]),
    "braindecode": ("braindecode+braindecode", ".", ["test/unit_tests"]),
    "piq": ("photosynthesis-team+piq", ".", ["tests"]),
    "zuko": ("probabilists+zuko", ".", ["tests"]),
    "xitorch": ("xitorch+xitorch", ".", ["xitorch/_tests"]),
    "pykeen": ("pykeen+pykeen", ".", ["tests"]),
    "forecasting": ("sktime+pytorch-forecasting", ".", ["tests"]),
    "lightly": ("lightly-ai+lightly", ".", ["tests", "--ignore=tests/api", "--ignore=tests/api_workflow", "--ignore=tests/cli"]),
    "torchio": ("fepegar+torchio", ".", ["tests"]),
    "litgpt": ("Lightning-AI+litgpt", ".", ["tests"]),
    "quanto": ("huggingface+optimum-quanto", ".", ["tests"]),
    "composer": ("mosaicml+composer", ".", ["tests"]),
    "vision": ("pytorch+vision", "test", []),
    "audio": ("pytorch+audio", "test", ["-c", "/dev/null", "--rootdir=."]),
    "open_clip": ("mlfoundations+open_clip", ".", ["tests"]),
    "bitsandbytes": ("bitsandbytes-foundation+bitsandbytes", ".", ["tests"]),
    "sentence_transformers": ("huggingface+sentence-transformers", ".", ["tests"]),
    "tianshou": ("thu-ml+tianshou", ".", ["test/base"]),
    "spikingjelly": ("fangwei123456+spikingjelly", ".", ["test/activation_based"]),
    "torchtune": ("pytorch+torchtune", ".", ["tests/torchtune", "-o", "addopts="]),
    "pomegranate": ("jmschrei+pomegranate", ".", ["tests"]),
    "torchani": ("aiqm+torchani", ".", ["tests"]),
    "norse": ("norse+norse", ".", ["norse"]),
    "normflows": ("VincentStimper+normalizing-flows", ".", ["normflows"]),
    "ultralytics": ("ultralytics+ultralytics", ".", ["tests"]),
    "geotorch": ("Lezcano+geotorch", ".", ["test"]),
    "torchopt": ("metaopt+torchopt", ".", ["tests", "-o", "filterwarnings="]),
    "torchscale": ("microsoft+torchscale", ".", ["tests"]),
    "laplace": ("aleximmer+Laplace", ".", ["tests"]),
    "torchdyn": ("DiffEqML+torchdyn", ".", ["test"]),
    "torch_optimizer": ("jettify+pytorch-optimizer", ".", ["tests", "-o", "addopts="]),
    "fairscale": ("facebookresearch+fairscale", ".", ["tests", "--ignore=tests/experimental", "-o", "addopts="]),
    "grad_cam": ("jacobgil+pytorch-grad-cam", ".", ["tests"]),
    "whisper": ("openai+whisper", ".", ["tests"]),
    "nnsight": ("ndif-team+nnsight", ".", ["tests"]),
    "avalanche": ("ContinualAI+avalanche", ".", ["tests"]),
    "poutyne": ("GRAAL-Research+poutyne", ".", ["-c", "/dev/null", "tests"]),
    "audiomentations": ("asteroid-team+torch-audiomentations", ".", ["-c", "/dev/null", "tests"]),
    "kbnufft": ("mmuckley+torchkbnufft", ".", ["tests"]),
    "minimize": ("rfeinman+pytorch-minimize", ".", ["tests"]),
    "pruning": ("VainF+Torch-Pruning", ".", ["tests"]),
    "autoray": ("jcmgray+autoray", ".", ["-c", "/dev/null", "tests", "-k", "torch"]),
    "zennit": ("chr5tphr+zennit", ".", ["tests"]),
    "titan": ("pytorch+torchtitan", ".", ["-c", "/dev/null", "--rootdir=.", "tests/unit_tests"]),
    "array_api": ("data-apis+array-api-tests", ".", ["array_api_tests", "--disable-deadline"]),
    "keras": ("keras-team+keras", ".", ["-c", "/dev/null", "--rootdir=.", "-o", "python_files=*_test.py", "keras/src/ops"]),
    "torchrl": ("pytorch+rl", ".", ["test"]),
    "flair": ("flairNLP+flair", ".", ["tests", "-o", "addopts="]),
    "transformers": ("huggingface+transformers", ".", ["-m", "not is_pipeline_test and not is_fsdp_test and not is_tensor_parallel_test", "--ignore=tests/trainer/distributed"]),
    "onnx2torch": ("ENOT-AutoDL+onnx2torch", ".", ["tests"]),
    "bindsnet": ("BindsNET+bindsnet", ".", ["test"]),
    "torchao": ("pytorch+ao", ".", ["test/quantization", "test/core", "test/dtypes", "--ignore=test/quantization/pt2e"]),
}
ALWAYS = ["-p", "no:cacheprovider", "-p", "no:randomly", "-q", "--tb=short", "--timeout=%d", "--continue-on-collection-errors", "-p", "suites"]
SECONDS = 120  # for one test
PLUGINS = [pathlib.Path(__file__)]


# ---- the part that pytest loads: which tests run, what became of each ----

def _name(nodeid):
    """A test's id under either library: those made of an argument's repr() carry the module's name."""
    return nodeid.replace("rushlight", "torch")


def pytest_collection_modifyitems(config, items):
    with open(os.environ["SUITES_PLAN"]) as f:
        plan = json.load(f)
    only, done = plan["only"] and set(plan["only"]), set(plan["done"])
    part, which = plan["part"]
    chosen = [item for item in items if _name(item.nodeid) not in done and (_name(item.nodeid) in only if only is not None else zlib.crc32(item.nodeid.encode()) % part == which)]
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = sorted(chosen, key=lambda item: zlib.crc32(b"order" + item.nodeid.encode())) if plan["until"] else chosen
    config.until = plan["until"]


def _note(**line):
    with open(os.environ["SUITES_RESULTS"], "a") as f:
        f.write(json.dumps(line) + "\n")


def pytest_runtest_logstart(nodeid):
    _note(id=_name(nodeid), outcome="started")


def pytest_runtest_setup(item):
    import random
    import numpy
    import torch
    if item.config.until and time.time() > item.config.until:
        item.session.shouldstop = "the time is over"  # after this test
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else report.outcome
        _note(id=_name(report.nodeid), outcome=outcome, seconds=round(report.duration, 3), why=report.longreprtext[-3000:] if outcome == "failed" else "")


# ---- the part that runs pytest ----

def outcomes(path):
    """{test: its last line} of a file of results; a test that failed at any stage has failed."""
    found = {}
    if path.exists():
        for line in path.read_text().splitlines():
            line = json.loads(line)
            if line["outcome"] == "started" or found.get(line["id"], {}).get("outcome") != "failed":
                found[line["id"]] = line
    return found


def run(name, checkouts, results, only, part, stand_in, until=None):
    """Run a suite to its end or until a time, through as many processes as it takes, adding to the file of results what it doesn't hold yet."""
    if only == []:
        return
    suite, _, more = name.partition(":")
    repository, folder, arguments = SUITES[suite]
    program = [sys.executable, *(["-m", "rushlight"] if stand_in else []), "-m", "pytest", *arguments, *([more] if more else []), *(a.replace("%d", str(SECONDS)) for a in ALWAYS)]
    # A folder with nothing but the plugin: the modules beside this file must not hide the packages of the same names.
    plugin = results.parent / "plugin"
    plugin.mkdir(exist_ok=True)
    for file in PLUGINS:
        (plugin / file.name).write_text(file.read_text())
    path = [str(plugin), *([str(ROOT / "python")] if stand_in else [])]
    env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": "",
           "EINOPS_TEST_BACKENDS": "numpy,torch", "TENSORLY_BACKEND": "pytorch", "KERAS_BACKEND": "torch", "ARRAY_API_TESTS_MODULE": "array_api_compat.torch", "TEST_DEVICE": "cpu", "TEST_DTYPES": "float32,float64", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "SUITES_RESULTS": str(results), "SUITES_PLAN": str(results) + ".plan"}
    here = {test for test, line in outcomes(results).items() if line["outcome"] != "started"}
    while True:
        pathlib.Path(env["SUITES_PLAN"]).write_text(json.dumps({"only": only, "done": sorted(here), "part": part, "until": until}))
        size = results.stat().st_size if results.exists() else 0
        with open(str(results) + ".log", "a") as log:
            code = subprocess.run(program, cwd=checkouts / repository / folder, env=env, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode
        lines = [json.loads(line) for line in results.read_bytes()[size:].splitlines()] if results.exists() else []
        if not lines:
            return
        here |= {line["id"] for line in lines}
        if lines[-1]["outcome"] == "started":
            with open(results, "a") as f:
                f.write(json.dumps({"id": lines[-1]["id"], "outcome": "failed", "seconds": 0, "why": "the process ended with %d" % code}) + "\n")
        elif code in (0, 1, 5):
            return
        if until and time.time() > until:
            return


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("checkouts", type=pathlib.Path)
    cli.add_argument("names", nargs="*")
    cli.add_argument("--keep", type=pathlib.Path, default=ROOT / "build" / "suites")
    cli.add_argument("--part", type=lambda text: [int(n) for n in (text + ":0").split(":")[:2]], default=[1, 0])
    cli.add_argument("--minutes", type=float)
    cli.add_argument("--ours", action="store_true")
    cli.add_argument("--again", action="store_true")
    args = cli.parse_intermixed_args()
    keep, checkouts, short = args.keep.resolve(), args.checkouts.resolve(), 0
    keep.mkdir(parents=True, exist_ok=True)
    for name in args.names or SUITES:
        files = "%s.%d_%d%s" % (re.sub(r"\W", "_", name), *args.part, "_ours" if args.ours else "")
        theirs, ours, partial = (keep / (files + end) for end in (".torch", ".rushlight", ".partial"))
        until = args.minutes and time.time() + 60 * args.minutes
        if not args.again and not args.minutes:
            ours.unlink(missing_ok=True)
        # What is run again is judged anew: the file keeps only what passed, or what was not wrong.
        kept = {test: line for test, line in outcomes(ours).items() if line["outcome"] == "passed" or args.ours and line["outcome"] not in ("started", *["failed"] * args.again)}
        ours.write_text("".join(json.dumps(line) + "\n" for line in kept.values()))
        if args.ours:
            run(name, checkouts, ours, None, args.part, True, until)
            run(name, checkouts, theirs, [test for test, line in outcomes(ours).items() if line["outcome"] == "failed"], args.part, False)
            there = {**outcomes(theirs), **{test: line for test, line in outcomes(ours).items() if line["outcome"] == "passed"}}
        else:
            if not theirs.exists() or args.minutes:
                if theirs.exists():
                    theirs.rename(partial)
                run(name, checkouts, partial, None, args.part, False, until)
                partial.rename(theirs)
            there = outcomes(theirs)
        passes = [test for test, line in there.items() if line["outcome"] == "passed"]
        if not args.ours:
            run(name, checkouts, ours, [test for test in passes if test not in kept], args.part, True)
        here = outcomes(ours)
        failed = [test for test in passes if here.get(test, {}).get("outcome") != "passed"]
        for test in failed:
            why = here.get(test, {"why": "was not found"})
            print("  %s: %s" % (test, (why.get("why") or why["outcome"]).strip().splitlines()[-1][:200]))
        print("%-16s %6d tests pass on PyTorch, %6d of them here (%.2f %%)" % (name, len(passes), len(passes) - len(failed), 100 * (len(passes) - len(failed)) / max(1, len(passes))), flush=True)
        short += len(passes) - len(failed) < NEEDED * len(passes) or not passes
    return short != 0


if __name__ == "__main__":
    sys.exit(main())
