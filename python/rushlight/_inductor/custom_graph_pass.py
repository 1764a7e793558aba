"""Passes over graphs that a program brings itself."""
import abc
import hashlib

__all__ = ["CustomGraphPass", "CustomGraphModulePass", "get_hash_for_files"]


class CustomGraphPass(abc.ABC):
    """A pass over a graph; uuid() says which, for caches."""

    @abc.abstractmethod
    def __call__(self, graph):
        ...

    @abc.abstractmethod
    def uuid(self):
        ...


class CustomGraphModulePass(CustomGraphPass):
    """A pass over a graph module."""


def get_hash_for_files(paths, extra=""):
    """A number for what files contain."""
    hasher = hashlib.sha256(extra.encode("utf-8"))
    for path in paths:
        with open(path, "rb") as f:
            hasher.update(f.read())
    return hasher.digest()
