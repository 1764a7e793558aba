"""Layers for images."""
import torch
import torch.nn as nn


def block(channels: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, out, kernel_size=3, padding=1), nn.BatchNorm2d(out), nn.ReLU(inplace=True), nn.MaxPool2d(2))


net = nn.Sequential(block(1, 4), block(4, 8), nn.Flatten(), nn.Dropout(0.1), nn.Linear(8 * 7 * 7, 10))
images = torch.zeros(2, 1, 28, 28)
assert net(images).shape == (2, 10)
pooled: torch.Tensor = nn.AdaptiveAvgPool2d((1, 1))(images)
assert pooled.size(-1) == 1
