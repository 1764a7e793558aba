"""Helpers for tests of programs that compile."""
import contextlib
import functools
import sys
import unittest
import unittest.mock

import rushlight as torch
from rushlight._dynamo.utils import same  # noqa: F401


class CompileCounter:
    """A backend that counts what it is asked to compile; it runs it as it is."""

    def __init__(self):
        self.frame_count = self.op_count = 0

    def __call__(self, gm, example_inputs):
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in getattr(getattr(gm, "graph", None), "nodes", ()))
        return getattr(gm, "forward", gm)

    def clear(self):
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    def __init__(self, backend):
        super().__init__()
        self.backend, self.graphs = backend, []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return super().__call__(gm, example_inputs)


def rand_strided(size, stride, dtype=torch.float32, device="cpu", extra_size=0):
    """Random values of these sizes and strides; small whole numbers for integer types."""
    needed = 1 + sum((n - 1) * step for n, step in zip(size, stride)) + extra_size if all(size) else extra_size
    if dtype.is_floating_point or dtype.is_complex:
        values = torch.randn(needed, dtype=dtype, device=device)
    else:
        values = torch.randint(0, 2 if dtype == torch.bool else 10, (needed,), device=device).to(dtype)
    return torch.as_strided(values, size, stride)


def reduce_to_scalar_loss(out):
    """One number that depends on all of a result."""
    parts = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    if not parts:
        raise NotImplementedError("Don't know how to reduce", type(out))
    return sum(t.sum() / t.numel() for t in parts) / len(parts)


def requires_static_shapes(fn):
    """Shapes are what they are in each call."""
    return fn


def expectedFailureDynamic(fn):
    """Marks a test that fails with symbolic sizes, which are not there."""
    fn._expected_failure_dynamic = True
    return fn


def skipIfNotPy311(fn):
    return fn if sys.version_info >= (3, 11) else unittest.skip("needs Python 3.11")(fn)


def make_test_cls_with_patches(cls, cls_prefix, fn_suffix, *patches, **kwargs):
    """A copy of a test class whose tests run under patches: (config, name, value)."""
    made = type(cls_prefix + cls.__name__, cls.__bases__, {})
    for name in dir(cls):
        value = getattr(cls, name)
        if name.startswith("test_") and callable(value):
            @functools.wraps(value)
            def under_patches(*args, _test=value, **kwargs):
                with contextlib.ExitStack() as stack:
                    for config, key, setting in patches:
                        stack.enter_context(unittest.mock.patch.object(config, key, setting))
                    return _test(*args, **kwargs)
            setattr(made, name + fn_suffix, under_patches)
        elif name not in dir(made):
            setattr(made, name, value)
    return made
