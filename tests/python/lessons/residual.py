"""Convolutional networks: residual blocks, depthwise convolutions, U-net, channels last, fine tuning."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(16)


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout)
        self.conv2, self.bn2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False), nn.BatchNorm2d(cout)
        self.shortcut = nn.Sequential()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.layers = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.Hardswish())
        self.fc = nn.Linear(16, 5)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


net = ResNet()
print(sum(p.numel() for p in net.parameters() if p.requires_grad), net.layers[1])
x, y = torch.randn(8, 3, 16, 16), torch.randint(0, 5, (8,))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
for step in range(8):
    opt.zero_grad()
    out = net(x.to(memory_format=torch.channels_last) if step % 2 else x)
    loss = F.cross_entropy(out, y, label_smoothing=0.1)
    loss.backward()
    opt.step()
    print(step, f"{loss.item():.4f}", (out.argmax(1) == y).sum().item())
net.eval()
print(net(x[:1]), net.layers[0].bn1.num_batches_tracked, x.contiguous(memory_format=torch.channels_last).stride())
for p in net.parameters():
    p.requires_grad = False
net.fc = nn.Linear(16, 2)
print([n for n, p in net.named_parameters() if p.requires_grad])
down, up = nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ConvTranspose2d(4, 1, 2, stride=2)
image = torch.linspace(0, 1, 64).view(1, 1, 8, 8)
mask = torch.sigmoid(torch.cat([up(F.relu(down(image))), image], 1).mean(1, keepdim=True))
print(mask.shape, f"{mask.mean().item():.4f}", F.interpolate(image, scale_factor=0.5, mode="bilinear", align_corners=False)[0, 0, 0])
pooled, where = F.max_pool2d(image, 2, return_indices=True)
print(F.max_unpool2d(pooled, where, 2).sum(), F.pixel_shuffle(torch.arange(8.0).view(1, 4, 1, 2), 2), F.unfold(image, 4).shape)
theta = torch.tensor([[[0.5, 0, 0], [0, 0.5, 0]]])
print(F.grid_sample(image, F.affine_grid(theta, (1, 1, 3, 3), align_corners=False), align_corners=False))
