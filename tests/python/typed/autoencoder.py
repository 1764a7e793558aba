"""Reconstruct what went in."""
import torch
from torch import Tensor, nn


class Autoencoder(nn.Module):
    def __init__(self, size: int, code: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, code), nn.Tanh())
        self.decoder = nn.Linear(code, size)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


model = Autoencoder(10, 3)
criterion = nn.MSELoss(reduction="mean")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
x = torch.rand(16, 10)
first = criterion(model(x), x).item()
for epoch in range(20):
    loss = criterion(model(x), x)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
assert criterion(model(x), x).item() < first
