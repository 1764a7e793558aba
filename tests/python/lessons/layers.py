"""Every layer once: shapes, sums, gradients of the parameters."""
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(25)
i1, i2, i3 = torch.randn(2, 4, 9), torch.randn(2, 4, 8, 8), torch.randn(2, 4, 6, 6, 6)
flat = torch.randn(2, 4)
for layer, x in [
    (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), i1), (nn.Conv2d(4, 6, (3, 2), padding="same"), i2), (nn.Conv3d(4, 2, 3, padding=1, padding_mode="circular"), i3),
    (nn.ConvTranspose1d(4, 3, 3, 2, 1, 1), i1), (nn.ConvTranspose2d(4, 2, 3, stride=2, groups=2), i2), (nn.ConvTranspose3d(4, 2, 2), i3), (nn.Conv2d(4, 4, 3, padding=2, padding_mode="reflect"), i2),
    (nn.MaxPool1d(3, 2), i1), (nn.MaxPool2d(3, 2, 1, ceil_mode=True), i2), (nn.MaxPool3d(2), i3), (nn.AvgPool1d(2), i1), (nn.AvgPool2d(3, 2, 1, count_include_pad=False), i2), (nn.AvgPool3d(2), i3),
    (nn.AdaptiveAvgPool1d(4), i1), (nn.AdaptiveAvgPool2d((3, None)), i2), (nn.AdaptiveMaxPool2d(3), i2), (nn.AdaptiveAvgPool3d(2), i3), (nn.LPPool2d(2, 2), i2.abs()), (nn.LPPool1d(1, 3), i1.abs()),
    (nn.ReflectionPad1d(2), i1), (nn.ReplicationPad2d((1, 0, 2, 1)), i2), (nn.ZeroPad2d(-1), i2), (nn.ConstantPad3d(1, 2.0), i3), (nn.CircularPad1d(2), i1), (nn.ReflectionPad3d(1), i3),
    (nn.BatchNorm1d(4), flat), (nn.BatchNorm1d(4, momentum=None), i1), (nn.BatchNorm2d(4, track_running_stats=False), i2), (nn.BatchNorm3d(4), i3), (nn.GroupNorm(2, 4), i2), (nn.LayerNorm((8, 8)), i2),
    (nn.InstanceNorm1d(4, affine=True), i1), (nn.InstanceNorm2d(4, track_running_stats=True), i2), (nn.RMSNorm(9), i1), (nn.LocalResponseNorm(3), i2), (nn.Bilinear(4, 4, 3), flat), (nn.Linear(9, 2, bias=False), i1),
    (nn.PReLU(4), i2), (nn.ELU(0.5), flat), (nn.CELU(2.0), flat), (nn.SELU(), flat), (nn.GELU(approximate="tanh"), flat), (nn.Hardshrink(), flat), (nn.Hardsigmoid(), flat), (nn.Hardtanh(-0.5, 0.5), flat), (nn.LogSigmoid(), flat),
    (nn.Mish(), flat), (nn.Softplus(2, 1), flat), (nn.Softshrink(0.3), flat), (nn.Softsign(), flat), (nn.Tanhshrink(), flat), (nn.Threshold(0.1, 20), flat), (nn.GLU(), flat), (nn.Softmin(dim=1), flat), (nn.Softmax2d(), i2), (nn.LogSoftmax(1), flat),
    (nn.Upsample(scale_factor=2, mode="nearest"), i1), (nn.Upsample(size=(5, 7), mode="bicubic"), i2), (nn.Upsample(scale_factor=1.5, mode="trilinear"), i3), (nn.UpsamplingBilinear2d(scale_factor=2), i2),
    (nn.PixelShuffle(2), i2), (nn.PixelUnshuffle(2), i2), (nn.ChannelShuffle(2), i2), (nn.Unfold(3, stride=2), i2), (nn.Fold((8, 8), 2, stride=2), torch.ones(1, 8, 16)), (nn.Flatten(2), i2), (nn.Unflatten(1, (2, 2)), i2),
    (nn.RNN(9, 3, nonlinearity="relu", num_layers=2), i1), (nn.LSTM(9, 3, bidirectional=True, batch_first=True), i1), (nn.GRU(9, 3, num_layers=2), i1), (nn.RNNCell(4, 3), flat), (nn.LSTMCell(4, 3), flat), (nn.GRUCell(4, 3), flat),
    (nn.Dropout(0.3), flat), (nn.Dropout2d(0.5), i2), (nn.AlphaDropout(0.2), flat), (nn.FeatureAlphaDropout(0.5), i2), (nn.RReLU(), flat), (nn.CosineSimilarity(), flat), (nn.PairwiseDistance(p=1), flat), (nn.Dropout1d(0.5), i1),
]:
    two = isinstance(layer, (nn.Bilinear, nn.CosineSimilarity, nn.PairwiseDistance))
    x = x.detach().clone().requires_grad_()
    y = layer(x, flat.flip(0)) if two else layer(x)
    y = y[0] if isinstance(y, tuple) else y
    (y * torch.linspace(0.5, 1.5, y.numel()).view_as(y)).sum().backward()
    grads = [f"{p.grad.norm().item():.3f}" for p in layer.parameters()]
    print(type(layer).__name__, tuple(y.shape), f"{y.abs().sum().item():.3f} {x.grad.norm().item():.3f}", *grads, [tuple(b.shape) for b in layer.buffers()])
e = nn.Embedding(6, 3, padding_idx=1, max_norm=1.0)
e(torch.tensor([[1, 2], [5, 1]])).sum().backward()
print(e.weight.norm(dim=1) <= 1.0001, e.weight.grad.sum(1), nn.Embedding.from_pretrained(torch.eye(3))(torch.tensor([2])))
bag = nn.EmbeddingBag(6, 2, mode="max")
print(bag(torch.tensor([[0, 1], [2, 3]])), nn.EmbeddingBag(6, 2, mode="sum", include_last_offset=True)(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 3]), per_sample_weights=torch.ones(3)).shape)
pool = nn.FractionalMaxPool2d(2, output_size=3)
print(pool(i2).shape, nn.MaxUnpool1d(2)(*nn.MaxPool1d(2, return_indices=True)(i1)).shape)
