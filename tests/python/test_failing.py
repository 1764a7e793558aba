"""The snippets of test_behaviour.py with each of their allocations failing in turn: an error or the result, and nothing left behind."""
import contextlib
import ctypes
import io

import pytest
from places import BUILD
from test_behaviour import ROWS, answer

import rushlight as torch

LIBRARY = BUILD / "librushlight.so.0"
MOST = 60   # allocations of one snippet


@pytest.fixture(scope="module")
def library():
    if not LIBRARY.exists():
        pytest.skip("the extension's own library is not in the build folder")
    found = ctypes.CDLL(str(LIBRARY))
    found.rush_memory_fail_at.argtypes = [ctypes.c_uint64, ctypes.c_bool]
    found.rush_memory_count.restype = ctypes.c_uint64
    found.rush_error.restype = ctypes.c_char_p
    return found


def test_snippets_survive_failing_allocations(library):
    wrong, failed = [], 0
    for snippet, _ in ROWS:
        with contextlib.redirect_stdout(io.StringIO()):
            right = answer(snippet)
            first = library.rush_memory_count()
            answer(snippet)
            for n in range(1, min(library.rush_memory_count() - first, MOST) + 1):
                got = answer(snippet, before=lambda: library.rush_memory_fail_at(n, False), after=lambda: library.rush_memory_fail_at(0, False))
                failed += "not enough memory" in str(got)
                left = library.rush_error()
                library.rush_error_clear()
                if left:
                    wrong.append(f"{snippet}: allocation {n} leaves the error {left}")
    assert not wrong, "\n".join(wrong)
    assert failed > 1000
