"""Tests for each device and dtype: instantiate_device_type_tests makes a class per device, its tests take `device` (and `dtype`).

Here there is the CPU, and CUDA where it is.
"""
import functools
import unittest
from collections import namedtuple
from enum import Enum

import rushlight as torch
from rushlight.testing._internal.common_utils import TestCase, _case, _joined, _LastNamed, dtype_name, freeze_rng_state  # noqa: F401

class DeviceTypeTestBase(TestCase):
    """The base of the classes that are made."""
    device_type = "generic_device_type"
    exact_dtype = True

    @classmethod
    def get_primary_device(cls):
        return cls.device_type

    @classmethod
    def get_all_devices(cls):
        return [cls.get_primary_device()]


class CPUTestBase(DeviceTypeTestBase):
    device_type = "cpu"


class CUDATestBase(DeviceTypeTestBase):
    device_type = "cuda"

    @classmethod
    def get_primary_device(cls):
        return "cuda:0"

    @classmethod
    def get_all_devices(cls):
        return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


def get_device_type_test_bases():
    return [CPUTestBase, CUDATestBase] if torch.cuda.is_available() else [CPUTestBase]


device_type_test_bases = get_device_type_test_bases()


def _plain_dtypes(test, device_type):
    by_device = getattr(test, "dtypes", None)
    return by_device.get(device_type, by_device.get("all")) if isinstance(by_device, dict) else None


def _cases(test, name, generic_cls, device_cls):
    """(test, suffix of the name, arguments, decorators, dtype) of each method that a test becomes."""
    given = getattr(test, "parametrize_fn", None)
    for one, suffix, arguments, decorators in given(test, generic_cls, device_cls) if given else [(test, "", {}, [])]:
        dtypes = _plain_dtypes(test, device_cls.device_type)
        if dtypes is None or "dtype" in arguments:
            yield one, suffix, arguments, decorators, arguments.get("dtype")
            continue
        for dtype in dtypes:
            several = isinstance(dtype, (tuple, list))
            last = "_".join(map(dtype_name, dtype)) if several else dtype_name(dtype)
            yield one, _joined(suffix, "\0" + last), {**arguments, "dtypes" if several else "dtype": dtype}, decorators, dtype


def _method(test, arguments, decorators, dtype, takes_devices):
    plain = _case(test, arguments, decorators)

    @functools.wraps(plain)
    def method(self):
        before = self.precision, self.rel_tol
        tolerances = getattr(test, "tolerance_overrides", {}).get(dtype)
        if not isinstance(dtype, (tuple, list)):
            self.precision = max(self.precision, getattr(test, "precision_overrides", {}).get(dtype, 0))
        if tolerances:
            self.precision, self.rel_tol = tolerances
        try:
            return plain(self, self.get_all_devices() if takes_devices else self.get_primary_device())
        finally:
            self.precision, self.rel_tol = before
    return method


def _instantiate(made, name, test, generic_cls):
    for one, suffix, arguments, decorators, dtype in _cases(test, name, generic_cls, made):
        before, _, last = suffix.partition("\0")
        full = _joined(name, before.strip("_"), made.device_type, last)
        if hasattr(made, full):
            raise AssertionError(f"Redefinition of test {full}")
        method = _method(one, arguments, decorators, dtype, hasattr(test, "num_required_devices"))
        method.__name__ = full
        setattr(made, full, method)


def _is_test(name, value):
    return name.startswith("test") and callable(value)


def instantiate_device_type_tests(generic_test_class, scope, except_for=None, only_for=None, include_lazy=False, allow_mps=False, allow_xpu=False):
    """TestXCPU (and TestXCUDA) in `scope`, in place of TestX."""
    def listed(kinds):
        return None if kinds is None else {kinds} if isinstance(kinds, str) else set(kinds)

    only, out = listed(only_for), listed(except_for) or ()
    scope.pop(generic_test_class.__name__, None)
    for base in device_type_test_bases:
        if base.device_type in out or only is not None and base.device_type not in only:
            continue
        # what the generic class has, without its tests, between the base of the device and the generic class's own bases
        body = {name: value for name, value in vars(generic_test_class).items() if name not in ("__dict__", "__weakref__") and not _is_test(name, value)}
        parents = tuple(b for b in generic_test_class.__bases__ if not issubclass(base, b))
        made = type(generic_test_class.__name__ + base.device_type.upper(), (*parents, base), body)
        for name in dir(generic_test_class):
            if _is_test(name, getattr(generic_test_class, name)):
                _instantiate(made, name, getattr(generic_test_class, name), generic_test_class)
        scope[made.__name__] = made


# ---- what a test runs with ----


class dtypes:
    """@dtypes(torch.float32, ...): once per dtype; @dtypes((a, b), (c, d)): once per tuple, as `dtypes`."""

    def __init__(self, *args, device_type="all"):
        self.args = args
        self.device_type = device_type

    def __call__(self, fn):
        known = dict(getattr(fn, "dtypes", {}))
        if self.device_type in known:
            raise RuntimeError(f"dtypes redefinition for {self.device_type}")
        fn.dtypes = {**known, self.device_type: self.args}
        return fn


