"""Attention with a score function and a mask function of your own.

Both functions are called once, with index tensors that broadcast to (batch, head, query, key), instead of
being compiled into a kernel; the block mask is made and kept, and the mask function decides.
"""
import enum
import inspect
import math
from collections import namedtuple

import rushlight as torch

__all__ = ["BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "FlexKernelOptions", "create_block_mask",
           "create_mask", "or_masks", "and_masks", "noop_mask"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30

FlexKernelOptions = dict
AuxRequest = namedtuple("AuxRequest", ["lse", "max_scores"], defaults=(False, False))
AuxOutput = namedtuple("AuxOutput", ["lse", "max_scores"], defaults=(None, None))


class _ModificationType(enum.Enum):
    """What a function changes: scores, or who may see whom."""
    SCORE_MOD = 1
    MASK_MOD = 2
    UNKNOWN = 3


def _get_mod_type(fn):
    """Told by the number of arguments: a score function has the score in front."""
    positional = [p for p in inspect.signature(fn).parameters.values() if p.default is inspect.Parameter.empty]
    kinds = {4: _ModificationType.MASK_MOD, 5: _ModificationType.SCORE_MOD}
    return kinds.get(len(positional), _ModificationType.UNKNOWN)


def _identity(score, batch, head, token_q, token_kv):
    return score


def noop_mask(batch, head, token_q, token_kv):
    """Everybody sees everybody."""
    return batch.new_ones(size=(), dtype=torch.bool, device=batch.device)


def or_masks(*mask_mods):
    """Visible where any of the masks says so."""
    if not all(callable(fn) for fn in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def or_mask(b, h, q_idx, kv_idx):
        result = b.new_zeros((), dtype=torch.bool)
        for fn in mask_mods:
            result = result | fn(b, h, q_idx, kv_idx)
        return result

    return or_mask


def and_masks(*mask_mods):
    """Visible where all of the masks say so."""
    if not all(callable(fn) for fn in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def and_mask(b, h, q_idx, kv_idx):
        result = b.new_ones((), dtype=torch.bool)
        for fn in mask_mods:
            result = result & fn(b, h, q_idx, kv_idx)
        return result

    return and_mask


def _indices(B, H, Q_LEN, KV_LEN, device):
    """Index tensors of the four dimensions that broadcast against each other."""
    def along(size, dim):
        shape = [1, 1, 1, 1]
        shape[dim] = size
        return torch.arange(0, size, device=device).view(shape)

    return along(B, 0), along(H, 1), along(Q_LEN, 2), along(KV_LEN, 3)


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """The mask of a mask function, or of a score function that hides by -inf, in full."""
    B = 1 if B is None else B
    H = 1 if H is None else H
    device = "cpu" if device is None else device
    at = _indices(B, H, Q_LEN, KV_LEN, device)
    kind = _get_mod_type(mod_fn)
    with torch.no_grad():
        if kind == _ModificationType.SCORE_MOD:
            scores = mod_fn(torch.zeros(B, H, Q_LEN, KV_LEN, device=device), *at)
            mask = ~torch.isneginf(scores)
        elif kind == _ModificationType.MASK_MOD:
            mask = mod_fn(*at)
        else:
            raise AssertionError("create_mask: the function takes neither the four indices nor a score and them")
    return torch.as_tensor(mask, device=device).expand(B, H, Q_LEN, KV_LEN)


def _broadcast_to_dim(x, dim):
    while x.dim() < dim:
        x = x.unsqueeze(0)
    return x


def _round_up_to_multiple(x, multiple):
    return (x + multiple - 1) // multiple * multiple


def _convert_mask_to_block_mask(mask, Q_BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
                                KV_BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, separate_full_blocks=False):
    """(blocks with some visible pair, blocks with all), or (blocks with any, None)."""
    if mask.dtype != torch.bool:
        raise AssertionError(f"mask must be of dtype bool, got {mask.dtype}")
    mask = _broadcast_to_dim(mask, 4)
    rows, cols = mask.shape[-2:]
    mask = torch.nn.functional.pad(mask, (0, _round_up_to_multiple(cols, KV_BLOCK_SIZE) - cols,
                                          0, _round_up_to_multiple(rows, Q_BLOCK_SIZE) - rows))
    B, H, Q, KV = mask.shape
    blocks = mask.view(B, H, Q // Q_BLOCK_SIZE, Q_BLOCK_SIZE, KV // KV_BLOCK_SIZE, KV_BLOCK_SIZE)
    visible = blocks.permute(0, 1, 2, 4, 3, 5).sum(dim=[-2, -1])
    if separate_full_blocks:
        full = visible == Q_BLOCK_SIZE * KV_BLOCK_SIZE
        return ((visible > 0) & ~full).to(torch.int8), full.to(torch.int8)
    return (visible > 0).to(torch.int8), None


def _convert_block_mask_to_mask(block_mask, KV_BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
                                Q_BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE):
    if block_mask.dim() != 4:
        raise AssertionError(f"block_mask must be 4-dimensional, got {block_mask.dim()}")
    return block_mask.repeat_interleave(Q_BLOCK_SIZE, -2).repeat_interleave(KV_BLOCK_SIZE, -1)


def _ordered_to_dense(num_blocks_in_row, col_indices, num_cols):
    """A 0/1 matrix of blocks from counts and indices."""
    place = torch.arange(col_indices.shape[-1], device=col_indices.device)
    counted = (place < num_blocks_in_row.unsqueeze(-1)).to(torch.int32)
    dense = torch.zeros((*col_indices.shape[:-1], num_cols), dtype=torch.int32, device=col_indices.device)
    return dense.scatter_add(-1, col_indices.long().clamp(max=num_cols - 1), counted)


def _dense_to_ordered(dense_mask):
    """Counts per row, and column indices with the present ones first."""
    dense_mask = dense_mask.to(torch.int32)
    counts = dense_mask.sum(dim=-1)
    order = torch.argsort(dense_mask, dim=-1, descending=True, stable=True)
    return counts.to(torch.int32).contiguous(), order.to(torch.int32).contiguous()


def _transpose_ordered(num_blocks_in_row, col_indices, num_cols=None):
    num_cols = col_indices.shape[-1] if num_cols is None else num_cols
    return _dense_to_ordered(_ordered_to_dense(num_blocks_in_row, col_indices, num_cols).transpose(-2, -1))


class BlockMask:
    """Which blocks of (query, key) pairs are partly or wholly visible, and the mask function."""

    _TENSOR_ATTRS = ["kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
                     "q_indices", "full_q_num_blocks", "full_q_indices"]

    def __init__(self, seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks,
                 q_indices, full_q_num_blocks, full_q_indices,
                 BLOCK_SIZE=(_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE), mask_mod=noop_mask, *,
                 dq_write_order=None, dq_write_order_full=None, dq_kv_order=None, dq_kv_order_spt=None):
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        if (full_q_num_blocks is None) != (full_q_indices is None):
            raise AssertionError("full_q_num_blocks and full_q_indices must be both provided or omitted")
        blocks = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks, q_indices, full_q_num_blocks, full_q_indices)
        for name, value in zip(self._TENSOR_ATTRS, blocks):
            setattr(self, name, value)
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.dq_write_order = dq_write_order
        self.dq_write_order_full = dq_write_order_full
        self.dq_kv_order = dq_kv_order
        self.dq_kv_order_spt = dq_kv_order_spt

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
                       BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None,
                       compute_q_blocks=True):
        """A mask from the blocks that each row of queries sees."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if isinstance(BLOCK_SIZE, int):
            BLOCK_SIZE = (BLOCK_SIZE, BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * BLOCK_SIZE[0], kv_indices.shape[-1] * BLOCK_SIZE[1])
        q = full_q = (None, None)
        if compute_q_blocks:
            q = _transpose_ordered(kv_num_blocks, kv_indices)
            if full_kv_num_blocks is not None:
                full_q = _transpose_ordered(full_kv_num_blocks, full_kv_indices)
        return cls(seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *q, *full_q,
                   BLOCK_SIZE=BLOCK_SIZE, mask_mod=mask_mod or noop_mask)

    def as_tuple(self, flatten=True):
        """All parts in a row."""
        parts = (*self.seq_lengths,) if flatten else (self.seq_lengths,)
        parts += tuple(getattr(self, name) for name in self._TENSOR_ATTRS)
        parts += (*self.BLOCK_SIZE,) if flatten else (self.BLOCK_SIZE,)
        return (*parts, self.mask_mod, self.dq_write_order, self.dq_write_order_full, self.dq_kv_order,
                self.dq_kv_order_spt)

    @property
    def shape(self):
        """(batch, heads, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self):
        """How many pairs there are."""
        return math.prod(self.shape)

    def sparsity(self):
        """The share of pairs, in percent, that need not be computed."""
        blocks = self.kv_num_blocks.sum()
        if self.full_kv_num_blocks is not None:
            blocks = blocks + self.full_kv_num_blocks.sum()
        computed = blocks.item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def _map(self, fn):
        """The same mask with a function applied to its tensors."""
        tensors = [None if t is None else fn(t) for t in (getattr(self, name) for name in self._TENSOR_ATTRS)]
        return BlockMask(self.seq_lengths, *tensors, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod)

    def __getitem__(self, index):
        index = index if isinstance(index, tuple) else (index,)
        # Numbers become slices of length 1: a mask keeps its dimensions.
        index = tuple(slice(i + n if i < 0 else i, (i + n if i < 0 else i) + 1) if isinstance(i, int) else i
                      for i, n in zip(index, self.kv_num_blocks.shape))

        new_rows = self.kv_num_blocks[index].shape[-1]
        lengths = (min(self.seq_lengths[0], new_rows * self.BLOCK_SIZE[0]), self.seq_lengths[1])
        full = self.full_kv_num_blocks is not None
        return BlockMask.from_kv_blocks(
            self.kv_num_blocks[index], self.kv_indices[index],
            self.full_kv_num_blocks[index] if full else None, self.full_kv_indices[index] if full else None,
            BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=None, seq_lengths=lengths,
            compute_q_blocks=self.q_indices is not None)

    def _adjust(self, new_q_len, new_kv_len):
        """The mask cut down to shorter sequences."""
        rows = (new_q_len + self.BLOCK_SIZE[0] - 1) // self.BLOCK_SIZE[0]
        cols = (new_kv_len + self.BLOCK_SIZE[1] - 1) // self.BLOCK_SIZE[1]

        def cut(counts, indices):
            if counts is None:
                return None, None
            return _dense_to_ordered(_ordered_to_dense(counts, indices, indices.shape[-1])[..., :rows, :cols])

        return BlockMask.from_kv_blocks(*cut(self.kv_num_blocks, self.kv_indices),
                                        *cut(self.full_kv_num_blocks, self.full_kv_indices),
                                        BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
                                        seq_lengths=(new_q_len, new_kv_len))

    def to_dense(self):
        """A 0/1 matrix of the blocks that are looked at."""
        dense = _ordered_to_dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])
        if self.full_kv_num_blocks is not None:
            dense = dense | _ordered_to_dense(self.full_kv_num_blocks, self.full_kv_indices,
                                              self.full_kv_indices.shape[-1])
        return dense

    def to_string(self, grid_size=(20, 20), limit=4):
        """A picture: full, partial and empty blocks of the first masks."""
        dense = self.to_dense()
        lead, pictures = dense.shape[:-2], []
        flat = dense.reshape(-1, *dense.shape[-2:])
        if grid_size == -1:
            grid_size = flat.shape[-2:]
        elif isinstance(grid_size, int):
            grid_size = (grid_size, grid_size)
        for place in range(min(len(flat), limit)):
            where, rest = [], place
            for size in reversed(lead):
                where.insert(0, rest % size)
                rest //= size
            blocks = flat[place]
            rows, cols = blocks.shape
            tall = max(1, math.ceil(rows / grid_size[0]))
            wide = max(1, math.ceil(cols / grid_size[1]))
            lines = []
            for r in range(0, rows, tall):
                line = ""
                for c in range(0, cols, wide):
                    share = blocks[r:r + tall, c:c + wide].float().mean().item()
                    line += "\u2588\u2588" if share == 1 else "  " if share == 0 else "\u2591\u2591"
                lines.append(line)
            pictures.append(f"{tuple(where)}\n" + "\n".join(lines) + "\n")
        text = "\n".join(pictures)
        if len(flat) > limit:
            text += ("\n...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index "
                     "(BlockMask[batch, head]) to choose a specific batch or head")
        return text

    def __str__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n" + self.to_string().rstrip("\n") + "\n)"

    def __repr__(self):
        def shape(name):
            value = getattr(self, name)
            return f"    {name}={None if value is None else value.shape},\n"

        name = getattr(self.mask_mod, "__name__", repr(self.mask_mod))
        return ("BlockMask(\n" + "".join(shape(n) for n in self._TENSOR_ATTRS)
                + f"    BLOCK_SIZE={self.BLOCK_SIZE},\n    shape={self.shape},\n    sparsity={self.sparsity():.2f}%,\n"
                f"    mask_mod={name}\n)")

    def to(self, device):
        """The mask on another device."""
        return self._map(lambda t: t.to(device))


