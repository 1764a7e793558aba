"""TestCase and friends."""
import unittest

import rushlight as torch
from rushlight.testing import make_tensor  # noqa: F401

TEST_WITH_ROCM = IS_WINDOWS = IS_MACOS = IS_FBCODE = False
TEST_NUMPY = True


class TestCase(unittest.TestCase):
    """unittest's, whose assertEqual knows tensors."""

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, exact_dtype=True, **kwargs):
        torch.testing.assert_close(x, y, rtol=rtol, atol=atol, check_dtype=exact_dtype, equal_nan=True, msg=msg)


def run_tests(argv=None):
    unittest.main(argv=argv)


def parametrize(name, values):
    def decorate(fn):
        fn._parametrized = (name, values)
        return fn
    return decorate


def instantiate_parametrized_tests(cls):
    for name in list(vars(cls)):
        fn = getattr(cls, name)
        if hasattr(fn, "_parametrized"):
            argument, values = fn._parametrized
            for i, value in enumerate(values):
                def case(self, fn=fn, value=value):
                    return fn(self, **{argument: value})
                setattr(cls, "%s_%d" % (name, i), case)
            delattr(cls, name)
    return cls
