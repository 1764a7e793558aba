"""What tests of other packages import: TestCase, whose assertEqual knows tensors; parametrized tests; small helpers.

A parametrized test is a function with a `parametrize_fn`: (test, class) -> (test, suffix of the name, arguments). Decorators
wrap one another's; instantiate_parametrized_tests makes the methods.
"""
import contextlib
import functools
import importlib.util
import itertools
import os
import platform
import random
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from enum import Enum

import numpy as np

import rushlight as torch
from rushlight.autograd.gradcheck import gradcheck as _gradcheck, gradgradcheck as _gradgradcheck
from rushlight.testing import make_tensor  # noqa: F401

IS_LINUX, IS_MACOS, IS_WINDOWS = sys.platform == "linux", sys.platform == "darwin", sys.platform == "win32"
IS_PPC, IS_X86 = platform.machine() == "ppc64le", platform.machine() in ("x86_64", "i386")
IS_ARM64 = platform.machine() in ("arm64", "aarch64")
IS_S390X, IS_CPU_CAPABILITY_SVE256 = False, False
IS_CI = bool(os.environ.get("CI"))
IS_FBCODE = IS_SANDCASTLE = IS_REMOTE_GPU = IS_JETSON = False
NO_MULTIPROCESSING_SPAWN = False
TEST_NUMPY, TEST_MKL, TEST_FAIRSEQ = True, False, False
TEST_CUDA = torch.cuda.is_available()
TEST_MULTIGPU = TEST_CUDA and torch.cuda.device_count() >= 2
TEST_MPS = TEST_XPU = TEST_HPU = TEST_PRIVATEUSE1 = TEST_ACCELERATOR = TEST_CUDNN = TEST_MULTIACCELERATOR = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_DEV_DBG_ASAN = TEST_WITH_MIOPEN_SUGGEST_NHWC = False
TEST_WITH_TORCHDYNAMO = TEST_WITH_TORCHINDUCTOR = TEST_WITH_AOT_EAGER = TEST_WITH_CROSSREF = TEST_WITH_TV = TEST_CUDA_GRAPH = False
TEST_SKIP_FAST, TEST_SKIP_CUDAGRAPH = False, True
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1"
GRADCHECK_NONDET_TOL = 0.0
SEED = 1234


def _installed(name):
    return importlib.util.find_spec(name) is not None


TEST_SCIPY, TEST_DILL, TEST_NUMBA, TEST_LIBROSA = map(_installed, ("scipy", "dill", "numba", "librosa"))
TEST_OPT_EINSUM, TEST_Z3, HAS_PYTEST = map(_installed, ("opt_einsum", "z3", "pytest"))