def _create_sparse_block_from_block_mask(block_mask, mask_mod, seq_lengths, Q_BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
                                         KV_BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE):
    partial, full = block_mask
    full_counts = full_indices = None
    if full is not None:
        full_counts, full_indices = _dense_to_ordered(full)
    return BlockMask.from_kv_blocks(*_dense_to_ordered(partial), full_counts, full_indices,
                                    BLOCK_SIZE=(Q_BLOCK_SIZE, KV_BLOCK_SIZE), mask_mod=mask_mod,
                                    seq_lengths=seq_lengths)


def create_block_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
                      _compile=False, separate_full_blocks=True, compute_dq_write_order=False, dq_kv_order=True):
    """The block mask of a mask function; None for B or H: the same for all."""
    kind = _get_mod_type(mask_mod)
    if kind != _ModificationType.MASK_MOD:
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    B = 1 if B is None else B
    H = 1 if H is None else H
    rows, cols = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    blocks = _convert_mask_to_block_mask(mask, rows, cols, separate_full_blocks=separate_full_blocks)
    return _create_sparse_block_from_block_mask(blocks, mask_mod, (Q_LEN, KV_LEN), rows, cols)


def _create_empty_block_mask(query, key):
    """One block that holds everything."""
    device = query.device
    ones = torch.ones([1, 1, 1], dtype=torch.int32, device=device)
    zeros = torch.zeros([1, 1, 1, 1], dtype=torch.int32, device=device)
    return BlockMask.from_kv_blocks(ones, zeros, BLOCK_SIZE=_LARGE_SPARSE_BLOCK_SIZE,
                                    seq_lengths=(query.shape[-2], key.shape[-2]))


