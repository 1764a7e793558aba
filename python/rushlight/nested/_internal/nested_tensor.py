"""Nested tensors of jagged layout: values (total, ...), the parts one behind the other, and offsets that say where each begins.

Their size is (batch, j1, ...): one dimension is ragged, and j1 stands for its lengths. Two tensors with the same offsets
object have the same nested int, and only they go together. `ops.py` has what operations do.
"""
import rushlight as torch
from rushlight.nested._internal.base import NestedBase, NestedInt
from rushlight.utils.weak import WeakTensorKeyDictionary


class _SymintRegistry:
    """offsets (or lengths) -> their nested int, as long as the tensor lives."""

    def __init__(self):
        self._known = WeakTensorKeyDictionary()
        self._count = 0

    def __getitem__(self, tensor):
        if tensor not in self._known:
            self._count += 1
            self._known[tensor] = NestedInt(self._count)
        return self._known[tensor]

    def __setitem__(self, tensor, symint):
        self._known[tensor] = symint

    def __contains__(self, tensor):
        return tensor in self._known

    def get(self, tensor, default=None):
        return self._known.get(tensor, default)


_tensor_symint_registry = _SymintRegistry()


def get_tensor_symint(tensor, *, coeff=1):
    """The nested int that stands for these offsets or lengths."""
    symint = _tensor_symint_registry[tensor]
    return symint if coeff == 1 else symint * coeff


class NestedTensor(NestedBase):
    """NestedTensor(values, offsets): the way to make one is torch.nested.nested_tensor_from_jagged."""

    _layout = torch.jagged

    @staticmethod
    def __new__(cls, values, offsets, *, lengths=None, requires_grad=None, _ragged_idx=1, _metadata_cache=None):
        if values.is_nested or offsets.dim() != 1:
            raise RuntimeError("NestedTensor: values of jagged layout are dense, and offsets have one dimension")
        ragged = get_tensor_symint(offsets if lengths is None else lengths)
        size = [offsets.size(0) - 1, *values.shape]
        size[_ragged_idx] = ragged
        x = NestedBase._make(cls, values, size)
        x._offsets, x._lengths, x._ragged_idx = offsets, lengths, _ragged_idx
        x._metadata_cache = {} if _metadata_cache is None else _metadata_cache
        return x if requires_grad is None else x.requires_grad_(requires_grad)

    def _like(self, values, ragged_idx=None):
        return NestedTensor(values, self._offsets, lengths=self._lengths, _metadata_cache=self._metadata_cache,
                            _ragged_idx=self._ragged_idx if ragged_idx is None else ragged_idx)

    _values = property(lambda self: self._dense)
    _size = shape = property(lambda self: torch.Size(self._sizes))

    def values(self):
        """The dense tensor of all parts; what is changed in it is changed here."""
        return self._dense.view_as(self._dense) if self._dense.requires_grad else self._dense

    def offsets(self):
        return self._offsets

    def lengths(self):
        """How long the parts are where they do not end at the next offset, else None."""
        return self._lengths

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        inner = self._dense.stride()
        all_ = (self._sizes[self._ragged_idx] * inner[self._ragged_idx - 1], *inner)
        return all_ if dim is None else all_[dim]

    @property
    def _strides(self):
        return self.stride()

    def is_contiguous(self, memory_format=torch.contiguous_format):
        return self._lengths is None and self._dense.is_contiguous()

    # ---- lengths of parts

    def _part_lengths(self):
        return self._offsets.diff() if self._lengths is None else self._lengths

    def _extreme(self, name, pick):
        if name not in self._metadata_cache:
            lengths = self._part_lengths()
            self._metadata_cache[name] = int(pick(lengths)) if lengths.numel() else 0
        return self._metadata_cache[name]

    def _get_max_seqlen(self):
        return self._extreme("max_seqlen", torch.max)

    def _get_min_seqlen(self):
        return self._extreme("min_seqlen", torch.min)

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)
    _maybe_max_seqlen = property(lambda self: self._metadata_cache.get("max_seqlen"))
    _maybe_min_seqlen = property(lambda self: self._metadata_cache.get("min_seqlen"))

    # ---- the rest

    def __len__(self):
        return self._sizes[0]

    def __iter__(self):
        return iter(self.unbind())

    def __repr__(self, *, tensor_contents=None):
        history = ", grad_fn=%s" % self.grad_fn if self.grad_fn is not None else ", requires_grad=True" if self.requires_grad else ""
        return "NestedTensor(size=%s, offsets=%s%s, contiguous=%s)" % (self._sizes, self._offsets, history, self.is_contiguous())

    def tolist(self):
        raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")

    def numpy(self, *, force=False):
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __reduce_ex__(self, protocol):
        # Extremes of lengths are tensors without elements in PyTorch's files, whose size is the number.
        known = {name: torch.empty(n, 0, dtype=self.dtype) for name, n in self._metadata_cache.items()}
        state = {"values": self._dense, "offsets": self._offsets, "lengths": self._lengths, "_ragged_idx": self._ragged_idx, "_metadata_cache": known,
                 "requires_grad": self.requires_grad}
        return torch._tensor._rebuild_from_type_v2, (_rebuild_njt, NestedTensor, (state,), {})

    def __setstate__(self, state):
        """Attributes in files say again what _rebuild_njt was given."""

    @staticmethod
    def _run(func, args, kwargs):
        return ops.run(func, args, kwargs)

