"""Marks for NVIDIA's profilers, which nothing reads here."""
from rushlight._ranges import ranges

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


def range_push(msg):
    return -2


def range_pop():
    return -2


def range_start(msg):
    return 0


def range_end(range_id):
    return None


def mark(msg):
    return -2


range = ranges(range_push, range_pop)
