"""assert_close: values equal up to tolerances, with messages that say where and by how much they differ.

Two inputs become pairs, one of each of their parts, and then each pair is compared. A class of pairs says in its constructor
which inputs it takes; the first class that takes them has them. Programs' own tests add classes to these (torchvision's of images).
"""
import abc
import cmath
import collections.abc
import warnings

import rushlight as torch

_PRECISIONS = {torch.float16: (0.001, 1e-5), torch.bfloat16: (0.016, 1e-5), torch.float32: (1.3e-6, 1e-5),
               torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7),
               **dict.fromkeys((torch.quint8, torch.qint8, torch.qint32), (1.3e-6, 1e-5))}
if hasattr(torch, "complex32"):
    _PRECISIONS[torch.complex32] = (0.001, 1e-5)


class ErrorMeta(Exception):
    """A difference: the class to raise, its message, and the path to the item."""

    def __init__(self, type, msg, *, id=()):
        super().__init__("%s: %s: what is to be raised is to_error()" % (type.__name__, msg))
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg=None):
        if msg is None or callable(msg):
            path = "\n\nThe failure occurred for item %s" % "".join("[%r]" % (p,) for p in self.id) if self.id else ""
            msg = self.msg + path if msg is None else msg(self.msg + path)
        return self.type(msg)


class UnsupportedInputs(Exception):
    """Raised by the constructor of a pair that takes no such inputs."""


def default_tolerances(*inputs, dtype_precisions=None):
    """(rtol, atol) for dtypes: the loosest of the inputs'."""
    table = dtype_precisions or _PRECISIONS
    dtypes = [i.dtype if isinstance(i, torch.Tensor) else i for i in inputs]
    pairs = [table.get(d, (0.0, 0.0)) for d in dtypes]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def get_tolerances(*inputs, rtol, atol, id=()):
    if (rtol is None) != (atol is None):
        raise ErrorMeta(ValueError, "Both 'rtol' and 'atol' must be either specified or omitted, but got no %s." % ("rtol" if rtol is None else "atol"), id=id)
    return (rtol, atol) if rtol is not None else default_tolerances(*inputs)


def _number_message(actual, expected, rtol, atol):
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
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


class Pair(abc.ABC):
    """Two inputs to compare. Options that a class does not know are kept in _unknown_parameters."""

    def __init__(self, actual, expected, *, id=(), **unknown_parameters):
        self.actual, self.expected, self.id = actual, expected, id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported():
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs, cls):
        if not all(isinstance(i, cls) for i in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type, msg, *, id=()):
        raise ErrorMeta(type, msg, id=id or getattr(self, "id", ()))

    @abc.abstractmethod
    def compare(self):
        """Raises ErrorMeta when the two differ."""

    def extra_repr(self):
        """Names of attributes, or pairs of a name and what to print."""
        return []

    def __repr__(self):
        shown = [(e, getattr(self, e)) if isinstance(e, str) else e for e in ("id", "actual", "expected", *self.extra_repr())]
        return "%s(\n%s\n)" % (type(self).__name__, "\n".join("    %s=%s," % pair for pair in shown))


class ObjectPair(Pair):
    """What is compared by ==."""

    def compare(self):
        try:
            equal = self.actual == self.expected
        except Exception as error:
            self._fail(ValueError, "%s == %s failed with:\n%s." % (self.actual, self.expected, error))
        if not equal:
            self._fail(AssertionError, "%s != %s" % (self.actual, self.expected))


class NonePair(Pair):
    """What should be None."""

    def __init__(self, actual, expected, **other_parameters):
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self):
        if self.actual is not self.expected:
            self._fail(AssertionError, "None mismatch: %s is not %s" % (self.actual, self.expected))


def _plain(x):
    """A number of NumPy as Python's; others as they are."""
    return x.item() if type(x).__module__ == "numpy" and getattr(x, "shape", None) == () and type(x).__name__ != "ndarray" else x


class BooleanPair(Pair):
    """Truth values, Python's and NumPy's."""

    def __init__(self, actual, expected, *, id=(), **other_parameters):
        actual, expected = _plain(actual), _plain(expected)
        self._check_inputs_isinstance(actual, expected, cls=bool)
        super().__init__(actual, expected, id=id, **other_parameters)

    def compare(self):
        if self.actual is not self.expected:
            self._fail(AssertionError, "Booleans mismatch: %s is not %s" % (self.actual, self.expected))


