"""assert_close: values equal up to tolerances, with messages that say where and by how much they differ."""
import cmath
import collections.abc

import rushlight as torch

_PRECISIONS = {torch.float16: (0.001, 1e-5), torch.bfloat16: (0.016, 1e-5), torch.float32: (1.3e-6, 1e-5),
               torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7)}
if hasattr(torch, "complex32"):
    _PRECISIONS[torch.complex32] = (0.001, 1e-5)


class _Mismatch(Exception):
    """A difference: the class to raise, its message, and the path to the item."""

    def __init__(self, kind, message, path):
        super().__init__(message)
        self.kind, self.message, self.path = kind, message, path

    def to_error(self, msg=None):
        path = "\n\nThe failure occurred for item %s" % "".join("[%s]" % _show(p) for p in self.path) if self.path else ""
        if msg is None:
            return self.kind(self.message + path)
        return self.kind(msg(self.message + path) if callable(msg) else msg)


def _show(key):
    return repr(key) if isinstance(key, str) else str(key)


class UnsupportedInputs(Exception):
    pass


def default_tolerances(*inputs, dtype_precisions=None):
    """(rtol, atol) for dtypes: the loosest of the inputs'."""
    table = dtype_precisions or _PRECISIONS
    dtypes = [i.dtype if isinstance(i, torch.Tensor) else i for i in inputs]
    pairs = [table.get(d, (0.0, 0.0)) for d in dtypes]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def get_tolerances(*inputs, rtol, atol, id=()):
    if (rtol is None) != (atol is None):
        raise _Mismatch(ValueError, "Both 'rtol' and 'atol' must be either specified or unspecified, but got no %s." % (
            "rtol" if rtol is None else "atol"), id)
    return (rtol, atol) if rtol is not None else default_tolerances(*inputs)


def _number_message(actual, expected, rtol, atol):
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else abs(absolute / expected)
    if rtol == 0 and atol == 0:
        return "Scalars are not equal!\n\nExpected %s but got %s.\nAbsolute difference: %s\nRelative difference: %s" % (
            expected, actual, absolute, relative)
    return "Scalars are not close!\n\nExpected %s but got %s.\nAbsolute difference: %s (up to %s allowed)\nRelative " \
        "difference: %s (up to %s allowed)" % (expected, actual, absolute, atol, relative, rtol)


def _tensor_message(actual, expected, matches, rtol, atol, name="Tensor-likes"):
    total = actual.numel()
    wrong = total - int(matches.sum().item())
    a, e, m = actual.reshape(-1), expected.reshape(-1), matches.reshape(-1)
    if not (a.is_floating_point() or a.is_complex()):
        a, e = a.to(torch.int64), e.to(torch.int64)
    absolute = (a - e).abs()
    absolute[m] = 0
    worst_abs, i = torch.max(absolute, 0)
    relative = absolute / e.abs()
    relative[m] = 0
    worst_rel, j = torch.max(relative, 0)
    shape = matches.shape

    def place(flat):
        flat = int(flat)
        if not shape:
            return ()
        index = []
        for size in reversed(shape):
            index.append(flat % size)
            flat //= size
        return tuple(reversed(index))
    equality = rtol == 0 and atol == 0
    lines = ["%s are not %s!" % (name, "equal" if equality else "close"), "",
             "Mismatched elements: %d / %d (%.1f%%)" % (wrong, total, 100.0 * wrong / total)]
    for kind, value, at, allowed in (("absolute", worst_abs.item(), i, atol), ("relative", worst_rel.item(), j, rtol)):
        line = "Greatest %s difference: %s at index %s" % (kind, value, place(at))
        lines.append(line if equality else line + " (up to %s allowed)" % allowed)
    return "\n".join(lines)


class _Options:
    def __init__(self, allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride):
        self.__dict__.update(locals())


def _is_array(x):
    return type(x).__module__ == "numpy" and hasattr(x, "dtype") and not isinstance(x, (str, bytes))