numpy_to_torch_dtype_dict = {getattr(np, n, None) or np.bool_: getattr(torch, n.rstrip("_")) for n in
                             "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()}
torch_to_numpy_dtype_dict = {ours: theirs for theirs, ours in numpy_to_torch_dtype_dict.items()}
torch_to_numpy_dtype_dict.update({torch.bfloat16: np.float32, torch.complex32: np.complex64})


class ProfilingMode(Enum):
    LEGACY, SIMPLE, PROFILING = 1, 2, 3


GRAPH_EXECUTOR = ProfilingMode.SIMPLE


# ---- running ----


def run_tests(argv=None):
    """unittest.main."""
    unittest.main(argv=argv)


def set_rng_seed(seed=SEED):
    """The same numbers from all generators from here on."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2 ** 32)


@contextlib.contextmanager
def freeze_rng_state():
    """Random numbers drawn inside do not change those that follow."""
    state = torch.random._states()
    try:
        yield
    finally:
        torch.random._go_on_from(state)


@contextlib.contextmanager
def set_default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def set_default_tensor_type(tensor_type):
    with set_default_dtype(torch.get_default_dtype()):
        torch.set_default_tensor_type(tensor_type)
        yield


class DeterministicGuard:
    """Deterministic algorithms, or not, for as long as it lasts."""

    def __init__(self, deterministic, *, warn_only=False, fill_uninitialized_memory=True):
        self.deterministic, self.warn_only, self.fill = deterministic, warn_only, fill_uninitialized_memory

    def _set(self, deterministic, warn_only, fill):
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = fill

    def __enter__(self):
        self.before = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(),
                       torch.utils.deterministic.fill_uninitialized_memory)
        self._set(self.deterministic, self.warn_only, self.fill)

    def __exit__(self, *error):
        self._set(*self.before)


def wrapDeterministicFlagAPITest(fn):
    """The flag is as before after the test."""
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        with DeterministicGuard(torch.are_deterministic_algorithms_enabled(), warn_only=torch.is_deterministic_algorithms_warn_only_enabled()):
            return fn(*args, **kwargs)
    return wrapped


def suppress_warnings(fn):
    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return fn(*args, **kwargs)
    return wrapped


def retry(ExceptionToCheck, tries=3, delay=3, skip_after_retries=False):
    """Calls again when it raises, after a pause."""
    def decorate(fn):
        @functools.wraps(fn)
        def wrapped(*args, **kwargs):
            for left in reversed(range(tries)):
                try:
                    return fn(*args, **kwargs)
                except ExceptionToCheck as error:
                    if not left and skip_after_retries:
                        raise unittest.SkipTest(f"Skipping after {tries} consecutive {error!r}") from error
                    if not left:
                        raise
                time.sleep(delay)
        return wrapped
    return decorate


def find_free_port():
    with contextlib.closing(socket.socket()) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("localhost", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def TemporaryFileName(*args, **kwargs):
    """The name of a file that is gone afterwards."""
    kwargs.pop("delete", None)
    f = tempfile.NamedTemporaryFile(*args, delete=False, **kwargs)
    f.close()
    try:
        yield f.name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f.name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix=None):
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name


# ---- skipping ----


def _never_skips(fn=None, *args, **kwargs):
    """For platforms and devices that are not there: the test runs."""
    return fn if callable(fn) else lambda f: f


skipIfRocm = skipIfRocmArch = skipIfMPS = skipIfXpu = skipIfHpu = skipIfTorchDynamo = skipIfTorchInductor = skipIfLegacyJitExecutor = _never_skips
xfailIfTorchDynamo = expectedFailureIfTorchDynamo = markDynamoStrictTest = unMarkDynamoStrictTest = dontSkip = skipIfWindows = _never_skips
skipIfCrossRef = skipIfSlowGradcheckEnv = _never_skips
skipIfNoSciPy = unittest.skipIf(not TEST_SCIPY, "test require SciPy, but SciPy not found")
skipIfNoLapack = unittest.skipIf(not torch.has_lapack, "PyTorch compiled without Lapack")


def serialTest(condition=True):
    """A mark for runners of several processes."""
    return lambda fn: fn


def slowTest(fn):
    """Runs only with PYTORCH_TEST_WITH_SLOW=1."""
    fn = unittest.skipIf(not TEST_WITH_SLOW, "test is slow; run with PYTORCH_TEST_WITH_SLOW to enable test")(fn)
    fn.slow_test = True
    return fn


def slowTestIf(condition):
    return slowTest if condition else lambda fn: fn


skip_but_pass_in_sandcastle, skip_but_pass_in_sandcastle_if = unittest.skip, unittest.skipIf


def skipIfOnWindows(fn):
    return unittest.skipIf(IS_WINDOWS, "does not run on Windows")(fn)


# ---- tensors ----


def dtype_name(dtype):
    """"float32" of torch.float32."""
    return str(dtype).split(".")[-1]


def noncontiguous_like(t):
    """The same values in twice the memory, with gaps."""
    if not t.is_contiguous():
        return t
    wide = torch.empty((*t.shape, 2), dtype=t.dtype, device=t.device)
    wide[..., 0] = float("nan") if t.dtype.is_floating_point or t.dtype.is_complex else 1
    wide[..., 1] = t.detach()
    return wide[..., 1].requires_grad_(t.requires_grad)


def is_iterable(obj):
    try:
        iter(obj)
        return True
    except TypeError:
        return False


def is_iterable_of_tensors(iterable, include_empty=False):
    if isinstance(iterable, torch.Tensor) or not is_iterable(iterable):
        return False
    items = list(iterable)
    return bool(items or include_empty) and all(isinstance(t, torch.Tensor) for t in items)


def iter_indices(tensor):
    """The indices of all elements, as tuples."""
    if tensor.dim() == 0:
        return range(0)
    if tensor.dim() == 1:
        return range(tensor.size(0))
    return itertools.product(*map(range, tensor.size()))


def first_sample(self, samples):
    return next(iter(samples))


def random_symmetric_matrix(l, *batches, dtype=torch.float32, device="cpu"):
    a = torch.randn(*batches, l, l, dtype=dtype, device=device)
    return (a + a.mT).div_(2)


def random_symmetric_psd_matrix(l, *batches, dtype=torch.float32, device="cpu"):
    a = torch.randn(*batches, l, l, dtype=dtype, device=device)
    return a @ a.mT


def random_hermitian_matrix(l, *batches, dtype=torch.float32, device="cpu"):
    a = torch.randn(*batches, l, l, dtype=dtype, device=device)
    return (a + a.mH).div_(2)


def random_hermitian_pd_matrix(matrix_size, *batch_dims, dtype, device):
    a = torch.randn(*batch_dims, matrix_size, matrix_size, dtype=dtype, device=device)
    return a @ a.mH + torch.eye(matrix_size, dtype=dtype, device=device)


def random_square_matrix_of_rank(l, rank, dtype=torch.double, device="cpu"):
    u, s, v = torch.linalg.svd(torch.randn(l, l, dtype=dtype, device=device))
    s[rank:] = 0
    return u @ torch.diag(s.clamp(min=0.5) * (s > 0)).to(dtype) @ v


def make_fullrank_matrices_with_distinct_singular_values(*shape, device, dtype, requires_grad=False):
    """Random matrices whose singular values lie apart."""
    u, _, v = torch.linalg.svd(make_tensor(shape, device=device, dtype=dtype), full_matrices=False)
    k = min(shape[-2:])
    s = torch.linspace(2, 3, k, dtype=u.real.dtype, device=device) if k else torch.empty(0, dtype=u.real.dtype, device=device)
    return ((u * s.to(u.dtype)) @ v).contiguous().requires_grad_(requires_grad)


def gradcheck(fn, inputs, **kwargs):
    return _gradcheck(fn, inputs, **{"check_batched_grad": False, "fast_mode": True, **kwargs})


def gradgradcheck(fn, inputs, grad_outputs=None, **kwargs):
    return _gradgradcheck(fn, inputs, grad_outputs, **{"check_batched_grad": False, "fast_mode": True, **kwargs})


# ---- TestCase ----


class TestCase(unittest.TestCase):
    """unittest's, seeded before each test, whose assertEqual knows tensors, arrays and what holds them."""

    precision = 0
    rel_tol = 0
    maxDiff = None

    def setUp(self):
        set_rng_seed(SEED)

    def _tolerances(self, atol, rtol, dtypes):
        """What is given, or what the test's decorators allow, at least PyTorch's for the dtypes."""
        if atol is not None or rtol is not None:
            return atol, rtol
        if not self.precision and not self.rel_tol:
            return None, None
        defaults = {torch.float16: (1e-5, 1e-3), torch.bfloat16: (1e-5, 1.6e-2), torch.float32: (1e-5, 1.3e-6), torch.complex64: (1e-5, 1.3e-6),
                    torch.float64: (1e-7, 1e-7), torch.complex128: (1e-7, 1e-7)}
        known = [defaults.get(dtype, (0, 0)) for dtype in dtypes] or [(0, 0)]
        return max(self.precision, *(k[0] for k in known)), max(self.rel_tol, *(k[1] for k in known))

    def _fail(self, standard, msg):
        raise self.failureException(msg(standard) if callable(msg) else f"{standard}\n{msg}" if msg else standard)

    def assertEqual(self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True, exact_dtype=True, exact_device=False, exact_layout=False,
                    exact_stride=False, exact_is_coalesced=False):
        if x is None or y is None:
            if x is not y:
                self._fail(f"None mismatch: {x} is not {y}", msg)
            return
        options = dict(atol=atol, rtol=rtol, equal_nan=equal_nan, exact_dtype=exact_dtype, exact_device=exact_device, exact_layout=exact_layout,
                       exact_stride=exact_stride, exact_is_coalesced=exact_is_coalesced)
        tensors = (torch.Tensor, np.ndarray, np.generic)
        if isinstance(x, str) or isinstance(y, str):
            if x != y:
                self._fail((f"String comparison failed: {x!r} != {y!r}" if isinstance(x, str) and isinstance(y, str) else f"Object comparison failed: {x!r} != {y!r}"), msg)
        elif isinstance(x, tensors) or isinstance(y, tensors):
            self._equal_tensors(x, y, msg, **options)
        elif isinstance(x, (int, float, complex)) and isinstance(y, (int, float, complex)):
            self._equal_tensors(x, y, msg, **{**options, "exact_dtype": False})
        elif isinstance(x, dict) and isinstance(y, dict):
            if set(x) != set(y):
                self._fail(f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {sorted(map(repr, set(y) - set(x)))}\n"
                           f"Missing keys in the expected mapping: {sorted(map(repr, set(x) - set(y)))}", msg)
            for key in x:
                self.assertEqual(x[key], y[key], msg, **options)
        elif isinstance(x, (set, frozenset)) and isinstance(y, (set, frozenset)):
            if x != y:
                self._fail(f"Set comparison failed: {x} != {y}", msg)
        elif is_iterable(x) and is_iterable(y) and hasattr(x, "__len__") and hasattr(y, "__len__"):
            if len(x) != len(y):
                self._fail(f"The length of the sequences mismatch: {len(x)} != {len(y)}", msg)
            for a, b in zip(x, y):
                self.assertEqual(a, b, msg, **options)
        elif x != y:
            self._fail(f"Object comparison failed: {x!r} != {y!r}", msg)

    def _equal_tensors(self, x, y, msg, atol, rtol, equal_nan, exact_dtype, exact_device, exact_layout, exact_stride, exact_is_coalesced):
        if isinstance(x, torch.Tensor) and isinstance(y, (int, float, complex)) or isinstance(y, torch.Tensor) and isinstance(x, (int, float, complex)):
            tensor = x if isinstance(x, torch.Tensor) else y
            if tensor.numel() != 1:
                raise ValueError(f"Only single element tensor-likes can be compared against a number. Got {tensor.numel()} elements instead.")
            x, y = (v.item() if isinstance(v, torch.Tensor) else v for v in (x, y))
            exact_dtype = False
        if not isinstance(x, (int, float, complex)) or not isinstance(y, (int, float, complex)):
            whole = all(isinstance(v, (torch.Tensor, np.ndarray)) for v in (x, y))
            device = next(v.device for v in (x, y) if isinstance(v, torch.Tensor)) if any(isinstance(v, torch.Tensor) for v in (x, y)) else None
            x, y = (v if isinstance(v, torch.Tensor) else torch.as_tensor(v, device=device) for v in (x, y))
            exact_dtype = exact_dtype and whole or exact_dtype and x.dtype == y.dtype
            if x.layout != y.layout and not exact_layout:
                x, y = (v.to_dense() if v.layout != torch.strided else v for v in (x, y))
        dtypes = [v.dtype for v in (x, y) if isinstance(v, torch.Tensor)]
        atol, rtol = self._tolerances(atol, rtol, dtypes)
        torch.testing.assert_close(x, y, atol=atol, rtol=rtol, equal_nan=equal_nan, check_dtype=exact_dtype, check_device=exact_device,
                                   check_layout=exact_layout, check_stride=exact_stride,
                                   msg=(lambda standard: f"{standard}\n{msg}") if isinstance(msg, str) else msg)

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **kwargs):
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, atol=atol, rtol=rtol, **kwargs)

    def assertEqualIgnoreType(self, *args, **kwargs):
        return self.assertEqual(*args, exact_dtype=False, **kwargs)

    def assertEqualTypeString(self, x, y):
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)
        self.assertEqual(x.is_sparse, y.is_sparse)

    def assertObjectIn(self, obj, iterable):
        if not any(obj is item for item in iterable):
            raise AssertionError("object not found in iterable")

    def compareWithNumpy(self, torch_fn, np_fn, tensor_like, device=None, dtype=None, **kwargs):
        """One function of both libraries on the same values."""
        if isinstance(tensor_like, torch.Tensor):
            t = tensor_like
            a = (t.detach().float() if t.dtype == torch.bfloat16 else t.detach()).cpu().numpy()
        else:
            t, a = torch.tensor(tensor_like, device=device, dtype=dtype), np.array(tensor_like, dtype=torch_to_numpy_dtype_dict[dtype])
        want, got = np_fn(a), torch_fn(t).cpu()
        self.assertEqual(want, got if got.dtype != torch.bfloat16 else got.float(), exact_dtype=False, **kwargs)

    compare_with_numpy = compareWithNumpy

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category, regex=""):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            before = torch.is_warn_always_enabled()
            torch.set_warn_always(True)
            try:
                yield
            finally:
                torch.set_warn_always(before)
        self.assertTrue(any(issubclass(w.category, category) for w in seen), "no warning caught")
        for w in seen:
            if issubclass(w.category, category):
                self.assertRegex(str(w.message), regex)

    def assertNotWarn(self, callable, msg=""):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(not seen, msg)

    def assertExpectedInline(self, actual, expect, skip=0):
        self.assertMultiLineEqual(expect.strip("\n"), actual.strip("\n"))

    def assertExpectedRaisesInline(self, exc_type, callable, expect, *args, **kwargs):
        with self.assertRaises(exc_type) as caught:
            callable(*args, **kwargs)
        self.assertExpectedInline(str(caught.exception), expect)

    @contextlib.contextmanager
    def assertRaisesRegexIgnoringCase(self, error, regex):
        with self.assertRaisesRegex(error, "(?i)" + regex):
            yield


