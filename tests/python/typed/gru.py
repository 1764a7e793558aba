"""Sequences of different lengths."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

sequences = [torch.ones(4, 2), torch.ones(2, 2)]
padded = pad_sequence(sequences, batch_first=True)
packed = pack_padded_sequence(padded, torch.tensor([4, 2]), batch_first=True)
y, h = nn.GRU(2, 3, batch_first=True)(packed)
back, lengths = pad_packed_sequence(y, batch_first=True)
assert back.shape == (2, 4, 3) and lengths.tolist() == [4, 2]
