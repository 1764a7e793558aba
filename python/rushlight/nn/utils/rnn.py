"""Batches of sequences of different lengths: packed (no padding at all) and padded.

A packed sequence holds the elements step by step - the first elements of all sequences, then the second
ones - with `batch_sizes` saying how many sequences are still running at each step.
"""
from collections import namedtuple

import rushlight as torch

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence",
           "unpad_sequence", "pack_sequence", "unpack_sequence"]

PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
PackedSequence_.__annotations__ = {"data": "Tensor", "batch_sizes": "Tensor", "sorted_indices": "Tensor | None",
                                   "unsorted_indices": "Tensor | None"}


def bind(optional, fn):
    """fn(optional), or None."""
    return None if optional is None else fn(optional)


def invert_permutation(permutation):
    """The permutation that undoes this one.

    permutation: (n), int64, or None.

    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    inverse = torch.empty_like(permutation, memory_format=torch.legacy_contiguous_format)
    inverse.scatter_(0, permutation, torch.arange(0, permutation.numel(), device=permutation.device))
    return inverse


def _packed_sequence_init_args(data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    if batch_sizes is not None:
        if batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                             "created manually. They should be instantiated by functions like pack_sequence and "
                             "pack_padded_sequences in nn.utils.rnn. "
                             "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence")
        return data, batch_sizes, sorted_indices, unsorted_indices
    # The old way: one argument, the pair (data, batch_sizes).
    if not (isinstance(data, (list, tuple)) and len(data) == 2):
        raise AssertionError("Expected data to be a list or tuple of length 2")
    return data[0], data[1], sorted_indices, unsorted_indices


def _packed_sequence_init(data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
    return PackedSequence(*_packed_sequence_init_args(data, batch_sizes, sorted_indices, unsorted_indices))


class PackedSequence(PackedSequence_):
    """A batch of sequences without padding; the functions below make it, recurrent layers take it.

    data: all elements (sum of lengths, *), the first of each sequence, then the second, ...; batch_sizes: how many sequences are that long;
    sorted_indices, unsorted_indices: the permutation by descending length, and back.

    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        return super().__new__(cls, *_packed_sequence_init_args(data, batch_sizes, sorted_indices, unsorted_indices))

    def pin_memory(self):
        """A copy in page-locked memory."""
        return type(self)(self.data.pin_memory(), self.batch_sizes, bind(self.sorted_indices, lambda t: t.pin_memory()),
                          bind(self.unsorted_indices, lambda t: t.pin_memory()))

    def to(self, *args, **kwargs):
        """As `Tensor.to`, of the data; the indices follow to the device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        options = {name: value for name, value in kwargs.items() if name not in ("device", "dtype")}

        def follow(t):
            return t.to(data.device, **options)

        return type(self)(data, self.batch_sizes, bind(self.sorted_indices, follow),
                          bind(self.unsorted_indices, follow))

    def cuda(self, *args, **kwargs):
        """Move to a GPU."""
        probe = torch.tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        if probe.is_cuda:
            return self.to(*args, **kwargs)
        kwargs["device"] = "cuda"
        return self.to(*args, **kwargs)

    def cpu(self, *args, **kwargs):
        """Move to the CPU."""
        probe = torch.tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        if probe.device.type == "cpu":
            return self.to(*args, **kwargs)
        kwargs["device"] = "cpu"
        return self.to(*args, **kwargs)

    def double(self):
        """Cast to float64."""
        return self.to(dtype=torch.double)

    def float(self):
        """Cast to float32."""
        return self.to(dtype=torch.float)

    def half(self):
        """Cast to float16."""
        return self.to(dtype=torch.half)

    def long(self):
        """Cast to int64."""
        return self.to(dtype=torch.long)

    def int(self):
        """Cast to int32."""
        return self.to(dtype=torch.int)

    def short(self):
        """Cast to int16."""
        return self.to(dtype=torch.short)

    def char(self):
        """Cast to int8."""
        return self.to(dtype=torch.int8)

    def byte(self):
        """Cast to uint8."""
        return self.to(dtype=torch.uint8)

    @property
    def is_cuda(self):
        """Whether the data are on a GPU."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data are in page-locked memory."""
        return self.data.is_pinned()


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Drop the padding of a batch whose sequences have these lengths.

    input: (T, N, *), or (N, T, *) with batch_first; lengths: of the sequences (N), on the CPU, descending if enforce_sorted.

    >>> torch.nn.utils.rnn.pack_padded_sequence(torch.tensor([[1, 2], [4, 0]]), [2, 1], batch_first=True).data
    tensor([1, 4, 2])
    """
    lengths = torch.as_tensor(lengths, dtype=torch.int64, device="cpu")
    if enforce_sorted:
        order = None
    else:
        lengths, order = torch.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    data, batch_sizes = torch._pack_padded_sequence(input, lengths, batch_first)
    return _packed_sequence_init(data, batch_sizes, order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """The padded batch, and the lengths.

    sequence: the packed one; batch_first: (N, T, *) instead of (T, N, *); padding_value: what fills up; total_length: T, if it is to be longer
    than the longest.

    >>> packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([4])])
    >>> torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2],
            [4, 0]]), tensor([2, 1]))
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but "
                             f"got total_length={total_length} and max sequence length being {longest}")
        longest = total_length
    padded, lengths = torch._pad_packed_sequence(sequence.data, sequence.batch_sizes, batch_first, padding_value,
                                                 longest)
    original = sequence.unsorted_indices
    if original is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, original), lengths[original.cpu()]


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stack sequences of different lengths, filled up at one side.

    sequences: of shapes (L, *); batch_first: (N, T, *) instead of (T, N, *); padding_value: what fills up; padding_side: "right" or "left".

    >>> torch.nn.utils.rnn.pad_sequence([torch.tensor([1, 2]), torch.tensor([4])], batch_first=True)
    tensor([[1, 2],
            [4, 0]])
    """
    if not (isinstance(sequences, (tuple, list)) or hasattr(sequences, "__iter__")):
        raise RuntimeError("pad_sequence: Expected iterable for input sequences, but got arg of type: "
                           f"{type(sequences)}")
    if isinstance(sequences, torch.Tensor):
        sequences = sequences.unbind(0)
    else:
        sequences = tuple(sequences)
    return torch._C._nn.pad_sequence(sequences, batch_first, padding_value, padding_side)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The sequences of a padded batch, as a list.

    padded_sequences: (T, N, *), or (N, T, *) with batch_first; lengths: of the sequences (N).

    >>> torch.nn.utils.rnn.unpad_sequence(torch.tensor([[1, 2], [4, 0]]), torch.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([4])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [sequence[:length] for sequence, length in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Pack a list of sequences.

    sequences: of shapes (L, *), in descending length if enforce_sorted.

    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([4])]).batch_sizes
    tensor([2, 1])
    """
    lengths = torch.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The sequences of a packed batch, as a list.

    packed_sequences: the packed batch.

    >>> torch.nn.utils.rnn.unpack_sequence(torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([4])]))
    [tensor([1, 2]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
