"""Matrix factorisation, skip-grams with negative samples, clustering, principal components."""
import collections

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(27)
users, items, k = 12, 9, 4
truth = torch.randn(users, 2) @ torch.randn(2, items)
seen = torch.rand(users, items) < 0.6
pairs = seen.nonzero()
print(pairs.shape, pairs[:3].tolist())


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(users, k), nn.Embedding(items, k)
        self.bias = nn.Embedding(items, 1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(1) + self.bias(i).squeeze(1)


model = Factors()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.3)
for epoch in range(10):
    for batch in pairs[torch.randperm(len(pairs))].split(16):
        u, i = batch.unbind(1)
        loss = F.mse_loss(model(u, i), truth[u, i])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 3 == 0:
        with torch.no_grad():
            error = (model.user.weight @ model.item.weight.T + model.bias.weight.T - truth)[seen].pow(2).mean().sqrt()
        print(epoch, f"{error.item():.4f}")
with torch.no_grad():
    scores = (model.user.weight[0] @ model.item.weight.T).masked_fill(seen[0], float("-inf"))
    print(scores.topk(1))

text = "the quick brown fox jumps over the lazy dog and the quick fox runs".split()
vocabulary = {w: i for i, (w, _) in enumerate(collections.Counter(text).most_common())}
ids = torch.tensor([vocabulary[w] for w in text])
centre, around = nn.Embedding(len(vocabulary), 5), nn.Embedding(len(vocabulary), 5)
noise = torch.bincount(ids).float().pow(0.75)
optimizer = torch.optim.SGD([*centre.parameters(), *around.parameters()], lr=0.5)
for epoch in range(6):
    total = 0.0
    for i in range(2, len(ids) - 2):
        near = torch.cat([ids[i - 2:i], ids[i + 1:i + 3]])
        far = torch.multinomial(noise, 8, replacement=True)
        c = centre(ids[i])
        loss = -(F.logsigmoid(around(near) @ c).mean() + F.logsigmoid(-(around(far) @ c)).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, f"{total / (len(ids) - 4):.4f}")
print(F.cosine_similarity(centre.weight[0], centre.weight, dim=1).topk(3).indices[0])

points = torch.cat([torch.randn(10, 2) + m for m in torch.tensor([[0.0, 0.0], [5.0, 5.0], [0.0, 6.0]])])
centres = points[[0, 10, 20]].clone()
for _ in range(5):
    nearest = torch.cdist(points, centres).argmin(1)
    centres = torch.zeros(3, 2).index_add_(0, nearest, points) / torch.bincount(nearest, minlength=3).unsqueeze(1)
print(nearest.tolist(), centres)
centred = points - points.mean(0)
values, vectors = torch.linalg.eigh(centred.T @ centred / 29)
print(values, (centred @ vectors).var(0), torch.pca_lowrank is not None, torch.linalg.svdvals(centred) ** 2 / 29)
knn = torch.cdist(points[:3], points).topk(3, largest=False)
print(knn.indices, knn.values.round(decimals=1))