def _rebuild_njt(state):
    """What files hold; the function's name is in them."""
    known = {name: t.size(0) if isinstance(t, torch.Tensor) else t for name, t in (state["_metadata_cache"] or {}).items()}
    values = state["values"].detach()
    return NestedTensor(values, state["offsets"], lengths=state["lengths"], requires_grad=state["requires_grad"], _ragged_idx=state["_ragged_idx"],
                        _metadata_cache=known)


# ---- making them

def nested_view_from_values_offsets(values, offsets, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    return nested_view_from_values_offsets_lengths(values, offsets, None, ragged_idx, min_seqlen, max_seqlen)


def nested_view_from_values_offsets_lengths(values, offsets, lengths, ragged_idx=1, min_seqlen=None, max_seqlen=None):
    """A view of values: what is changed in one is changed in the other, and gradients reach values."""
    known = {"min_seqlen": min_seqlen, "max_seqlen": max_seqlen}
    dense = values.view_as(values) if values.requires_grad else values
    return NestedTensor(dense, offsets, lengths=lengths, _ragged_idx=ragged_idx, _metadata_cache={k: v for k, v in known.items() if v is not None})


def _offsets_of(lengths, device=None):
    return torch.cat([torch.zeros(1, dtype=torch.int64, device=device), torch.as_tensor(lengths, dtype=torch.int64, device=device).cumsum(0)])


def jagged_from_list(tensors, offsets, dtype=None, device=None):
    """(the nested tensor of copies of these parts, its offsets)."""
    if not tensors:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if len({t.dtype for t in tensors}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dtype")
    if len({t.device for t in tensors}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must be on the same device")
    if len({t.dim() for t in tensors}) > 1:
        raise RuntimeError("When constructing a nested tensor, all tensors in list must have the same dim")
    if tensors[0].dim() == 0:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    varying = [d for d in range(tensors[0].dim()) if len({t.shape[d] for t in tensors}) > 1] or [0]
    if len(varying) > 1:
        raise RuntimeError("Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only allows "
                           "for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim.")
    at = varying[0]
    values = torch.cat(tensors, dim=at).to(dtype=dtype, device=device)
    if offsets is None:
        offsets = _offsets_of([t.shape[at] for t in tensors], values.device)
    lengths = [t.shape[at] for t in tensors]
    return nested_view_from_values_offsets(values, offsets, at + 1, min(lengths), max(lengths)), offsets


def jagged_from_tensor_and_lengths(tensor, starts, lengths):
    """(a view of part starts[b] : starts[b] + lengths[b] of each row, its offsets, its lengths or None where nothing lies between)."""
    batch, longest = tensor.shape[:2]
    rows = torch.arange(batch + 1, device=tensor.device) * longest
    starts, lengths = (torch.as_tensor(t, device=tensor.device).expand(batch).to(torch.int64) for t in (starts, lengths))
    offsets = torch.cat([starts + rows[:-1], (starts[-1] + lengths[-1] + rows[-2]).reshape(1)]) if batch else rows
    values = tensor.reshape(-1, *tensor.shape[2:])
    if bool((offsets.diff() == lengths).all()):
        lo, hi = int(offsets[0]), int(offsets[-1])
        return nested_view_from_values_offsets(values[lo:hi], offsets - lo), offsets - lo, None
    return nested_view_from_values_offsets_lengths(values, offsets, lengths), offsets, lengths


def buffer_from_jagged(jagged):
    return jagged.values()


def is_expandable_to(shape, desired):
    """Could a tensor of this shape be expanded to the desired one?"""
    return len(shape) <= len(desired) and all(a == b or a == 1 for a, b in zip(shape[::-1], tuple(desired)[::-1]))


from rushlight.nested._internal import ops  # noqa: E402  the rules; they need the class
