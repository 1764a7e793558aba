"""Docstrings of public names: parameters, shapes, examples that are true."""
import importlib.util
import inspect
import pathlib
import warnings

import rushlight.as_torch  # noqa: F401, for examples that import from torch
import torch

_spec = importlib.util.spec_from_file_location("docstrings", pathlib.Path(__file__).parent.parent / "docstrings.py")
docstrings = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(docstrings)


def test_every_name_is_told():
    names = list(docstrings.names())
    assert len(names) > 440
    lacking = ["%s.%s: %s" % (space, name, lacks) for space, name, thing in names for lacks in docstrings.missing(space, name, thing)]
    assert not lacking + list(docstrings.untold())


def test_examples_are_true():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")    # lazy modules say that they are new
        false = [docstrings.run(torch, space + "." + name, inspect.getdoc(thing)) for space, name, thing in docstrings.names()]
    assert not "".join(false)


def test_what_is_missing_is_found():
    def scale(input, factor):
        """Times factor."""
    assert docstrings.missing("linalg", "scale", scale) == ["parameter input", "shapes", "an example"]
    scale.__doc__ += "\n\nShapes: input (*).\n\n>>> 1 + 1\n3\n"
    assert docstrings.missing("linalg", "scale", scale) == [] and "Expected" in docstrings.run(torch, "scale", scale.__doc__)
