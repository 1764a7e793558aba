"""Python under the sanitizers: the environment in which an unsanitized interpreter loads a sanitized library, and what they reported."""
import os
import subprocess


def environment(reports):
    """os.environ with the sanitizers loaded first; their reports go to files of the folder, which is emptied. Leaks are the interpreter's own."""
    reports.mkdir(parents=True, exist_ok=True)
    for old in reports.glob("report.*"):
        old.unlink()
    where = lambda name: subprocess.run(["gcc", f"-print-file-name={name}.so"], capture_output=True, text=True, check=True).stdout.strip()
    return {**os.environ, "LD_PRELOAD": f"{where('libasan')} {where('libubsan')}",
            "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:log_path={reports.resolve()}/report",
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports.resolve()}/report"}


def told(reports):
    """The lines that say what is wrong, each once."""
    lines = [line for path in sorted(reports.glob("report.*")) for line in path.read_text(errors="replace").splitlines()]
    return sorted({line for line in lines if "runtime error:" in line or "ERROR: " in line})
