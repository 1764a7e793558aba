"""Tensors in files of other libraries, read and written in C: safetensors, NumPy's npy and npz.

Files are written whole or not at all.  What is read from safetensors and npy files is the file's memory, mapped
privately: fast, and changes stay in memory.
"""
import os

from rushlight import _C

__all__ = ["load_npy", "save_npy", "load_npz", "save_npz", "load_safetensors", "save_safetensors"]


def load_npy(path):
    """The array of an .npy file; either byte order, rows or columns first."""
    return _C._load_npy(os.fspath(path))


def save_npy(tensor, path):
    """Write one tensor as NumPy does."""
    _C._save_npy(os.fspath(path), tensor)


def load_npz(path):
    """The arrays of an .npz file by name, stored or compressed."""
    return dict(_C._load_named("npz", os.fspath(path)))


def save_npz(tensors, path):
    """Write a dictionary of tensors as numpy.savez does."""
    _C._save_named("npz", os.fspath(path), list(tensors), list(tensors.values()))


def load_safetensors(path):
    """The tensors of a .safetensors file by name."""
    return dict(_C._load_named("safetensors", os.fspath(path)))


def save_safetensors(tensors, path):
    """Write a dictionary of tensors; each is written whole, also those that share memory."""
    _C._save_named("safetensors", os.fspath(path), list(tensors), list(tensors.values()))
