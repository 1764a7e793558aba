"""A siamese network with contrastive, triplet and cosine losses over shared weights."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(6)
net = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(16, 5))


def contrastive(a, b, same, margin=1.0):
    d = F.pairwise_distance(a, b)
    return torch.mean(same * d.pow(2) + (1 - same) * torch.clamp(margin - d, min=0.0).pow(2))


optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
base = torch.randn(2, 1, 16)
for step in range(15):
    which = torch.randint(0, 2, (3, 12))
    a, b, c = (base[w] + 0.1 * torch.randn(12, 1, 16) for w in which)
    ea, eb, ec = net(a), net(b), net(c)
    same = (which[0] == which[1]).float()
    loss = contrastive(ea, eb, same)
    loss = loss + F.triplet_margin_loss(ea, eb, ec, margin=0.2) * 0.1
    loss = loss + F.cosine_embedding_loss(ea, eb, 2 * same - 1) * 0.1
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(step, round(loss.item(), 4), round(F.cosine_similarity(ea, eb).mean().item(), 4))
with torch.no_grad():
    print(torch.cdist(net(base), net(base)).round(decimals=3))
