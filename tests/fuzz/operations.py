#!/usr/bin/env python3
"""Call every operation with arguments drawn from its schema, under the sanitizers, and print each call that breaks something.

    tests/fuzz/operations.py --package build-san/package [--calls N | --seconds N] [--seed S] [--first I] [--odd] [NAME...]
    tests/fuzz/operations.py --package build-san/package --line 'op("add.Tensor")(t((2,), "float32", 1), 2)'

A call is one line of Python, made of the helpers of lines.py (op, t, backward, ...), so that what was found is repeated with --line.
Its forms: plain, out=, in place, on meta tensors, on sparse ones, with a backward pass (and a second one through it), by overload
or by name as programs write it; indexing, storages, conversions and such are called, too (PYTHON in lines.py). drawing.py draws: arguments
are drawn freshly, or are those of a call that succeeded with one of them changed; the first of these are the lines of
operations.txt. With --odd most calls have a number at the end of its range: what overflows is found sooner. An error is the expected end of most calls. A finding is a crash, a report of a sanitizer, a failed assertion
inside, an error without a reason, words on the terminal, or a call that takes more than LIMIT seconds of a processor. The same seed makes the same calls.

Children of one warm process make CHUNK calls each; the parent sees in shared memory which call a child is at.
"""
import argparse
import collections
import mmap
import os
import pathlib
import re
import signal
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
LIMIT, CHUNK, ROOM = 20, 2000, 1 << 16
PATIENCE = 600  # seconds for which a call may wait for something; waiting for a processor is not counted
ENOUGH = 3  # findings of one operation, after which it is left out

# ---- children ----

EXPECTED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError, MemoryError, AttributeError, KeyError, ZeroDivisionError, OSError, BufferError, EOFError)