def _dtypes_of(kind):
    return lambda *args: dtypes(*args, device_type=kind)


dtypesIfCPU, dtypesIfCUDA, dtypesIfMPS, dtypesIfXPU, dtypesIfHPU, dtypesIfPRIVATEUSE1 = (
    _dtypes_of(kind) for kind in ("cpu", "cuda", "mps", "xpu", "hpu", "privateuse1"))


def precisionOverride(d):
    """{dtype: absolute tolerance} of assertEqual."""
    if not isinstance(d, dict) or not all(isinstance(k, torch.dtype) for k in d):
        raise AssertionError("precisionOverride not given a dtype : precision dict!")

    def decorate(fn):
        fn.precision_overrides = d
        return fn
    return decorate


tol = namedtuple("tol", ["atol", "rtol"])


def toleranceOverride(d):
    """{dtype: tol(atol, rtol)} of assertEqual."""
    if not isinstance(d, dict) or not all(isinstance(k, torch.dtype) for k in d) or not all(isinstance(v, tol) for v in d.values()):
        raise AssertionError("toleranceOverride not given a dtype : tol dict!")

    def decorate(fn):
        fn.tolerance_overrides = d
        return fn
    return decorate


def deviceCountAtLeast(num_required_devices):
    """The test takes the list of devices, of which there have to be so many."""
    def decorate(fn):
        @functools.wraps(fn)
        def wrapped(self, devices, *args, **kwargs):
            if len(devices) < num_required_devices:
                raise unittest.SkipTest(f"fewer than {num_required_devices} devices detected")
            return fn(self, devices, *args, **kwargs)
        wrapped.num_required_devices = num_required_devices
        return wrapped
    return decorate