def _compare(actual, expected, options, path):
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(AssertionError, "Expected None, but got %s instead." % (actual,) if expected is None else
                            "None mismatch: %s is not %s" % (actual, expected), path)
        return
    number = (int, float, complex)
    if isinstance(actual, bool) and isinstance(expected, bool) or \
            (type(actual).__name__ in ("bool", "bool_") and type(expected).__name__ in ("bool", "bool_")
             and not isinstance(actual, torch.Tensor)):
        if bool(actual) is not bool(expected):
            raise _Mismatch(AssertionError, "Booleans mismatch: %s is not %s" % (actual, expected), path)
        return
    if isinstance(actual, number) and isinstance(expected, number):
        _compare_numbers(actual, expected, options, path)
        return
    sequences = (collections.abc.Sequence,)
    if isinstance(actual, sequences) and isinstance(expected, sequences) and not isinstance(actual, (str, bytes)):
        if len(actual) != len(expected):
            raise _Mismatch(AssertionError, "The length of the sequences mismatch: %d != %d" % (len(actual), len(expected)),
                            path)
        for i, (a, e) in enumerate(zip(actual, expected)):
            _compare(a, e, options, path + (i,))
        return
    if isinstance(actual, collections.abc.Mapping) and isinstance(expected, collections.abc.Mapping):
        mine, theirs = set(actual), set(expected)
        if mine != theirs:
            missing, extra = theirs - mine, mine - theirs
            raise _Mismatch(AssertionError, "The keys of the mappings do not match:\nMissing keys in the actual mapping: %s\n"
                            "Additional keys in the actual mapping: %s" % (_sorted(missing), _sorted(extra)), path)
        for key in _sorted(expected):
            _compare(actual[key], expected[key], options, path + (key,))
        return
    tensors = (isinstance(actual, torch.Tensor) or _is_array(actual)), (isinstance(expected, torch.Tensor)
                                                                        or _is_array(expected))
    if all(tensors) or (any(tensors) and all(isinstance(v, number) or t for v, t in zip((actual, expected), tensors))):
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if related and (options.allow_subclasses or type(actual) is type(expected)):
            _compare_tensors(torch.as_tensor(actual), torch.as_tensor(expected), options, path)
            return
    raise _Mismatch(TypeError, "No comparison pair was able to handle inputs of type %s and %s."
                    % (type(actual), type(expected)), path)


def _sorted(keys):
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def _kind_of_number(value):
    return torch.complex128 if isinstance(value, complex) else torch.float64 if isinstance(value, float) else torch.int64


def _compare_numbers(actual, expected, options, path):
    rtol, atol = get_tolerances(_kind_of_number(actual), _kind_of_number(expected), rtol=options.rtol, atol=options.atol,
                                id=path)
    if actual == expected:
        return
    nan = cmath.isnan
    if options.equal_nan and nan(actual) and nan(expected):
        return
    finite = cmath.isfinite(actual) and cmath.isfinite(expected)
    if finite and abs(actual - expected) <= atol + rtol * abs(expected):
        return
    raise _Mismatch(AssertionError, _number_message(actual, expected, rtol, atol), path)


def _compare_tensors(actual, expected, options, path):
    def differ(what, a, e):
        raise _Mismatch(AssertionError, "The values for attribute '%s' do not match: %s != %s." % (what, a, e), path)
    if actual.is_nested and expected.is_nested:
        parts = actual.unbind(), expected.unbind()
        if len(parts[0]) != len(parts[1]):
            differ("size(0)", *map(len, parts))
        for i, pair in enumerate(zip(*parts)):
            _compare_tensors(*pair, options, path + (i,))
        return
    for t in (actual, expected):
        if t.layout not in (torch.strided, torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr,
                            torch.sparse_bsc):
            raise UnsupportedInputs("Unsupported tensor layout %s" % t.layout)
    if actual.shape != expected.shape:
        differ("shape", actual.shape, expected.shape)
    if actual.is_quantized != expected.is_quantized:
        differ("is_quantized", actual.is_quantized, expected.is_quantized)
    if options.check_layout and actual.layout != expected.layout:
        differ("layout", actual.layout, expected.layout)
    if options.check_device and actual.device != expected.device:
        differ("device", actual.device, expected.device)
    if options.check_dtype and actual.dtype != expected.dtype:
        differ("dtype", actual.dtype, expected.dtype)
    if options.check_stride and actual.layout is torch.strided and actual.stride() != expected.stride():
        differ("stride()", actual.stride(), expected.stride())
    rtol, atol = get_tolerances(actual, expected, rtol=options.rtol, atol=options.atol, id=path)
    if "meta" in (actual.device.type, expected.device.type):
        raise _Mismatch(NotImplementedError, "Comparing meta tensors is currently not supported", path)
    actual, expected = actual.detach(), expected.detach()
    if actual.layout is not torch.strided or expected.layout is not torch.strided:
        actual, expected = (t.to_dense() if t.layout is not torch.strided else t for t in (actual, expected))
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        common = torch.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    matches = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if torch.all(matches):
        return
    if actual.dim() == 0:
        raise _Mismatch(AssertionError, _number_message(actual.item(), expected.item(), rtol, atol), path)
    raise _Mismatch(AssertionError, _tensor_message(actual, expected, matches, rtol, atol), path)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise unless the values are close: |actual - expected| <= atol + rtol * |expected|, in all parts of containers."""
    options = _Options(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    try:
        _compare(actual, expected, options, ())
        return
    except _Mismatch as mismatch:
        error = mismatch.to_error(msg)
    raise error


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """assert_close by its old name, which converts and compares less strictly."""
    if not isinstance(actual, torch.Tensor):
        actual = torch.tensor(actual)
    if not isinstance(expected, torch.Tensor):
        expected = torch.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False,
                 check_stride=False, msg=msg or None)
