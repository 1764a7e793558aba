"""`python -m rushlight_compiled script.py`: as `python -m rushlight`, with every module compiled.

    PYTHONPATH=tests/parity run-clients --module rushlight_compiled     # elementwise work is put off
    RUSHLIGHT_COMPILED=graph ... run-clients --module rushlight_compiled # a backend of its own, which runs the graphs' code

For programs that print numbers: they have to be the same ones. The outermost module of a call is what torch.compile is given.
"""
import os
import runpy
import sys
import weakref

import rushlight as torch


def compile_modules(backend):
    """Module.__call__ runs compiled from now on."""
    plain, compiled, inside = torch.nn.Module.__call__, weakref.WeakKeyDictionary(), []

    def call(self, *args, **kwargs):
        if inside:
            return plain(self, *args, **kwargs)
        run = compiled.get(self)
        if run is None:
            itself = weakref.ref(self)
            run = compiled[self] = torch.compile(lambda *args, **kwargs: plain(itself(), *args, **kwargs), backend=backend)
        inside.append(self)
        try:
            return run(*args, **kwargs)
        finally:
            inside.pop()
    torch.nn.Module.__call__ = call


compile_modules((lambda module, inputs: module.forward) if os.environ.get("RUSHLIGHT_COMPILED") == "graph" else "inductor")
sys.argv[0] = "rushlight"
runpy.run_module("rushlight", run_name="__main__", alter_sys=True)
