"""A recurrent tagger."""
import torch
from torch import Tensor, nn


class Tagger(nn.Module):
    def __init__(self, words: int, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, tags)

    def forward(self, text: Tensor) -> tuple[Tensor, Tensor]:
        y, (h, _) = self.lstm(self.embedding(text))
        return self.out(y), h


scores, state = Tagger(100, 5)(torch.randint(0, 100, (3, 7)))
assert scores.shape == (3, 7, 5) and state.shape[0] == 4