class NoTest:
    """A base for classes that a runner must not collect."""
    __test__ = False


class TestGradients(TestCase):
    exact_dtype = True


# ---- parametrized tests ----


class subtest:
    """The arguments of one case, with a name or decorators of its own."""
    __slots__ = ("arg_values", "name", "decorators")

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, decorators or []


def _value_name(name, value, i):
    """"x_1" for simple values, the name of those that have one, "x0" for others."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, torch.device):
        return str(value)
    if type(value).__name__ in ("bool", "int", "float", "str"):
        return f"{name}_{value}".replace(".", "_")
    return f"{name}{i}"


class _TestParametrizer:
    """A decorator that yields (test, suffix, arguments, decorators) for each case; those of several are multiplied."""

    def _parametrize_test(self, test, generic_cls, device_cls):
        raise NotImplementedError

    def __call__(self, fn):
        inner = getattr(fn, "parametrize_fn", None)
        if inner is None:
            fn.parametrize_fn = self._parametrize_test
        else:
            fn.parametrize_fn = functools.partial(_composed, self._parametrize_test, inner)
        return fn


def _joined(*names):
    return "_".join(name for name in names if name)


def _composed(outer, inner, test, generic_cls, device_cls):
    for one, one_name, one_arguments, one_decorators in outer(test, generic_cls, device_cls):
        for two, two_name, two_arguments, two_decorators in inner(one, generic_cls, device_cls):
            both = set(one_arguments) & set(two_arguments)
            if both:
                raise RuntimeError(f"{test.__name__} is parametrized twice over {', '.join(sorted(both))}")
            device = isinstance(getattr(outer, "__self__", None), _LastNamed)
            yield two, _joined(two_name, one_name) if device else _joined(one_name, two_name), {**one_arguments, **two_arguments}, \
                [*one_decorators, *two_decorators]


class _LastNamed(_TestParametrizer):
    """One whose part of the name comes last: the device and dtype."""


class parametrize(_TestParametrizer):
    """parametrize("x", [1, 2]), parametrize("x,y", [(1, 2), subtest((3, 4), name="big")]): a test per value."""

    def __init__(self, arg_str, arg_values, name_fn=None):
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = arg_values, name_fn
        self.single = len(self.names) == 1 and "," not in arg_str

    def _name(self, values, i):
        if self.name_fn is not None:
            return self.name_fn(*values)
        return "_".join(_value_name(name, value, i) for name, value in zip(self.names, values))

    def _parametrize_test(self, test, generic_cls, device_cls):
        seen = False
        for i, value in enumerate(self.values):
            seen = True
            case = value if isinstance(value, subtest) else subtest(value)
            values = (case.arg_values,) if len(self.names) == 1 and not (isinstance(case.arg_values, (tuple, list)) and isinstance(value, subtest)) \
                else tuple(case.arg_values)
            if len(values) != len(self.names):
                raise RuntimeError(f"Expected # values == # arg names, but got: {len(values)} values and {len(self.names)} names for test \"{test.__name__}\"")
            yield test, case.name or self._name(values, i), dict(zip(self.names, values)), list(case.decorators)
        if not seen:
            raise ValueError(f"{test.__name__}: An empty arg_values was passed to @parametrize. Note that this may result from reuse of a generator.")


class reparametrize(_TestParametrizer):
    """The cases of another parametrizer through adapter_fn(test, suffix, arguments): a case, a list of cases, or None for as it was."""

    def __init__(self, parametrizer, adapter_fn):
        self.parametrizer, self.adapter_fn = parametrizer, adapter_fn

    def _parametrize_test(self, test, generic_cls, device_cls):
        for case in self.parametrizer._parametrize_test(test, generic_cls, device_cls):
            adapted = self.adapter_fn(*case)
            for each in [case] if adapted is None else adapted if isinstance(adapted, list) else [adapted]:
                yield each


class decorateIf(_TestParametrizer):
    """A decorator for the cases whose arguments fulfil a predicate."""

    def __init__(self, decorator, predicate_fn):
        self.decorator, self.predicate_fn = decorator, predicate_fn

    def __call__(self, fn):
        inner = getattr(fn, "parametrize_fn", None)

        def cases(test, generic_cls, device_cls):
            for one, name, arguments, decorators in inner(test, generic_cls, device_cls) if inner else [(test, "", {}, [])]:
                yield one, name, arguments, [*decorators, self.decorator] if self.predicate_fn(arguments) else decorators
        fn.parametrize_fn = cases
        return fn


def _case(test, arguments, decorators):
    """A method that runs a test with arguments."""
    @functools.wraps(test)
    def method(self, *args, **kwargs):
        return test(self, *args, **arguments, **kwargs)
    method.__dict__.pop("parametrize_fn", None)
    for decorator in decorators:
        method = decorator(method)
    return method


def instantiate_parametrized_tests(generic_cls):
    """A method per case in place of each parametrized test."""
    for name, test in list(vars(generic_cls).items()):
        cases = getattr(test, "parametrize_fn", None)
        if cases is None:
            continue
        delattr(generic_cls, name)
        for one, suffix, arguments, decorators in cases(test, generic_cls, None):
            full = _joined(name, suffix)
            if hasattr(generic_cls, full):
                raise AssertionError(f"Redefinition of test {full}")
            method = _case(one, arguments, decorators)
            method.__name__ = full
            setattr(generic_cls, full, method)
    return generic_cls


class CudaNonDefaultStream:
    """A stream of its own on each GPU: there are none here."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def coalescedonoff(fn):
    """Runs a test with coalesced=True and with False."""
    @functools.wraps(fn)
    def wrapped(self, *args, **kwargs):
        fn(self, *args, coalesced=True, **kwargs)
        fn(self, *args, coalesced=False, **kwargs)
    return wrapped


def skipIfNotRegistered(op_name, message):
    """Skips where an operation is not there."""
    return unittest.skipIf(not hasattr(torch.ops.aten, op_name), message)


def load_tests(loader, tests, pattern):
    """All of the tests."""
    return tests


def shell(command, cwd=None, env=None, stdout=None, stderr=None, timeout=None):
    """The exit status of a command."""
    return subprocess.run(command, cwd=cwd, env=env, stdout=stdout, stderr=stderr, timeout=timeout, check=False).returncode
