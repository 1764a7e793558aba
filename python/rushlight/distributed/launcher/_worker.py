"""One process of a job, as its launcher sees it: a program, or a function of the launcher's own program."""
import collections
import ctypes
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

from ..elastic.multiprocessing.errors import write_error

__all__ = ["FunctionWorker", "Worker"]


def _die_with_launcher():
    """In the child: SIGKILL when the launcher's thread ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Worker:
    """A program. `redirects` and `tee` are bits: 1 its output, 2 its errors."""

    def __init__(self, command, env, folder, redirects, tee, shown=True):
        self._begin(env)
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_die_with_launcher)
        self.pid, self.pumps = self.process.pid, []
        for bit, name, pipe, out in ((1, "stdout", self.process.stdout, sys.stdout), (2, "stderr", self.process.stderr, sys.stderr)):
            log = self._log(folder, name) if folder is not None and (redirects | tee) & bit else None
            visible = shown and (not redirects & bit or bool(tee & bit))
            self._follow(self._pump, pipe, log, out if visible else None, name == "stderr")
        self._follow(self._wait)

    def _begin(self, env):
        self.rank, self.tail, self.code, self.ended, self.wrote = int(env["RANK"]), collections.deque(maxlen=40), None, None, {}
        self.error_file = env.get("TORCHELASTIC_ERROR_FILE")

    def _follow(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        if function == self._pump:
            self.pumps.append(thread)

    @staticmethod
    def _log(folder, name):
        os.makedirs(folder, exist_ok=True)
        return open(os.path.join(folder, name + ".log"), "wb")

    def _pump(self, pipe, log, out, remember):
        with pipe:
            for line in iter(pipe.readline, b""):
                if log:
                    log.write(line)
                    log.flush()
                if out:
                    out.buffer.write(line)
                    out.flush()
                if remember:
                    self.tail.append(line.decode(errors="replace"))
        if log:
            log.close()

    def _wait(self):
        """Notes when it ended: of those that failed the first is the cause."""
        code = self.process.wait()
        self.ended, self.code = time.time(), code

    def keep_result(self):
        """What it returned becomes `value`; a program returns nothing."""
        self.value = None

    def poll(self):
        """Its exit code, or minus the signal's number; None: it runs."""
        return self.code

    def error(self):
        """What it wrote about an exception, or {}."""
        if not self.wrote and self.error_file:
            try:
                with open(self.error_file) as file:
                    about = json.load(file)
                about.setdefault("at", float(about["message"]["extraInfo"]["timestamp"]))
                self.wrote = about
            except (OSError, ValueError, KeyError, TypeError):
                return {}  # nothing, or not yet to its end
        return self.wrote

    def failed_at(self):
        return min(self.ended, self.error().get("at", self.ended))

    def send(self, number):
        """A signal to the process and its children."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # it has gone, or has no group yet
            if self.code is None:
                os.kill(self.pid, number)

    def finish(self, end):
        """What it said is read to the end; not longer than until `end`, since a process that it left behind may keep its output open."""
        for thread in self.pumps:
            thread.join(max(0.0, end - time.monotonic()))
        self.pumps = []     # who asks again does not wait again

    def last_words(self):
        return "".join(self.tail)


def _run(function, args, env, results):
    """In the child of a FunctionWorker."""
    os.setsid()
    _die_with_launcher()
    os.environ.update(env)
    try:
        value = function(*args)
    except BaseException as error:
        write_error(error)
        raise
    with open(results, "wb") as file:
        pickle.dump(value, file)


class FunctionWorker(Worker):
    """A function, in a process of `multiprocessing`."""

    def __init__(self, function, args, env, results, start_method):
        self._begin(env)
        self.results, self.pumps = results, []
        self.process = multiprocessing.get_context(start_method).Process(target=_run, args=(function, args, env, results))
        self.process.start()
        self.pid = self.process.pid
        self._follow(self._wait)

    def _wait(self):
        while self.process.exitcode is None:
            self.process.join(0.05)
        self.ended, self.code = time.time(), self.process.exitcode

    def last_words(self):
        return self.error().get("message", {}).get("extraInfo", {}).get("py_callstack", "")

    def keep_result(self):
        with open(self.results, "rb") as file:
            self.value = pickle.load(file)
