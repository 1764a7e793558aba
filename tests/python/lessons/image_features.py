"""Features of a network by hooks: style and content losses, saliency, class activation maps, adversarial examples."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(29)
net = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(inplace=True),
                    nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)).eval()
for p in net.parameters():
    p.requires_grad_(False)


def gram(x):
    a, b, c, d = x.size()
    features = x.view(a * b, c * d)
    return (features @ features.t()).div(a * b * c * d)


def features(x):
    kept = []
    handles = [net[i].register_forward_hook(lambda m, i, o: kept.append(o.clone())) for i in (0, 3)]
    net(x)
    for h in handles:
        h.remove()
    return kept


content, style = torch.rand(1, 3, 16, 16), torch.rand(1, 3, 16, 16)
image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image], max_iter=4)
targets = [gram(f).detach() for f in features(style)], features(content)[1].detach()
run = [0]
while run[0] <= 8:
    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        first, second = features(image)
        loss = 1e4 * (F.mse_loss(gram(first), targets[0][0]) + F.mse_loss(gram(second), targets[0][1])) + F.mse_loss(second, targets[1])
        loss.backward()
        run[0] += 1
        if run[0] % 3 == 0:
            print(run, f"{loss.item():.4f}")
        return loss
    optimizer.step(closure)

x = content.clone().requires_grad_()
score = net(x)
k = score.argmax(1).item()
score[0, k].backward()
saliency = x.grad.abs().amax(1)[0]
print(k, score.detach(), f"{saliency.max().item():.5f}", torch.unravel_index(saliency.argmax(), (16, 16)))
for epsilon in (0.0, 0.05, 0.2):
    wrong = (content + epsilon * x.grad.sign().neg()).clamp(0, 1)
    print(epsilon, f"{net(wrong).softmax(1)[0, k].item():.4f}")
maps, grads = [], []
h1 = net[3].register_forward_hook(lambda m, i, o: maps.append(o))
h2 = net[3].register_full_backward_hook(lambda m, gi, go: grads.append(go[0]))
net[4].inplace = False
y = content.clone().requires_grad_()
net(y)[0, k].backward()
weights = grads[0].mean((2, 3), keepdim=True)
cam = F.relu((weights * maps[0]).sum(1)).detach()
print(cam.shape, f"{cam.sum().item():.5f}", F.interpolate(cam[None], scale_factor=2, mode="bilinear", align_corners=True).shape)
h1.remove(), h2.remove()
kernel = torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).view(1, 1, 3, 3)
grey = content.mean(1, keepdim=True)
edges = torch.hypot(F.conv2d(grey, kernel, padding=1), F.conv2d(grey, kernel.mT, padding=1))
print(f"{edges.mean().item():.4f}", F.avg_pool2d(edges, 8), F.unfold(grey, 8, stride=8).mean(1))
life = (torch.rand(1, 1, 8, 8) < 0.4).float()
for _ in range(3):
    around = F.conv2d(F.pad(life, (1, 1, 1, 1), mode="circular"), torch.ones(1, 1, 3, 3)) - life
    life = ((around == 3) | ((life == 1) & (around == 2))).float()
print(life[0, 0].int())