def child(caller, first, last, board, out, told):
    """Makes the calls; a finding that does not kill it is written to `told`."""
    said = os.open(REPORTS / f"said.{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    told_so_far = 0
    os.makedirs(REPORTS / "files", exist_ok=True)
    os.chdir(REPORTS / "files")  # what operations write comes here
    for i in range(first, last):
        drawn = caller.draw(i, out)
        if not drawn:
            continue
        name, line, given = drawn
        text = f"{name}\t{line}".encode()[:ROOM - 64]
        board[16:16 + len(text)] = text
        board[8:16] = len(text).to_bytes(8, "little")
        board[0:8] = (i + 1).to_bytes(8, "little")
        began = time.process_time()
        try:
            torch.manual_seed(i)
            run(line)
            caller.remember(i, name, given)
            board[ROOM - 8:ROOM] = (int.from_bytes(board[ROOM - 8:ROOM], "little") + 1).to_bytes(8, "little")
        except EXPECTED as error:
            if "INTERNAL ASSERT" in str(error) or not str(error) and type(error) is not MemoryError:  # Python's own says nothing
                print(f"{name}\t{line}\t{type(error).__name__}: {error}", file=told, flush=True)
        except BaseException as error:
            if str(error) == "Torch not compiled with CUDA enabled":  # PyTorch's AssertionError
                continue
            print(f"{name}\t{line}\t{type(error).__name__}: {error}", file=told, flush=True)
        size = os.fstat(said).st_size
        if size > told_so_far:  # LAPACK's words, say
            print(f"{name}\t{line}\tprinted: {os.pread(said, 300, told_so_far).decode(errors='replace')!r}", file=told, flush=True)
            told_so_far = size
        if time.process_time() - began > LIMIT:
            print(f"{name}\t{line}\tslow: {time.process_time() - began:.1f} s", file=told, flush=True)
    os._exit(0)


def processor(pid):
    """Seconds of a processor that the child has used, and whether it wants one; 0 and False where that is not told."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, False
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), words[0] == "R"


def reason(pid, reports):
    """What the sanitizers wrote about a process that died: the first line and the frames inside the library."""
    text = ""
    for path in (reports / f"report.{pid}", reports / f"said.{pid}"):
        text += path.read_text(errors="replace") if path.exists() else ""
        path.unlink(missing_ok=True)
    head = re.search(r".*(?:ERROR: |runtime error: |a bug in the library: ).*", text)
    frames = re.findall(r"#\d+ \S+ in (\S+) (\S*/(?:src|python/_C)/\S+)", text)[:6]
    return (head.group().strip() if head else "no report") + "".join(f"\n      {f} {w[w.find('/src/') if '/src/' in w else w.find('/python/'):]}" for f, w in frames)


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--package", type=pathlib.Path, required=True)
    cli.add_argument("--calls", type=int, default=0)
    cli.add_argument("--seconds", type=float, default=0)
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--first", type=int, default=0)
    cli.add_argument("--odd", action="store_true")
    cli.add_argument("--line")
    cli.add_argument("--reports", type=pathlib.Path)
    cli.add_argument("names", nargs="*")
    args = cli.parse_args()
    reports = (args.reports or args.package.parent / "fuzz-reports").resolve()
    if "RUSHLIGHT_FUZZED" not in os.environ:  # once more, with the sanitizers loaded first
        import sanitizers
        env = sanitizers.environment(reports)
        env["ASAN_OPTIONS"] += ":handle_abort=1:max_allocation_size_mb=1500:soft_rss_limit_mb=3000:quarantine_size_mb=32:fast_unwind_on_malloc=1:malloc_context_size=4"
        env["UBSAN_OPTIONS"] += ":halt_on_error=1"
        if args.line:
            for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
                env[key] = re.sub(r":?log_path=[^:]*", "", env[key])
        env.update(RUSHLIGHT_FUZZED="1", PYTHONPATH=str(args.package.resolve()), OMP_NUM_THREADS="1", PYTHONHASHSEED="0")
        os.execve(sys.executable, [sys.executable, *sys.argv], env)
    global torch, run, REPORTS
    REPORTS = reports
    import rushlight as torch
    from drawing import Caller
    from lines import run
    warnings.simplefilter("ignore")
    if args.line:
        print(run(args.line))
        return 0
    caller = Caller(args.names, args.seed, args.odd)
    board = mmap.mmap(-1, ROOM)
    told = open(reports / "told.txt", "w+")
    out, findings, count, at, began = set(), [], collections.Counter(), args.first, time.time()
    read = slowest = 0

    def note(name, line, why):
        findings.append((name, line, why))
        count[name] += 1
        if count[name] >= ENOUGH:
            out.add(name)
        print(f"FINDING {line}\n    {why}", flush=True)

    while (not args.calls or at - args.first < args.calls) and (not args.seconds or time.time() - began < args.seconds):
        last = (at // CHUNK + 1) * CHUNK
        if args.calls:
            last = min(last, args.first + args.calls)
        board[0:8] = at.to_bytes(8, "little")
        pid = os.fork()
        if not pid:
            child(caller, at, last, board, out, told)
        seen_at, since, spent, status = None, time.time(), 0, None
        while status is None:
            done, code = os.waitpid(pid, os.WNOHANG)
            now = int.from_bytes(board[0:8], "little")
            used, runs = processor(pid)
            if now != seen_at:
                seen_at, since, spent = now, time.time(), used
            elif runs:
                since = time.time()
            slowest = max(slowest, used - spent)
            if done:
                status = code
            elif used - spent > LIMIT or time.time() - since > PATIENCE:
                os.kill(pid, signal.SIGABRT)
                since = time.time() + 30
            else:
                time.sleep(0.1)
        told.seek(read)
        for row in told.read().splitlines():
            name, line, why = row.split("\t", 2)
            note(name, line, why)
        read = told.tell()
        now = int.from_bytes(board[0:8], "little")
        if not status:
            (reports / f"said.{pid}").unlink(missing_ok=True)
        else:
            name, _, line = bytes(board[16:16 + int.from_bytes(board[8:16], "little")]).decode(errors="replace").partition("\t")
            note(name, line, f"ended by {'signal %d' % (status & 127) if status & 127 else 'exit %d' % (status >> 8)}: {reason(pid, reports)}")
        at = now
        if at // CHUNK % 10 == 0 and at % CHUNK == 0:
            print(f"{at - args.first} calls, {time.time() - began:.0f} s, {len(findings)} findings", flush=True)
    succeeded = int.from_bytes(board[ROOM - 8:ROOM], "little")
    print(f"{at - args.first} calls over {len(caller.names)} operations, {succeeded} of them without an error, {time.time() - began:.0f} s; slowest {slowest:.1f} s; {len(findings)} findings"
          + (f"; left out after {ENOUGH}: {', '.join(sorted(out))}" if out else ""))
    return len(findings) > 0


if __name__ == "__main__":
    sys.exit(main())
