"""Losses as functions."""
import torch
import torch.nn.functional as F

logits = torch.randn(4, 3, requires_grad=True)
target = torch.tensor([0, 2, 1, 0])
weight = torch.tensor([1.0, 2.0, 1.0])
loss = F.cross_entropy(logits, target, weight=weight, reduction="sum") + F.nll_loss(F.log_softmax(logits, dim=1), target)
loss = loss + F.smooth_l1_loss(logits, torch.zeros(4, 3), beta=0.5)
loss = loss + F.binary_cross_entropy_with_logits(logits, F.one_hot(target, num_classes=3).float())
loss.backward()
assert logits.grad is not None and logits.grad.abs().sum() > 0
image = F.interpolate(torch.zeros(1, 3, 4, 4), scale_factor=2.0, mode="bilinear", align_corners=False)
assert F.pad(image, (1, 1), mode="constant", value=0.0).shape[-1] == 10