def _validate(query, key, value, block_mask, enable_gqa):
    if not (query.device == key.device == value.device):
        raise ValueError("Expected query, key, and value to have the same device type, but got query.device: "
                         f"{query.device}, key.device: {key.device}, and value.device: {value.device} instead.")
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError("Expect query and key/value to have the same embedding dimension but got "
                         f"E={query.size(-1)} and E={key.size(-1)}.")
    if not enable_gqa and query.size(-3) != key.size(-3):
        raise ValueError("Expect query and key/value to have the same number of heads but got "
                         f"Hq={query.size(-3)} and Hkv={key.size(-3)}. Try setting enable_gqa=True for GQA.")
    if enable_gqa and query.size(1) % key.size(1) != 0:
        raise ValueError("Expect number of query heads to be a multiple of kv heads for GQA but got "
                         f"Hq={query.size(1)} and Hkv={key.size(1)}.")
    if query.size(0) != key.size(0) and block_mask is None:
        raise ValueError("Expect query and key/value to have the same batch size, or non-none block_mask, but got "
                         f"block_mask=None, Bq={query.size(0)}, and Bkv={key.size(0)}.")
    if block_mask is None:
        return
    q_len, kv_len = block_mask.seq_lengths
    if query.size(0) != key.size(0) and block_mask.kv_num_blocks.size(0) != query.size(0):
        raise ValueError("Expect query and key/value to have the same batch size, or block_mask and query to have the "
                         f"same batch size, but got Bq={query.size(0)}, Bkv={key.size(0)}, "
                         f"B_block_mask={block_mask.kv_num_blocks.size(0)}.")
    if query.size(-2) > q_len or key.size(-2) > kv_len:
        raise ValueError(f"block_mask was created for block_mask.shape={block_mask.shape} but got "
                         f"q_len={query.size(-2)} and kv_len={key.size(-2)}. As the block mask was created for a "
                         "smaller length than you're using it for, you likely need to create a new block mask.")
    if (query.size(-2) < q_len and key.size(-2) <= kv_len) or (query.size(-2) <= q_len and key.size(-2) < kv_len):
        raise ValueError(f"block_mask was created for block_mask.shape={block_mask.shape} but got "
                         f"q_len={query.size(-2)} and kv_len={key.size(-2)}. As the block mask was created for a "
                         "larger length than you're using it for, you can either 1. create a new block mask with the "
                         "correct length, or 2. 'adjust' the existing block mask to the correct length by calling "
                         "block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the upper left "
                         "corner, which does not work for all mask_mods!")


