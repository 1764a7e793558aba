"""Profiling of torch.mps."""


def start(mode="interval", wait_until_completed=False):
    raise RuntimeError("Cannot start profiling without MPS backend.")


def stop():
    raise RuntimeError("Cannot stop profiling without MPS backend.")
