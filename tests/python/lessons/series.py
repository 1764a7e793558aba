"""Forecasting: LSTM cells with LBFGS, an LSTM that keeps its state over chunks, dilated causal convolutions, Fourier features."""
import math

import torch
from torch import nn

torch.manual_seed(28)
t = torch.arange(60, dtype=torch.double)
data = torch.stack([torch.sin(t / (3 + k)) for k in range(4)])


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8), nn.Linear(8, 1)

    def forward(self, input, future=0):
        outputs, n = [], input.size(0)
        h, c, h2, c2 = (torch.zeros(n, 8, dtype=torch.double) for _ in range(4))
        for x in input.split(1, dim=1):
            h, c = self.lstm1(x, (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            outputs += [self.linear(h2)]
        for _ in range(future):
            h, c = self.lstm1(outputs[-1], (h, c))
            h2, c2 = self.lstm2(h, (h2, c2))
            outputs += [self.linear(h2)]
        return torch.cat(outputs, dim=1)


seq = Sequence().double()
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.8, max_iter=6)
for step in range(2):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(seq(data[:, :-1]), data[:, 1:])
        print(f"loss: {loss.item():.6f}")
        loss.backward()
        return loss
    optimizer.step(closure)
with torch.no_grad():
    print(seq(data[:, :-1], future=5)[0, -3:])
lstm, out = nn.LSTM(1, 6, num_layers=2, batch_first=True), nn.Linear(6, 1)
adam = torch.optim.Adam([*lstm.parameters(), *out.parameters()], 1e-2)
x = data.float().unsqueeze(2)
for epoch in range(4):
    state, total = None, 0.0
    for chunk, target in zip(x[:, :-1].split(20, 1), x[:, 1:].split(20, 1)):
        y, state = lstm(chunk, state)
        state = tuple(s.detach() for s in state)
        loss = (out(y) - target).pow(2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        total += loss.item()
    print(epoch, f"{total:.5f}", f"{state[0].abs().sum().item():.4f}")


class Causal(nn.Module):
    def __init__(self, dilation):
        super().__init__()
        self.pad, self.conv = nn.ConstantPad1d((2 * dilation, 0), 0.0), nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 4, 3, dilation=dilation))

    def forward(self, x):
        return x + torch.relu(self.conv(self.pad(x)))


tcn = nn.Sequential(nn.Conv1d(1, 4, 1), *(Causal(2 ** k) for k in range(3)), nn.Conv1d(4, 1, 1))
sgd = torch.optim.SGD(tcn.parameters(), 1e-2, momentum=0.9)
plan = torch.optim.lr_scheduler.OneCycleLR(sgd, 0.05, total_steps=10)
for step in range(10):
    loss = nn.functional.huber_loss(tcn(x[:, :-1].mT), x[:, 1:].mT)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    plan.step()
print(f"{loss.item():.5f} {plan.get_last_lr()[0]:.6f}")
coordinates = torch.linspace(0, 1, 32).unsqueeze(1)
features = torch.cat([f(2 ** k * math.pi * coordinates) for k in range(4) for f in (torch.sin, torch.cos)], 1)
weights = torch.linalg.lstsq(features, (coordinates > 0.5).float()).solution
print(f"{(features @ weights - (coordinates > 0.5).float()).pow(2).mean().item():.5f}")
