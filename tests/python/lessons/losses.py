"""Every loss with its reductions and the gradient it gives; connectionist temporal classification; multi-task."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(24)
x, y = torch.randn(4, 3), torch.randn(4, 3)
k, m = torch.tensor([0, 2, 1, 0]), torch.randint(0, 2, (4, 3)).float()
sign = 2 * m[:, 0] - 1
cases = {
    "mse": lambda x, r: F.mse_loss(x, y, reduction=r), "l1": lambda x, r: F.l1_loss(x, y, reduction=r), "smooth": lambda x, r: F.smooth_l1_loss(x, y, beta=0.5, reduction=r),
    "huber": lambda x, r: F.huber_loss(x, y, delta=0.7, reduction=r), "ce": lambda x, r: F.cross_entropy(x, k, reduction=r),
    "ce weights": lambda x, r: F.cross_entropy(x, k, weight=torch.tensor([1.0, 2.0, 3.0]), reduction=r, label_smoothing=0.1),
    "ce ignored": lambda x, r: F.cross_entropy(x, k, ignore_index=0, reduction=r), "ce soft": lambda x, r: F.cross_entropy(x, y.softmax(1), reduction=r),
    "nll": lambda x, r: F.nll_loss(x.log_softmax(1), k, reduction=r), "bce": lambda x, r: F.binary_cross_entropy(x.sigmoid(), m, reduction=r),
    "bce logits": lambda x, r: F.binary_cross_entropy_with_logits(x, m, pos_weight=torch.tensor([1.0, 2.0, 0.5]), reduction=r),
    "kl": lambda x, r: F.kl_div(x.log_softmax(1), y.softmax(1), reduction=r), "poisson": lambda x, r: F.poisson_nll_loss(x, m, reduction=r),
    "gaussian": lambda x, r: F.gaussian_nll_loss(x, y, torch.ones(4, 3) * 0.5, reduction=r), "hinge": lambda x, r: F.hinge_embedding_loss(x, 2 * m - 1, reduction=r),
    "margin": lambda x, r: F.multi_margin_loss(x, k, reduction=r), "multilabel": lambda x, r: F.multilabel_soft_margin_loss(x, m, reduction=r),
    "multilabel margin": lambda x, r: F.multilabel_margin_loss(x, torch.tensor([[0, 2, -1]] * 4), reduction=r), "soft": lambda x, r: F.soft_margin_loss(x, 2 * m - 1, reduction=r),
    "ranking": lambda x, r: F.margin_ranking_loss(x[:, 0], x[:, 1], sign, margin=0.1, reduction=r), "cosine": lambda x, r: F.cosine_embedding_loss(x, y, sign, reduction=r),
    "triplet": lambda x, r: F.triplet_margin_loss(x, y, y.flip(0), reduction=r, swap=True),
}
for name, f in cases.items():
    line = []
    for r in ("mean", "sum", "none"):
        p = x.clone().requires_grad_()
        v = f(p, r)
        v.sum().backward()
        line.append(f"{v.sum().item():.4f} {tuple(v.shape)} {p.grad.norm().item():.4f}")
    print(name, *line, sep=" | ")
lp = torch.randn(10, 2, 5).log_softmax(2).requires_grad_()
loss = F.ctc_loss(lp, torch.tensor([[1, 2, 2], [3, 4, 0]]), torch.tensor([10, 8]), torch.tensor([3, 2]))
loss.backward()
print("ctc", loss, f"{lp.grad.norm().item():.4f}", F.ctc_loss(lp, torch.tensor([1, 2, 3]), (10, 10), (2, 1), reduction="none", blank=0))
shared, heads = nn.Linear(3, 8), nn.ModuleDict({"class": nn.Linear(8, 3), "value": nn.Linear(8, 1)})
adaptive = nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8])
opt = torch.optim.Adam([{"params": shared.parameters()}, {"params": [*heads.parameters(), *adaptive.parameters()], "lr": 0.1}], lr=0.01)
for step in range(5):
    h = torch.tanh(shared(x))
    parts = {"class": F.cross_entropy(heads["class"](h), k), "value": F.mse_loss(heads["value"](h).squeeze(1), y[:, 0]), "words": adaptive(h, k * 4).loss}
    opt.zero_grad()
    sum(parts.values()).backward()
    opt.step()
    print(step, {n: round(v.item(), 4) for n, v in parts.items()})
print(adaptive.predict(h), nn.GaussianNLLLoss()(x, y, torch.ones(4, 3)), nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance())(x, y, y.flip(0)))
