"""The frequency of a sine."""
import math

import torch

t = torch.arange(64) / 64
wave = torch.sin(2 * math.pi * 5 * t)
spectrum = torch.fft.rfft(wave, norm="ortho")
assert int(spectrum.abs().argmax()) == 5
assert torch.allclose(torch.fft.irfft(spectrum, n=64, norm="ortho"), wave, atol=1e-5)
frequencies = torch.fft.rfftfreq(64, d=1 / 64)
assert frequencies[5].item() == 5
