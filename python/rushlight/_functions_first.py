"""Packages in which a function is called like the file that it is in.

PyTorch imports such a file with its package, so that torch.nn.utils.weight_norm is the function whatever is imported later.
Here files are loaded when they are asked for, and Python's import then binds the file's module to the name: these packages
bind the function instead.
"""
import sys
import types


def functions_first(package, *names):
    """In `package`, let each of the names mean the function of that name in the file of that name."""
    class Package(types.ModuleType):
        def __setattr__(self, name, value):
            if name in names and isinstance(value, types.ModuleType):
                value = getattr(value, name)
            super().__setattr__(name, value)

    sys.modules[package].__class__ = Package
