"""Helpers for tests of programs that compile."""
import contextlib
import functools
import random
import re
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


class EagerAndRecordGraphs:
    """A backend that keeps what it is asked to compile and runs it as it is."""

    def __init__(self):
        self.graphs = []

    def __call__(self, gm, example_inputs):
        self.graphs.append(gm)
        return getattr(gm, "forward", gm)


def dummy_fx_compile(gm, example_inputs):
    """A backend that runs a graph as it is."""
    return gm.forward


def clone_me(x):
    """A copy that requires a gradient where x does."""
    return None if x is None else x.detach().clone().requires_grad_(x.requires_grad)


def remove_optimized_module_prefix(name):
    return name.removeprefix("_orig_mod.")


def collect_results(model, prediction, loss, example_inputs):
    """[prediction, loss, gradients, parameters, buffers, gradients of inputs...] of one step."""
    parameters = {remove_optimized_module_prefix(name): parameter for name, parameter in model.named_parameters()}
    grads = {name + ".grad": parameter.grad for name, parameter in parameters.items()}
    buffers = {remove_optimized_module_prefix(name): buffer for name, buffer in model.named_buffers()}
    inputs = [x.grad for x in torch.utils._pytree.tree_leaves(example_inputs) if isinstance(x, torch.Tensor) and x.grad is not None]
    return [prediction, loss, grads, parameters, buffers, *inputs]


def requires_bwd_pass(out):
    """Does any tensor of a result require a gradient?"""
    if isinstance(out, torch.Tensor):
        return out.requires_grad
    if isinstance(out, (list, tuple)):
        return any(requires_bwd_pass(x) for x in out)
    if out is None or isinstance(out, int):
        return False
    raise NotImplementedError("Don't know how to reduce", type(out))


def reset_rng_state(use_xla=False):
    torch.manual_seed(1337)
    random.seed(1337)


def format_speedup(speedup, pvalue, is_correct=True, pvalue_threshold=0.1):
    """A ratio of times, and whether it is more than chance."""
    if not is_correct:
        return "ERROR"
    return "%.3fx SAME" % speedup if pvalue > pvalue_threshold else "%.3fx p=%.2f" % (speedup, pvalue)


def check_dynamic_shape_capture():
    """Sizes are numbers here, never symbols."""
    return False


def strip_comment(code):
    """Without the lines that are comments."""
    return "\n".join(line for line in code.split("\n") if not line.lstrip().startswith("#"))


def remove_trailing_space(code):
    return "\n".join(line.rstrip() for line in code.split("\n"))


def empty_line_normalizer(code):
    return re.sub(r"[\r\n]+", "\n", code)


def normalize_gm(gm_str):
    """A graph's text without comments that name places in files."""
    return re.sub(r"\n{3,}", "\n\n", strip_comment(remove_trailing_space(gm_str)))


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


def skipIfPy312(fn):
    return unittest.skip("not for Python 3.12")(fn) if sys.version_info >= (3, 12) else fn


def skipIfNotPy312(fn):
    return fn if sys.version_info >= (3, 12) else unittest.skip("needs Python 3.12")(fn)


def xfailIfPy312(fn):
    return unittest.expectedFailure(fn) if sys.version_info >= (3, 12) else fn


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
