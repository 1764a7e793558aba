"""Helpers of the code generator."""


def is_big_gpu(index=0):
    return False
