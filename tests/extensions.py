#!/usr/bin/env python3
"""C++ extensions written for PyTorch, built by their own setup.py for rushlight: their tests, and what the compiler takes.

    tests/extensions.py CHECKOUTS [--work FOLDER] [--files N] [--whole] [NAME...]

CHECKOUTS holds the repositories as owner+name and the index's source packages, unpacked, as name-version. The Python that runs this
has PyTorch, setuptools, pytest and what the tests import. Each package is built in a copy of its own. PyTorch compiles the N files (1)
that took longest here, to compare processor seconds and the size of objects; with --whole all of them, and runs the tests, too.
Ends with 1 if a test fails here that passes there (without --whole: if one fails), or if a file takes more than half of PyTorch's time.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# name: (folder, its commit or tag, where setup.py is, what tests it: folders for pytest or commands, packages built before that the tests import)
PACKAGES = {
    "torch-scatter": ("rusty1s+pytorch_scatter", "2.1.2", ".", ["test"], []),
    "torch-spline-conv": ("rusty1s+pytorch_spline_conv", "1.2.2", ".", ["test"], []),
    "torch-cluster": ("rusty1s+pytorch_cluster", "1.6.3", ".", ["test"], []),
    "torch-sparse": ("rusty1s+pytorch_sparse", "0.6.18", ".", ["test"], ["torch-scatter"]),
    "muladd": ("pytorch+extension-cpp", "HEAD", ".", ["test"], []),
    "lltm": ("pytorch+extension-cpp", "ec66d01~1", "cpp", ["check.py forward backward", "grad_check.py cpp"], []),
    "torchsort": ("torchsort-0.1.10", None, ".", ["tests"], []),
    "fast-transformers": ("pytorch-fast-transformers-0.4.0", None, ".", ["tests"], []),
    "torchlpc": ("torchlpc-0.7.2", None, ".", ["tests"], []),
}


def compiler(arguments):
    """Stands in as the compiler: notes what a file takes; what is not asked for becomes an empty object."""
    source = next((a for a in arguments if a.endswith((".cpp", ".cc"))), None)
    only = os.environ.get("EXTENSIONS_ONLY")
    if source is None or "-c" not in arguments:
        return subprocess.call(["g++", *arguments])
    if only and pathlib.Path(source).name not in only.split(","):
        return subprocess.run(["g++", "-fPIC", "-x", "c++", "-c", "-", "-o", arguments[arguments.index("-o") + 1]], input=b"").returncode
    code = subprocess.call(["g++", *arguments])
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if code == 0:
        size = subprocess.run(["size", arguments[arguments.index("-o") + 1]], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
        with open(os.environ["EXTENSIONS_NOTES"], "a") as f:
            f.write(json.dumps({"file": pathlib.Path(source).name, "seconds": used.ru_utime + used.ru_stime, "bytes": int(size[3])}) + "\n")
    return code


def copied(package, checkouts, folder):
    where, commit = PACKAGES[package][:2]
    shutil.rmtree(folder, ignore_errors=True)
    if commit:
        subprocess.run(["git", "clone", "-q", "--shared", checkouts / where, folder], check=True)
        subprocess.run(["git", "-C", folder, "checkout", "-q", commit], check=True)
        modules = folder / ".gitmodules"
        for path, owner, name in re.findall(r"path = (\S+)\s+url = https://github.com/(\S+?)/(\S+?)(?:\.git)?\s", modules.read_text() if modules.exists() else ""):
            shutil.copytree(checkouts / (owner + "+" + name), folder / path, dirs_exist_ok=True)
    else:
        shutil.copytree(checkouts / where, folder)
    return folder


class Library:
    def __init__(self, name, work):
        self.name, self.work = name, work / name
        self.python = [sys.executable, *(["-m", "rushlight"] if name == "rushlight" else [])]

    def built(self, package, checkouts, only=()):
        """Builds it in place: {file: what the compiler took}. Of a package that is compiled in part nothing is linked that could run."""
        folder = copied(package, checkouts, self.work / package) / PACKAGES[package][2]
        notes = self.work / (package + ".json")
        notes.unlink(missing_ok=True)
        wrapper = self.work / "g++"
        wrapper.write_text('#!/bin/sh\nexec %s -SE %s --as-compiler "$@"\n' % (sys.executable, pathlib.Path(__file__).resolve()))
        wrapper.chmod(0o755)
        env = self.environment(CC=str(wrapper), CXX=str(wrapper), EXTENSIONS_NOTES=str(notes), EXTENSIONS_ONLY=",".join(only), FORCE_ONLY_CPU="1", USE_CUDA="0", MAX_JOBS="1")
        with open(self.work / (package + ".log"), "w") as log:
            code = subprocess.call([*self.python, "setup.py", "build_ext", "--inplace"], cwd=folder, env=env, stdout=log, stderr=log)
        if code and not only:
            raise SystemExit("%s was not built for %s: %s" % (package, self.name, log.name))
        return {line["file"]: line for line in map(json.loads, notes.read_text().splitlines())}

    def environment(self, **more):
        path = [str(ROOT / "python")] if self.name == "rushlight" else []
        without_cuda = os.pathsep.join(folder for folder in os.environ["PATH"].split(os.pathsep) if not (pathlib.Path(folder) / "nvcc").exists())
        return {"OMP_NUM_THREADS": "1", **os.environ, "CUDA_VISIBLE_DEVICES": "", "PATH": without_cuda, **more, "PYTHONPATH": os.pathsep.join([*path, *more.get("PYTHONPATH", "").split(os.pathsep)])}

    def tested(self, package):
        """{test: PASSED, FAILED or ERROR}, without those that are skipped"""
        _, _, within, tests, others = PACKAGES[package]
        folder = self.work / package
        env = self.environment(PYTHONPATH=os.pathsep.join(map(str, [folder / within, *(self.work / other for other in others)])))
        if ".py" in tests[0]:
            codes = {test: subprocess.call([*self.python, *test.split()], cwd=folder, env=env, stdout=subprocess.DEVNULL) for test in tests}
            return {test: "FAILED" if code else "PASSED" for test, code in codes.items()}
        out = subprocess.run([*self.python, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:cacheprovider", "-o", "addopts=", *tests], cwd=folder, env=env, capture_output=True, text=True).stdout
        return {test: outcome for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", out, re.M)}


def main():
    if sys.argv[1:2] == ["--as-compiler"]:
        return compiler(sys.argv[2:])
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("checkouts", type=pathlib.Path)
    cli.add_argument("names", nargs="*")
    cli.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "extensions")
    cli.add_argument("--files", type=int, default=1)
    cli.add_argument("--whole", action="store_true")
    args, wrong = cli.parse_intermixed_args(), 0
    libraries = [Library(name, args.work.resolve()) for name in ("rushlight", "torch")]
    for library in libraries:
        library.work.mkdir(parents=True, exist_ok=True)
    ours, theirs = libraries
    for package in args.names or PACKAGES:
        start = time.time()
        here = ours.built(package, args.checkouts.resolve())
        slowest = sorted(here, key=lambda file: -here[file]["seconds"])[:args.files]
        there = theirs.built(package, args.checkouts.resolve(), () if args.whole else slowest)
        outcomes = ours.tested(package)
        passed = {test for test, outcome in outcomes.items() if outcome == "PASSED"}
        wanted = {test for test, outcome in theirs.tested(package).items() if outcome == "PASSED"} if args.whole else set(outcomes)
        for test in sorted(wanted - passed):
            print("  failed: %s" % test)
        print("%s: %d of %d tests, %d files compiled in %.1f s (%.0f s in all)" % (package, len(passed & wanted), len(wanted), len(here), sum(f["seconds"] for f in here.values()), time.time() - start))
        for file in slowest:
            a, b = here[file], there[file]
            print("  %-28s %5.1f s of %5.1f = %.2f, %9d bytes of %9d" % (file, a["seconds"], b["seconds"], a["seconds"] / b["seconds"], a["bytes"], b["bytes"]), flush=True)
            wrong += a["seconds"] > b["seconds"] / 2
        wrong += bool(wanted - passed) or not passed
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
