"""Printing of tensors, byte for byte as PyTorch prints them.

One formatter decides from the values that will be shown how all of them are written (width, digits, scientific or
not); then the nested brackets are laid out, with the middle of long dimensions left out; then come the suffixes.
"""
import contextlib
import dataclasses
import math

import rushlight as torch


@dataclasses.dataclass
class __PrinterOptions:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: object = None


PRINT_OPTS = __PrinterOptions()
_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed: digits, from how many elements on to shorten, items kept at the edges, line width."""
    if profile is not None:
        for name, value in _PROFILES.get(profile, {}).items():  # other names, "long" among them, change nothing
            setattr(PRINT_OPTS, name, value)
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems),
                        ("linewidth", linewidth)):
        if value is not None:
            setattr(PRINT_OPTS, name, value)
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions():
    return dataclasses.asdict(PRINT_OPTS)


@contextlib.contextmanager
def printoptions(**kwargs):
    """Other options inside."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _floats_of(tensor):
    """The values as doubles, for deciding on a format."""
    return tensor.double() if tensor.device.type != "mps" else tensor.cpu().double()


class _Formatter:
    """How the elements of a tensor are written."""

    def __init__(self, tensor):
        self.floating_dtype = tensor.dtype.is_floating_point
        self.int_mode = True
        self.sci_mode = False
        self.max_width = 1
        values = tensor.reshape(-1)
        if not self.floating_dtype:
            for value in values.tolist():
                self.max_width = max(self.max_width, len(str(value)))
            return
        shown = [v for v in _floats_of(values).tolist() if math.isfinite(v) and v != 0]
        if not shown:
            return
        sizes = [abs(v) for v in shown]
        smallest, largest = min(sizes), max(sizes)
        self.int_mode = all(v == math.ceil(v) for v in shown)
        spread = largest / smallest > 1000.0 or largest > 1.0e8
        if PRINT_OPTS.sci_mode is not None:
            self.sci_mode = PRINT_OPTS.sci_mode
        else:
            self.sci_mode = spread or (not self.int_mode and smallest < 1.0e-4)
        digits = PRINT_OPTS.precision
        if self.sci_mode:
            self.max_width = max(self.max_width, max(len("%.*e" % (digits, v)) for v in shown))
        elif self.int_mode:
            self.max_width = max(self.max_width, max(len("%.0f" % v) for v in shown) + 1)
        else:
            self.max_width = max(self.max_width, max(len("%.*f" % (digits, v)) for v in shown))

    def width(self):
        return self.max_width

    def format(self, value):
        if self.floating_dtype:
            if self.sci_mode:
                text = "%*.*e" % (self.max_width, PRINT_OPTS.precision, value)
            elif self.int_mode:
                text = "%.0f" % value
                if not (math.isinf(value) or math.isnan(value)):
                    text += "."
            else:
                text = "%.*f" % (PRINT_OPTS.precision, value)
        else:
            text = str(value)
        return text.rjust(self.max_width)


def _scalar_str(self, formatter1, formatter2=None):
    if formatter2 is None:
        return formatter1.format(self.item())
    value = self.item()
    real = formatter1.format(value.real)
    imag = (formatter2.format(value.imag) + "j").lstrip()
    return real + imag if imag[0] in "+-" else real + "+" + imag


def _value_text(value, formatter1, formatter2):
    if formatter2 is None:
        return formatter1.format(value)
    real = formatter1.format(value.real)
    imag = (formatter2.format(value.imag) + "j").lstrip()
    return real + imag if imag[0] in "+-" else real + "+" + imag


