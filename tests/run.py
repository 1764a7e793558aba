#!/usr/bin/env python3
"""Run the tests of a build directory, those in C beside those in Python, and print one summary line.

    tests/run.py --build build [--sanitized] [NAME...]

NAME keeps the tests whose name contains one of them. The C tests run once more with the kernels of each lower instruction
set that was compiled, and once without oneDNN. The Python tests run in a virtual environment inside the build directory, made on first use with
NumPy and pytest, one file more at a time than there are processors (pytest-xdist), since much of it is waiting, or in one process where NAME is given. With --sanitized the C tests run again with allocations that fail (tests/c/suite/suite.h), and what the
sanitizers report fails the Python tests.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import venv

import sanitizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["numpy", "pytest", "pytest-xdist"]
UNSANITIZED = ["--ignore=tests/python/test_install.py",  # builds the library anew, without the sanitizers
               "--ignore=tests/python/test_adding.py",   # links the library again, for a Python without the sanitizers
               "--ignore=tests/python/test_growth.py",   # counts the process's memory, which the sanitizers keep
               "--deselect=tests/python/test_lifetime.py::test_ten_thousand_steps_leave_memory_as_it_was",  # the same
               "--deselect=tests/python/test_ghost.py::test_the_host_cannot_touch_its_memory",  # ends by a signal, which is the sanitizer's
               "--deselect=tests/python/test_cuda.py::test_the_host_cannot_touch_its_memory_emulated"]  # the same
# Threads that wait leave the processor to those that work: on a busy machine the tests take a fraction of the time.
PATIENT = {"OMP_WAIT_POLICY": "passive"}
# Signals are the sanitizer's, not cmocka's, so that a crash is never taken for a failed assertion.
ASAN_OPTIONS = ":".join(["detect_leaks=1", "allocator_may_return_null=1", *(f"handle_{s}=2" for s in ["segv", "sigbus", "sigfpe", "sigill", "abort"])])


def c_tests(build, names, sanitized):
    """(name, command, environment) of each run of a cmocka program, or of another test that meson knows."""
    lower = [] if sanitized else lower_levels(build)
    for test in introspect(build, "--tests"):
        name = test["name"]
        if names and not any(n in name for n in names) or sanitized and not is_unit(test):
            continue
        env = {**PATIENT, **os.environ, **test["env"], "CMOCKA_MESSAGE_OUTPUT": "STDOUT"}
        if sanitized:
            env.update(ASAN_OPTIONS=ASAN_OPTIONS, UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
        command = [str(build / part) if (build / part).exists() else part for part in test["cmd"]]  # what was built, by its full path
        yield name, command, env
        if sanitized:
            yield name + " --failing", command + ["--failing", "1"], env
        elif is_unit(test):
            for level in lower:
                yield f"{name} at level {level}", command, {**env, "RUSHLIGHT_ISA": level}
            yield name + " without oneDNN", command, {**env, "RUSHLIGHT_ONEDNN": "0"}


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", what, str(build)], capture_output=True, text=True, check=True).stdout)


def is_unit(test):
    return test["name"].startswith("test_")


def lower_levels(build):
    """The instruction sets that were compiled, below the one that this processor gets."""
    compiled = next(option["value"] for option in introspect(build, "--buildoptions") if option["name"] == "isa")
    told = subprocess.run([build / "rushlight", "info"], capture_output=True, text=True, check=True).stdout
    level = re.search(r"instruction set: x86-64-v(\d)", told)
    return [l for l in compiled if level and l < level.group(1)]


def c_test(name, command, env):
    """(passed, failed, what is to be printed) of one program."""
    done = subprocess.run(command, env=env, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    ran = re.search(r"(\d+) test\(s\) run", done.stdout)
    lost = len(re.findall(r"^\[  FAILED  \] \w+$", done.stdout, re.M))
    wrong = len(re.findall(r"^FAIL \w+: \d", done.stdout, re.M))
    bad = max(lost // 2 if lost > 1 else lost, wrong, 1) if done.returncode else 0
    good = max(int(ran.group(1)) - bad, 0) if ran else int(not done.returncode)
    told = f"{'ok  ' if not done.returncode else 'FAIL'} {name}: {good} passed, {bad} failed\n"
    return good, bad, told + (done.stdout[-6000:] + "\n" if done.returncode else "")


def environment(build):
    """The Python of the virtual environment inside the build directory, which is made on first use."""
    home = build / "venv"
    python = home / "bin" / "python"
    complete = home / "complete"
    if not complete.exists() or complete.read_text() != str(PACKAGES):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], check=True)
        complete.write_text(str(PACKAGES))
    return python


def python_tests(build, names, sanitized, log):
    """(passed, failed) of pytest over tests/python, which writes to the file `log`."""
    python = environment(build)
    env, package = {**PATIENT, **os.environ}, ROOT / "python"
    if sanitized:
        env, package = sanitizers.environment(build / "reports"), build / "package"
        subprocess.run([ROOT / "tools" / "devlink", build, package], check=True)
    env = {**env, "PYTHONPATH": str(package), "RUSHLIGHT_BUILD": str(build)}
    report = build / "pytest.xml"
    command = [python, "-m", "pytest", "-q", "--tb=short", "--no-header", f"--junitxml={report}", "tests/python"]
    if sanitized:
        command += UNSANITIZED
    command += ["-k", " or ".join(names)] if names else ["-n", str((os.cpu_count() or 1) + 1), "--dist", "loadfile", "--no-loadscope-reorder"]
    done = subprocess.run([str(c) for c in command], env=env, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode == 5:  # nothing of that name
        return 0, 0
    counts = re.search(r'errors="(\d+)" failures="(\d+)" skipped="(\d+)" tests="(\d+)"', report.read_text()) if report.exists() else None
    if not counts:
        return 0, 1
    errors, failures, skipped, tests = map(int, counts.groups())
    if sanitized:
        told = sanitizers.told(build / "reports")
        print(*told, f"reports of the sanitizers: {len(told)}, with their traces in {build / 'reports'}", sep="\n", file=log, flush=True)
        errors += len(told)
    return tests - errors - failures - skipped, max(errors + failures, int(done.returncode != 0))


def follow(path, running):
    """Prints what is written to a file, until that is done."""
    with open(path, errors="replace") as f:
        while True:
            last = running.done()
            sys.stdout.write(f.read())
            sys.stdout.flush()
            if last:
                return running.result()
            time.sleep(0.2)


def run(build, names, sanitized):
    """(passed, failed) of all tests. The C tests run beside pytest, much of which is waiting, on all processors but one."""
    path = build / "pytest.log"
    jobs = max((os.cpu_count() or 1) - 1, 1)
    with open(path, "w") as log, concurrent.futures.ThreadPoolExecutor(1) as beside, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        python = beside.submit(python_tests, build, names, sanitized, log)
        passed = failed = 0
        for good, bad, told in pool.map(lambda test: c_test(*test), c_tests(build, names, sanitized)):
            print(told, end="", flush=True)
            passed, failed = passed + good, failed + bad
        good, bad = follow(path, python)
        return passed + good, failed + bad


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    cli.add_argument("--sanitized", action="store_true")
    cli.add_argument("--environment", action="store_true", help="only make the virtual environment and print its Python")
    cli.add_argument("names", nargs="*")
    args = cli.parse_args()
    if args.environment:
        print(environment(args.build.resolve()))
        return 0
    passed, failed = run(args.build.resolve(), args.names, args.sanitized)
    print(f"{passed} passed, {failed} failed")
    return failed != 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
