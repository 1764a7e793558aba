"""Tensors in files of other libraries, read and written in C: safetensors, GGUF, NumPy's npy and npz.

Files are written whole or not at all.  What is read from safetensors and npy files is the file's memory, mapped
privately: fast, and changes stay in memory.
"""
import json
import os

from rushlight import _C

__all__ = ["load_npy", "save_npy", "load_npz", "save_npz", "load_safetensors", "save_safetensors", "safetensors_metadata", "load_gguf", "save_gguf", "gguf_metadata"]


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


def save_safetensors(tensors, path, metadata=None):
    """Write a dictionary of tensors; each is written whole, also those that share memory. metadata: texts by name."""
    _C._save_named("safetensors", os.fspath(path), list(tensors), list(tensors.values()), metadata or {})


def safetensors_metadata(path):
    """The texts about a .safetensors file, by name."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > os.fstat(file.fileno()).st_size - 8:
            raise ValueError(f"{path} is no safetensors file: its header is longer than the file")
        return json.loads(file.read(length)).get("__metadata__", {})


def load_gguf(path):
    """The tensors of a GGUF file by name; blocks of few bits as the float32 that they stand for."""
    return dict(_C._load_named("gguf", os.fspath(path)))


def gguf_metadata(path):
    """What a GGUF file says about itself: numbers, bools, texts, lists of texts; lists of numbers are tensors."""
    return _C._gguf_metadata(os.fspath(path))


def save_gguf(tensors, path, metadata=None, types=None):
    """Write a dictionary of tensors and one of metadata as llama.cpp reads them.

    types says what a tensor's elements become: "F32", "F16", "BF16", or blocks ("Q8_0", "Q4_K", ...); a dictionary by name, others stay as their
    dtype is.  Integers in metadata are written as uint32 (int32 when negative, 64 bits when larger), floats as float32; a tensor without dimensions
    is a number of its dtype.
    """
    types = types or {}
    unknown = [name for name in types if name not in tensors]
    if unknown:
        raise KeyError(f"types of tensors that are not there: {unknown}")
    _C._save_gguf(os.fspath(path), list(tensors), list(tensors.values()), [types.get(name) for name in tensors], metadata or {})
