"""examples/digits.c in PyTorch: the same seed, the same network, the same losses to four digits.

    python tests/digits_torch.py [--run build/examples/digits]

Without --run it prints its own epochs; with it, it runs the C program, compares the losses of the first three
epochs and fails where they differ.
"""
import argparse
import re
import subprocess
import sys

import numpy as np
import torch
from torch import nn

EPOCHS, BATCH, TEST, SEED = 30, 32, 360, 7


def losses(path, epochs):
    torch.manual_seed(SEED)
    data = torch.from_numpy(np.load(path)).float()
    data = data[torch.randperm(len(data))]
    x, y = (data[:, :64] / 16).reshape(-1, 1, 8, 8), data[:, 64].long()
    x, y, test_x, test_y = x[:-TEST], y[:-TEST], x[-TEST:], y[-TEST:]
    net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 4 * 4, 128), nn.ReLU(), nn.Dropout(0.4),
                        nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for epoch in range(epochs):
        order, total, steps = torch.randperm(len(x)), 0.0, 0
        for batch in order.split(BATCH):
            loss = nn.functional.cross_entropy(net(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
        schedule.step()
        net.eval()
        with torch.no_grad():
            accuracy = (net(test_x).argmax(1) == test_y).float().mean().item()
        net.train()
        yield total / steps, accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="examples/data/digits.npy")
    parser.add_argument("--run", help="the C program to compare with")
    args = parser.parse_args()
    if not args.run:
        for epoch, (loss, accuracy) in enumerate(losses(args.data, EPOCHS), 1):
            print(f"epoch {epoch:2d}  loss {loss:.6f}  test accuracy {100 * accuracy:.2f} %", flush=True)
        return 0
    out = subprocess.run([args.run, args.data], capture_output=True, text=True, check=True).stdout
    theirs = [float(v) for v in re.findall(r"epoch +\d+  loss ([\d.]+)", out)]
    bad = 0
    for epoch, (loss, _) in enumerate(losses(args.data, 3), 1):
        differ = abs(loss - theirs[epoch - 1]) > 5e-5 * max(1.0, loss)
        bad += differ
        print(f"epoch {epoch}: PyTorch {loss:.6f}, here {theirs[epoch - 1]:.6f}{'  DIFFERENT' if differ else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