class NumberPair(Pair):
    """Numbers, Python's and NumPy's."""

    _DTYPES = ((complex, torch.complex128), (float, torch.float64), (int, torch.int64))

    def __init__(self, actual, expected, *, id=(), rtol=None, atol=None, equal_nan=False, check_dtype=False, **other_parameters):
        actual, expected = _plain(actual), _plain(expected)
        self._check_inputs_isinstance(actual, expected, cls=(int, float, complex))
        super().__init__(actual, expected, id=id, **other_parameters)
        dtypes = [next(dtype for kind, dtype in self._DTYPES if isinstance(x, kind)) for x in (actual, expected)]
        self.rtol, self.atol = get_tolerances(*dtypes, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    def compare(self):
        actual, expected = self.actual, self.expected
        if self.check_dtype and type(actual) is not type(expected):
            self._fail(AssertionError, "The (d)types do not match: %s != %s." % (type(actual), type(expected)))
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        finite = cmath.isfinite(actual) and cmath.isfinite(expected)
        if not finite or abs(actual - expected) > self.atol + self.rtol * abs(expected):
            self._fail(AssertionError, _number_message(actual, expected, self.rtol, self.atol))

    def extra_repr(self):
        return "rtol", "atol", "equal_nan", "check_dtype"


_LAYOUTS = {torch.sparse_csr: ("CSR", "crow_indices", "col_indices"), torch.sparse_bsr: ("BSR", "crow_indices", "col_indices"),
            torch.sparse_csc: ("CSC", "ccol_indices", "row_indices"), torch.sparse_bsc: ("BSC", "ccol_indices", "row_indices")}


class TensorLikePair(Pair):
    """Tensors, and what as_tensor() makes one of."""

    def __init__(self, actual, expected, *, id=(), allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True,
                 check_layout=True, check_stride=False, **other_parameters):
        actual, expected = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(actual, expected, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_device, self.check_dtype = equal_nan, check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def _process_inputs(self, actual, expected, *, id, allow_subclasses):
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or not allow_subclasses and type(actual) is not type(expected):
            self._inputs_not_supported()
        tensors = self._to_tensor(actual), self._to_tensor(expected)
        for tensor in tensors:
            self._check_supported(tensor, id=id)
        return tensors

    def _to_tensor(self, tensor_like):
        if isinstance(tensor_like, torch.Tensor):
            return tensor_like
        try:
            return torch.as_tensor(tensor_like)
        except Exception:
            self._inputs_not_supported()

    def _check_supported(self, tensor, *, id):
        if not tensor.is_nested and tensor.layout not in (torch.strided, torch.sparse_coo, *_LAYOUTS):
            raise ErrorMeta(ValueError, "Unsupported tensor layout %s" % tensor.layout, id=id)

    def compare(self):
        self._compare_attributes(self.actual, self.expected)
        if not self.actual.is_meta and not self.expected.is_meta:
            self._compare_values(*self._equalize_attributes(self.actual, self.expected))

    def _compare_attributes(self, actual, expected):
        def compare(what, a, e):
            if a != e:
                self._fail(AssertionError, "The values for attribute '%s' do not match: %s != %s." % (what, a, e))
        if actual.is_nested and expected.is_nested:
            compare("size(0)", actual.size(0), expected.size(0))
        else:
            compare("shape", actual.shape, expected.shape)
        compare("is_quantized", actual.is_quantized, expected.is_quantized)
        if actual.is_quantized:
            compare("qscheme()", actual.qscheme(), expected.qscheme())
        if self.check_layout:
            compare("layout", actual.layout, expected.layout)
        if self.check_stride and actual.layout is expected.layout is torch.strided:
            compare("stride()", actual.stride(), expected.stride())
        if self.check_device:
            compare("device", actual.device, expected.device)
        if self.check_dtype:
            compare("dtype", actual.dtype, expected.dtype)

    def _equalize_attributes(self, actual, expected):
        """Both on one device, of one dtype and layout."""
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.dtype != expected.dtype:
            common = torch.promote_types(actual.dtype, expected.dtype)
            actual, expected = actual.to(common), expected.to(common)
        if actual.layout != expected.layout:
            actual, expected = (t if t.layout is torch.strided else t.to_dense() for t in (actual, expected))
        return actual, expected

    def _compare_values(self, actual, expected):
        options = {"rtol": self.rtol, "atol": self.atol, "equal_nan": self.equal_nan}
        if actual.is_nested:
            for i, (a, e) in enumerate(zip(actual.unbind(), expected.unbind())):
                type(self)(a, e, id=(*self.id, i), check_device=self.check_device, check_dtype=self.check_dtype, **options).compare()
        elif actual.is_quantized:
            self._compare_regular_values_close(actual.dequantize(), expected.dequantize(), identifier="Quantized tensor-likes", **options)
        elif actual.layout is torch.sparse_coo:
            self._compare_sparse_coo_values(actual, expected, **options)
        elif actual.layout in _LAYOUTS:
            self._compare_sparse_compressed_values(actual, expected, **options)
        else:
            self._compare_regular_values_close(actual, expected, **options)

    def _compare_counts(self, actual, expected, layout):
        if actual._nnz() != expected._nnz():
            self._fail(AssertionError, "The number of specified values in sparse %s tensors does not match: %d != %d" % (layout, actual._nnz(), expected._nnz()))

    def _compare_sparse_coo_values(self, actual, expected, *, rtol, atol, equal_nan):
        if actual.sparse_dim() != expected.sparse_dim():
            self._fail(AssertionError, "The number of sparse dimensions in sparse COO tensors does not match: %d != %d" % (actual.sparse_dim(), expected.sparse_dim()))
        if actual.is_coalesced() != expected.is_coalesced():
            actual, expected = actual.coalesce(), expected.coalesce()
        self._compare_counts(actual, expected, "COO")
        self._compare_regular_values_equal(actual._indices(), expected._indices(), identifier="Sparse COO indices")
        self._compare_regular_values_close(actual._values(), expected._values(), rtol=rtol, atol=atol, equal_nan=equal_nan, identifier="Sparse COO values")

    def _compare_sparse_compressed_values(self, actual, expected, *, rtol, atol, equal_nan):
        layout, *indices = _LAYOUTS[actual.layout]
        self._compare_counts(actual, expected, layout)
        for name in indices:
            self._compare_regular_values_equal(getattr(actual, name)(), getattr(expected, name)(), identifier="Sparse %s %s" % (layout, name))
        self._compare_regular_values_close(actual.values(), expected.values(), rtol=rtol, atol=atol, equal_nan=equal_nan, identifier="Sparse %s values" % layout)

    def _compare_regular_values_equal(self, actual, expected, *, equal_nan=False, identifier=None):
        self._compare_regular_values_close(actual, expected, rtol=0, atol=0, equal_nan=equal_nan, identifier=identifier)

    def _compare_regular_values_close(self, actual, expected, *, rtol, atol, equal_nan, identifier=None):
        actual, expected = actual.detach(), expected.detach()
        matches = torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if torch.all(matches):
            return
        if actual.dim() == 0:
            message = _number_message(actual.item(), expected.item(), rtol, atol)
        else:
            name = identifier("Tensor-likes") if callable(identifier) else identifier
            message = _tensor_message(actual, expected, matches, rtol, atol, name or "Tensor-likes")
        self._fail(AssertionError, message)

    def extra_repr(self):
        return "rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout", "check_stride"


def _sorted(keys):
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def originate_pairs(actual, expected, *, pair_types, sequence_types=(collections.abc.Sequence,), mapping_types=(collections.abc.Mapping,), id=(), **options):
    """The pairs of all parts of two containers, or of the two themselves."""
    def parts(keys):
        return [pair for key in keys for pair in originate_pairs(actual[key], expected[key], pair_types=pair_types, sequence_types=sequence_types,
                                                                 mapping_types=mapping_types, id=(*id, key), **options)]
    text = isinstance(actual, str) and isinstance(expected, str)
    if isinstance(actual, sequence_types) and isinstance(expected, sequence_types) and not text:
        if len(actual) != len(expected):
            raise ErrorMeta(AssertionError, "The length of the sequences mismatch: %d != %d" % (len(actual), len(expected)), id=id)
        return parts(range(len(actual)))
    if isinstance(actual, mapping_types) and isinstance(expected, mapping_types):
        mine, theirs = set(actual), set(expected)
        if mine != theirs:
            raise ErrorMeta(AssertionError, "The keys of the mappings do not match:\nMissing keys in the actual mapping: %s\n"
                            "Additional keys in the actual mapping: %s" % (_sorted(theirs - mine), _sorted(mine - theirs)), id=id)
        return parts(_sorted(mine))
    for kind in pair_types:
        try:
            return [kind(actual, expected, id=id, **options)]
        except UnsupportedInputs:
            continue
    raise ErrorMeta(TypeError, "No comparison pair was able to handle inputs of type %s and %s." % (type(actual), type(expected)), id=id)


def not_close_error_metas(actual, expected, *, pair_types=(ObjectPair,), sequence_types=(collections.abc.Sequence,),
                          mapping_types=(collections.abc.Mapping,), **options):
    """What differs, an ErrorMeta for each pair that does. Inputs that make no pairs raise."""
    error = None
    try:
        pairs = originate_pairs(actual, expected, pair_types=pair_types, sequence_types=sequence_types, mapping_types=mapping_types, **options)
    except ErrorMeta as meta:
        error = meta.to_error()
    if error is not None:
        raise error
    metas = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as meta:
            metas.append(meta)
    return metas


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise unless the values are close: |actual - expected| <= atol + rtol * |expected|, in all parts of containers."""
    metas = not_close_error_metas(actual, expected, pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair), allow_subclasses=allow_subclasses,
                                  rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device, check_dtype=check_dtype,
                                  check_layout=check_layout, check_stride=check_stride, msg=msg)
    if metas:
        raise metas[0].to_error(msg)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """assert_close by its old name, which converts and compares less strictly."""
    warnings.warn("`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
                  "`torch.testing.assert_close()` instead.", FutureWarning, stacklevel=2)
    if not isinstance(actual, torch.Tensor):
        actual = torch.tensor(actual)
    if not isinstance(expected, torch.Tensor):
        expected = torch.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True, check_dtype=False,
                 check_stride=False, msg=msg or None)