def _vector_str(self, indent, summarize, formatter1, formatter2=None):
    length = formatter1.width() + 2
    if formatter2 is not None:
        length += formatter2.width() + 1    # the j
    per_line = max(1, int(math.floor((PRINT_OPTS.linewidth - indent) / length)))
    edge = PRINT_OPTS.edgeitems
    if summarize and not edge:
        data = ["..."]
    elif summarize and self.size(0) > 2 * edge:
        data = [_value_text(v, formatter1, formatter2) for v in self[:edge].tolist()] + [" ..."]
        data += [_value_text(v, formatter1, formatter2) for v in self[-edge:].tolist()]
    else:
        data = [_value_text(v, formatter1, formatter2) for v in self.tolist()]
    lines = [", ".join(data[i:i + per_line]) for i in range(0, len(data), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _tensor_str_with_formatter(self, indent, summarize, formatter1, formatter2=None):
    dim = self.dim()
    if dim == 0:
        return _scalar_str(self, formatter1, formatter2)
    if dim == 1:
        return _vector_str(self, indent, summarize, formatter1, formatter2)
    edge = PRINT_OPTS.edgeitems

    def slice_text(i):
        return _tensor_str_with_formatter(self[i], indent + 1, summarize, formatter1, formatter2)
    if summarize and self.size(0) > 2 * edge:
        slices = [slice_text(i) for i in range(edge)] + ["..."]
        slices += [slice_text(i) for i in range(self.shape[0] - edge, self.shape[0])]
    else:
        slices = [slice_text(i) for i in range(self.size(0))]
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(slices) + "]"


def _tensor_str(self, indent):
    """The values in brackets, indented by so many columns."""
    if self.numel() == 0:
        return "[]"
    summarize = self.numel() > PRINT_OPTS.threshold
    if self.is_neg():
        self = self.resolve_neg()
    if str(self.dtype).startswith("torch.float8"):
        # A type with few operations: its values are those of a half.
        self = self.float() if self.dtype == getattr(torch, "float8_e8m0fnu", None) else self.half()
    if self.dtype.is_complex:
        self = self.resolve_conj()
        if self.dtype == getattr(torch, "complex32", None):
            self = self.to(torch.complex64)
        shown = get_summarized_data(self) if summarize else self
        real, imag = _Formatter(shown.real), _Formatter(shown.imag)
        return _tensor_str_with_formatter(self, indent, summarize, real, imag)
    formatter = _Formatter(get_summarized_data(self) if summarize else self)
    return _tensor_str_with_formatter(self, indent, summarize, formatter)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    parts = [tensor_str]
    at = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        length = len(suffix)
        if force_newline or at + length + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            at = indent + length
            force_newline = False
        else:
            parts.append(", " + suffix)
            at += length + 2
    return "".join(parts) + ")"


def get_summarized_data(self):
    """The elements at the edges of every dimension, which are those that will be shown."""
    edge = PRINT_OPTS.edgeitems
    dim = self.dim()
    if dim == 0:
        return self
    if dim == 1:
        if self.size(0) > 2 * edge:
            return torch.cat((self[:edge], self[self.size(0) - edge:]))
        return self
    if not edge:
        return self.new_empty([0] * dim)
    if self.size(0) > 2 * edge:
        picked = [self[i] for i in range(edge)] + [self[i] for i in range(len(self) - edge, len(self))]
        return torch.stack([get_summarized_data(x) for x in picked])
    return torch.stack([get_summarized_data(x) for x in self])


def _grad_fn_name(fn):
    name = type(fn).__name__
    if name in ("CppFunction", "Node"):
        name = fn.name().rsplit("::", 1)[-1]
    return name


def _sparse_parts(self, indent):
    """The text and closing suffixes of a sparse tensor."""
    lines = []
    if self.layout is torch.sparse_coo:
        parts = (("indices", self._indices().detach(), 0), ("values", self._values().detach(), None))
        count = self._nnz()
    else:
        by_row = self.layout in (torch.sparse_csr, torch.sparse_bsr)
        compressed = self.crow_indices() if by_row else self.ccol_indices()
        plain = self.col_indices() if by_row else self.row_indices()
        names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
        parts = ((names[0], compressed.detach(), None), (names[1], plain.detach(), None),
                 ("values", self.values().detach(), None))
        count = self._nnz()
    for name, value, _ in parts:
        prefix = name + "=tensor("
        text = _tensor_str(value, indent + len(prefix))
        if value.numel() == 0:
            text += ", size=" + str(tuple(value.shape))
        lines.append(prefix + text + ")")
    return (",\n" + " " * indent).join(lines), count


def _str_intern(inp, *, tensor_contents=None):
    if torch._C._functorch.is_functorch_wrapped_tensor(inp):
        text = _functorch_str(inp, tensor_contents)
        if text is not None:
            return text
    plain = type(inp) is torch.Tensor or type(inp) is torch.nn.Parameter
    prefix = "nested_tensor(" if inp.is_nested else "tensor(" if plain else type(inp).__name__ + "("
    indent = len(prefix)
    suffixes = []
    custom = tensor_contents is not None
    text = tensor_contents
    self, tangent = torch.autograd.forward_ad.unpack_dual(inp) if torch.autograd.forward_ad._current_level >= 0 \
        else (inp, None)
    if self.device.type != "cpu":
        suffixes.append("device='%s'" % self.device)
    default = torch.get_default_dtype()
    usual = (default, torch.int64, torch.bool, torch.complex128 if default == torch.double else torch.complex64)
    has_default_dtype = self.dtype in usual
    if self.layout is torch.sparse_coo or self.layout in _COMPRESSED():
        suffixes.append("size=" + str(tuple(self.shape)))
        if self.device.type != "meta":
            suffixes.append("nnz=%d" % self._nnz())
        if not has_default_dtype:
            suffixes.append("dtype=" + str(self.dtype))
        if not custom:
            text = "..." if self.device.type == "meta" else _sparse_parts(self, indent)[0]
    elif self.is_quantized:
        suffixes.append("size=" + str(tuple(self.shape)))
        if not has_default_dtype:
            suffixes.append("dtype=" + str(self.dtype))
        suffixes.append("quantization_scheme=" + str(self.qscheme()))
        if self.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            suffixes.append("scale=" + str(self.q_scale()))
            suffixes.append("zero_point=" + str(self.q_zero_point()))
        else:
            suffixes.append("scale=" + str(self.q_per_channel_scales()))
            suffixes.append("zero_point=" + str(self.q_per_channel_zero_points()))
            suffixes.append("axis=" + str(self.q_per_channel_axis()))
        if not custom:
            text = _tensor_str(self.dequantize(), indent)
    elif self.is_nested:
        if not custom:
            def indented(s):
                return "\n".join("  " + line for line in s.split("\n"))
            with torch.no_grad():
                text = "[\n" + ",\n".join(indented(str(t)) for t in self.unbind()) + "\n]"
    else:
        if self.device.type == "meta":
            suffixes.append("size=" + str(tuple(self.shape)))
            if self.dtype != default:
                suffixes.append("dtype=" + str(self.dtype))
            if not custom:
                text = "..."
        elif self.numel() == 0 and not self.is_sparse:
            # Only the size of tensors whose size the brackets do not show.
            if self.dim() != 1:
                suffixes.append("size=" + str(tuple(self.shape)))
            if self.dtype != default:
                suffixes.append("dtype=" + str(self.dtype))
            if not custom:
                text = "[]"
        else:
            if not PRINT_OPTS.edgeitems:
                suffixes.append("size=" + str(tuple(self.shape)))
            if not has_default_dtype:
                suffixes.append("dtype=" + str(self.dtype))
            if not custom:
                text = _tensor_str(self.to_dense() if self.layout is not torch.strided else self, indent)
    if self.layout is not torch.strided:
        suffixes.append("layout=" + str(self.layout))
    # The grad_fn is asked last: of a view changed in place it may raise.
    name, shown = None, inp if tangent is None else self
    try:
        fn = shown.grad_fn
    except RuntimeError:
        name, fn = "Invalid", None
    if fn is not None:
        name = _grad_fn_name(fn)
    if name is not None:
        suffixes.append("grad_fn=<%s>" % name)
    elif shown.requires_grad:
        suffixes.append("requires_grad=True")
    if tangent is not None:
        suffixes.append("tangent=%s" % tangent.detach())
    text = _add_suffixes(prefix + text, suffixes, indent, force_newline=self.layout is torch.sparse_coo)
    return "Parameter(%s)" % text if not plain and isinstance(inp, torch.nn.Parameter) else text


def _COMPRESSED():
    return (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def _functorch_str(tensor, tensor_contents=None):
    """The wrappers of vmap and grad show the level and what they wrap."""
    functorch = torch._C._functorch
    level = functorch.maybe_get_level(tensor)
    if level == -1:
        return None
    value = functorch.get_unwrapped(tensor)
    text = repr(value)
    indented = "\n".join("    " + line for line in text.split("\n"))
    if functorch.is_batchedtensor(tensor):
        return "BatchedTensor(lvl=%d, bdim=%d, value=\n%s\n)" % (level, functorch.maybe_get_bdim(tensor), indented)
    if functorch.is_gradtrackingtensor(tensor):
        return "GradTrackingTensor(lvl=%d, value=\n%s\n)" % (level, indented)
    return None


def _str(self, *, tensor_contents=None):
    """What repr(tensor) gives."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        return _str_intern(self, tensor_contents=tensor_contents)
