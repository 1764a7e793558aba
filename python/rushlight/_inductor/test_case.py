"""Test cases of compiled code."""
from rushlight.testing._internal.common_utils import TestCase as _TestCase

from .utils import fresh_cache


class TestCase(_TestCase):
    """A test that finds nothing compiled before it."""

    def run(self, result=None):
        with fresh_cache():
            return super().run(result)


def run_tests(needs=()):
    from rushlight.testing._internal import common_utils
    common_utils.run_tests()