def largeTensorTest(size, device=None, inductor=False):
    """Skips where the memory is too small: a number of bytes, "4GB", or a function of the test."""
    def needed(self, *args, **kwargs):
        value = size(self, *args, **kwargs) if callable(size) else size
        if isinstance(value, str):
            unit = {"GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}.get(value[-2:].upper())
            value = float(value[:-2]) * unit if unit else float(value)
        return value

    def decorate(fn):
        @functools.wraps(fn)
        def wrapped(self, *args, **kwargs):
            wanted = needed(self, *args, **kwargs)
            with open("/proc/meminfo") as f:
                free = next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
            if free < wanted:
                raise unittest.SkipTest(f"Insufficient cpu memory: {int(wanted)} bytes needed")
            return fn(self, *args, **kwargs)
        return wrapped
    return decorate


# ---- where a test runs ----


def _kind_of(self, device):
    return getattr(self, "device_type", None) or torch.device(device).type


class skipIf:
    """Skips a test on one kind of device (or all): dep is a condition, or the name of an attribute of the test that holds it."""

    def __init__(self, dep, reason, device_type=None):
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapped(self_, device, *args, **kwargs):
            kinds = (self.device_type,) if isinstance(self.device_type, str) else self.device_type
            if kinds is None or _kind_of(self_, device) in kinds:
                if (getattr(self_, self.dep, True) if isinstance(self.dep, str) else self.dep):
                    raise unittest.SkipTest(self.reason)
            return fn(self_, device, *args, **kwargs)
        return wrapped


def _skip_on(kind):
    return lambda dep, reason: skipIf(dep, reason, device_type=kind)


skipCPUIf, skipCUDAIf, skipMetaIf, skipMPSIf, skipXPUIf, skipHPUIf, skipGPUIf, skipXLAIf, skipLazyIf, skipPRIVATEUSE1If = (
    _skip_on(kind) for kind in ("cpu", "cuda", "meta", "mps", "xpu", "hpu", ("cuda", "xpu"), "xla", "lazy", "privateuse1"))


def _skipped_on(condition, reason, kind):
    return skipIf(condition, reason, device_type=kind)


skipCPU, skipMeta, skipMPS, skipXPU, skipHPU, skipXLA, skipLazy, skipPRIVATEUSE1 = (
    _skipped_on(True, f"test doesn't work on {kind}", kind) for kind in ("cpu", "meta", "mps", "xpu", "hpu", "xla", "lazy", "privateuse1"))
skipCPUIfNoLapack = _skipped_on(not torch.has_lapack, "PyTorch compiled without Lapack", "cpu")
skipCPUIfNoFFT = skipCPUIfNoMkldnn = _skipped_on(False, "", "cpu")
skipCPUIfNoMkl = _skipped_on(not torch.has_mkl, "PyTorch is built without MKL support", "cpu")
skipCUDAIfNoMagma = skipCUDAIfNoCusolver = skipCUDAIfNoMagmaAndNoCusolver = skipCUDAIfNoCudnn = skipCUDAIfMiopen = skipCUDAIfRocm = \
    skipCUDAIfNotRocm = skipCUDAIfNoSparseGeneric = skipCUDAIfNoHipsparseGeneric = skipCUDANonDefaultStreamIf = skipCUDAIfNoCusolverROCM = \
    _skipped_on(not torch.cuda.is_available(), "needs a GPU", "cuda")
skipMPSVersionIfLessThan = skipCUDAIfCudnnVersionLessThan = skipCUDAIfNotMiopenSuggestNHWC = skipCUDAVersionIn = skipCUDAIfVersionLessThan = \
    skipCUDAIfRocmVersionLessThan = lambda *args, **kwargs: lambda fn: fn


class onlyOn:
    """Skips a test on other kinds of devices."""

    def __init__(self, device_type):
        self.device_type = device_type

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapped(self_, device, *args, **kwargs):
            kinds = (self.device_type,) if isinstance(self.device_type, str) else tuple(self.device_type)
            if _kind_of(self_, device) not in kinds:
                raise unittest.SkipTest(f"Only runs on {self.device_type}")
            return fn(self_, device, *args, **kwargs)
        return wrapped


onlyCPU, onlyCUDA, onlyMPS, onlyXPU, onlyHPU, onlyPRIVATEUSE1, onlyOnCPUAndCUDA, onlyCUDAAndXPU = (
    onlyOn(kind) for kind in ("cpu", "cuda", "mps", "xpu", "hpu", "privateuse1", ("cpu", "cuda"), ("cuda", "xpu")))
onlyNativeDeviceTypes = onlyOn(("cpu", "cuda", "meta", "mps", "xpu", "hpu"))
onlyAccelerator = onlyOn(("cuda", "mps", "xpu", "hpu"))


def onlyNativeDeviceTypesAnd(devices=None):
    return onlyOn(("cpu", "cuda", "meta", *(devices or ())))


def onlyCUDAAndPRIVATEUSE1(fn):
    return onlyOn(("cuda", "privateuse1"))(fn)


class expectedFailure:
    """The test fails on one kind of device (or on all): where it passes, that is the failure."""

    def __init__(self, device_type):
        self.device_type = device_type

    def __call__(self, fn):
        @functools.wraps(fn)
        def wrapped(self_, device, *args, **kwargs):
            if self.device_type not in (None, "all") and _kind_of(self_, device) != self.device_type:
                return fn(self_, device, *args, **kwargs)
            try:
                fn(self_, device, *args, **kwargs)
            except Exception:
                return None
            self_.fail("expected test to fail, but it passed")
        return wrapped


expectedFailureCPU, expectedFailureCUDA, expectedFailureMeta, expectedFailureMPS, expectedFailureXPU, expectedFailureXLA, expectedFailureHPU = (
    expectedFailure(kind) for kind in ("cpu", "cuda", "meta", "mps", "xpu", "xla", "hpu"))


# ---- operations from a list of descriptions ----


class OpDTypes(Enum):
    supported, unsupported, supported_backward, unsupported_backward, any_one, none, any_common_cpu_cuda_one = range(7)


class ops(_LastNamed):
    """Once per operation of a list (objects with name, dtypes or supported_dtypes(device_type), decorators) and dtype."""

    def __init__(self, op_list, *, dtypes=OpDTypes.supported, allowed_dtypes=None, skip_if_dynamo=True):
        self.op_list, self.dtypes, self.allowed = list(op_list), dtypes, set(allowed_dtypes) if allowed_dtypes is not None else None

    def _dtypes(self, op, kind):
        supported = set(op.supported_dtypes(kind)) if hasattr(op, "supported_dtypes") else set(op.dtypes)
        if not isinstance(self.dtypes, OpDTypes):
            chosen = list(self.dtypes)
        elif self.dtypes is OpDTypes.none:
            return [None]
        elif self.dtypes in (OpDTypes.supported_backward, OpDTypes.unsupported_backward) and hasattr(op, "supported_backward_dtypes"):
            backward = set(op.supported_backward_dtypes(kind))
            chosen = backward if self.dtypes is OpDTypes.supported_backward else supported - backward
        elif self.dtypes in (OpDTypes.any_one, OpDTypes.any_common_cpu_cuda_one):
            chosen = [next((d for d in (torch.float32, torch.float64, torch.complex64, torch.int64) if d in supported), next(iter(supported)))]
        else:
            chosen = supported
        return sorted((d for d in chosen if self.allowed is None or d in self.allowed), key=dtype_name)

    def _parametrize_test(self, test, generic_cls, device_cls):
        for op in self.op_list:
            name = getattr(op, "formatted_name", None) or op.name.replace(".", "_")
            for dtype in self._dtypes(op, device_cls.device_type):
                arguments = {"op": op} if dtype is None else {"op": op, "dtype": dtype}
                decorators = op.get_decorators(generic_cls.__name__, test.__name__, device_cls.device_type, dtype, arguments) \
                    if hasattr(op, "get_decorators") else []
                yield test, _joined(name, "\0" + dtype_name(dtype) if dtype is not None else ""), arguments, list(decorators)


def get_all_device_types():
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
