"""Snippets of Python and what PyTorch answers to them: values, dtypes, strides, printing, classes and texts of errors.

Each line of behaviour.tsv, autograd.tsv, callers.tsv and unseen.tsv (what programs by others were seen to do) is a test. Another
one is a snippet whose answer PyTorch gave: tests/snippets.py runs the tables under both, and writes answers.
"""
import pytest
import snippets

import rushlight as torch

ROWS = snippets.rows("behaviour", "autograd", "callers", "quantized")


def answer(snippet, before=lambda: None, after=lambda: None):
    return snippets.answer(torch, snippet, before, after)


@pytest.mark.parametrize("snippet,wanted", ROWS + snippets.rows("unseen"))
def test_answer(snippet, wanted):
    got = answer(snippet)
    if not snippets.agrees(got, wanted):
        assert got == wanted
