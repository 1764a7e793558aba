#!/usr/bin/env python3
"""Compare rushlight with PyTorch, operation by operation: run.py --oracle FOLDER [--sanitized FOLDER] [OPERATION...]

FOLDER has opinfo.py, which calls PyTorch's own operator database, and setup-oracle, which makes an environment with
PyTorch where none is given. What passes is kept in passes.tsv beside this file: how many checks of each kind an
operation passes. The numbers only grow: a run that finds less fails, one that finds more writes it down. With
--sanitized the list stays as it is, and what the sanitizers report fails the run.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import sanitizers  # noqa: E402

PASSES = HERE / "passes.tsv"
COLUMNS = ("samples", "gradients", "errors", "other dtypes", "forward", "vmap")
MAIN = "float32,float64,int64,bool"
OTHERS = "bfloat16,float16,complex64,complex128,uint8,int32"


def interpreter(oracle, wanted):
    """A Python that has PyTorch: the one asked for, this one, or one that setup-oracle makes."""
    for python in (wanted, sys.executable):
        if python and not subprocess.run([python, "-c", "import torch, torch.testing, expecttest"], capture_output=True).returncode:
            return python
    if wanted:
        sys.exit(f"parity: {wanted} has no PyTorch")
    home = ROOT / ".oracle"
    subprocess.run([str(oracle / "setup-oracle"), str(home)], check=True, env={**os.environ, "PYTHON": sys.executable})
    return str(home / "bin" / "python")


class Comparison:
    """One run of a script over some operations, in several processes."""

    def __init__(self, python, oracle, env, jobs, scratch, reports):
        self.python, self.oracle, self.env, self.jobs, self.scratch, self.reports = python, oracle, env, jobs, scratch, reports

    def operations(self, wanted):
        listed = subprocess.run([self.python, str(self.oracle / "opinfo.py"), "--list"], capture_output=True, text=True, check=True).stdout
        rows = [line.split("\t") for line in listed.splitlines()]
        names = [name + (f".{variant}" if variant else "") for name, variant, *_ in rows]
        return [name for name in names if not wanted or any(w in name for w in wanted)]

    def results(self, script, names, *options):
        """The entries of the JSON files that the processes write, one per operation."""
        running = []
        for k in range(min(self.jobs, len(names))):
            out = self.scratch / f"parity-{os.getpid()}-{k}.json"
            command = [self.python, *script, "--ops", ",".join(names[k::self.jobs]), "--json", str(out), *options]
            errors = open(self.reports / f"report.errors-{k}", "ab") if self.reports else None
            running.append((out, subprocess.Popen(command, env=self.env, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=errors)))
        found = []
        for out, process in running:
            process.wait()
            if not out.exists():
                sys.exit(f"parity: {' '.join(script)} gave no results (exit status {process.returncode})")
            found += json.loads(out.read_text())["results"]
            out.unlink()
        return [r for r in found if r["status"] not in ("unsupported", "skipped")]


def tables(comparison, names, samples, sanitized):
    """operation -> {column: (passed, total)}; and what failed. Under the sanitizers everything is called, and slowly."""
    opinfo, transforms = [str(comparison.oracle / "opinfo.py")], [str(HERE / "transforms.py"), str(comparison.oracle)]
    runs = ((opinfo, ("--grad", "--dtypes", MAIN), {"samples": "samples", "gradients": "gradients", "errors": "errors"}),
            (opinfo, ("--dtypes", OTHERS), {"samples": "other dtypes"}),
            (transforms, ("--dtypes", "float64", "--max-samples", "3"), {"samples": "forward", "gradients": "vmap"}))
    slow = ("--timeout-per-op", "600" if sanitized else "120")  # other work on the machine is no loss
    found, failures = {}, []
    for script, options, kinds in runs:
        extra = ("--max-samples", str(samples)) if samples and "--max-samples" not in options else ()
        more = ("--grad",) if sanitized and options[1] == OTHERS else ()
        for r in comparison.results(script, names, *options, *extra, *slow, *more):
            row = found.setdefault(r["op"], {})
            row.update({column: r[kind] for kind, column in kinds.items()})
            failures += [f"{r['op']}: {text}" for text in r["failures"]]
            failures += [f"{r['op']}: {r['status']}"] if r["status"] in ("crash", "timeout") else []
    return found, failures


def kept():
    if not PASSES.exists():
        return {}
    rows = [line.split("\t") for line in PASSES.read_text().splitlines()[1:]]
    return {name: [int(n) for n in counts] for name, *counts in rows}


def compare(found):
    """The passes that were lost, and the list with what is new."""
    old, lost = kept(), []
    new = dict(old)
    for name, row in found.items():
        now = [row.get(column, (0, 0))[0] for column in COLUMNS]
        before = old.get(name, [0] * len(COLUMNS))
        lost += [f"{name}: {column}: {n}, it was {b}" for column, n, b in zip(COLUMNS, now, before) if n < b]
        new[name] = [max(n, b) for n, b in zip(now, before)]
    return lost, new


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oracle", type=pathlib.Path, required=True)
    parser.add_argument("--python", help="an interpreter with PyTorch (default: one that is found or made)")
    parser.add_argument("--package", type=pathlib.Path, default=ROOT / "python", help="the folder rushlight is imported from")
    parser.add_argument("--sanitized", type=pathlib.Path, metavar="FOLDER", help="the library is sanitized: collect its reports there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--max-samples", type=int, help="fewer samples than usual; the list is not changed then")
    parser.add_argument("operations", nargs="*", help="only those whose name contains one of these")
    options = parser.parse_args()

    oracle = options.oracle.resolve()
    if not (oracle / "opinfo.py").exists():
        sys.exit(f"parity: there is no opinfo.py in {oracle}; say where it is: make parity ORACLE=...")
    env = {**os.environ, "PYTHONPATH": str(options.package.resolve())}
    reports = options.sanitized
    if reports:
        env = {**sanitizers.environment(reports), "PYTHONPATH": env["PYTHONPATH"]}
    comparison = Comparison(interpreter(oracle, options.python), oracle, env, options.jobs, reports or ROOT, reports)
    found, failures = tables(comparison, comparison.operations(options.operations), options.max_samples, bool(reports))
    for text in failures:
        print(text)
    for column in COLUMNS:
        counts = [row[column] for row in found.values() if column in row]
        print(f"{column}: {sum(p for p, _ in counts)} of {sum(t for _, t in counts)}")
    whole = sum(all(p == t for p, t in row.values()) for row in found.values())
    print(f"operations without a difference: {whole} of {len(found)}")
    if reports:
        told = sanitizers.told(reports)
        print(*told, f"reports of the sanitizers: {len(told)}, with their traces in {reports}", sep="\n")
        return 1 if told else 0
    lost, new = compare(found)
    for text in lost:
        print(f"lost: {text}")
    if not lost and not options.max_samples:
        lines = ["\t".join(map(str, [name, *counts])) for name, counts in sorted(new.items())]
        PASSES.write_text("\n".join(["\t".join(["operation", *COLUMNS]), *lines]) + "\n")
    print(f"passes lost: {len(lost)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
