"""Shared by modes."""
import rushlight as torch


def all_same_mode(modes):
    return all(tuple(mode == modes[0] for mode in modes))


def no_dispatch():
    return torch._C._DisableTorchDispatch()