def flex_attention(query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False,
                   return_lse=False, kernel_options=None, *, return_aux=None):
    """Attention whose scores pass through `score_mod`, where `block_mask` lets them."""
    _validate(query, key, value, block_mask, enable_gqa)
    if return_aux is not None and return_aux.max_scores and query.device.type == "cpu":
        raise NotImplementedError("Returning max scores is not supported on CPU/MPS.")
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    if key.size(0) != query.size(0):
        key = key.expand(query.size(0), -1, -1, -1)
        value = value.expand(query.size(0), -1, -1, -1)
    work = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query.to(work) @ key.to(work).transpose(-2, -1)) * scale
    at = _indices(*scores.shape, scores.device)
    if score_mod is not None:
        scores = score_mod(scores, *at).to(work)
    if block_mask is not None:
        visible = torch.as_tensor(block_mask.mask_mod(*at), device=scores.device)
        scores = torch.where(visible, scores, float("-inf"))
    hidden = (scores == float("-inf")).all(-1, keepdim=True)
    # A row that sees nothing gives zeros, where softmax would give NaN.
    weights = torch.where(hidden, torch.zeros((), dtype=work), scores.softmax(-1))
    out = (weights.to(query.dtype) @ value.to(query.dtype)).to(query.dtype)
    want_lse = return_lse or (return_aux is not None and return_aux.lse)
    lse = torch.logsumexp(scores, -1) if want_lse else None
    if return_aux is not None:
        return out, AuxOutput(lse=lse, max_scores=None)
    return (out, lse) if return_lse else out
