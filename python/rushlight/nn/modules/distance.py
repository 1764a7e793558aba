"""Distances between rows."""
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["PairwiseDistance", "CosineSimilarity"]


class PairwiseDistance(Module):
    """p-norm of the difference.

    p: which norm; eps: added to each difference; keepdim: keep the last dimension with size 1.
    Shapes: x1 and x2 (N, D) or (D); result (N), (), or with a 1 at the end.

    >>> nn.PairwiseDistance()(torch.tensor([[0., 0.]]), torch.tensor([[3., 4.]]))
    tensor([5.0000])
    """
    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Cosine of the angle between two vectors.

    dim: along which the vectors lie; eps: the least norm that is divided by.
    Shapes: x1 and x2 broadcast with each other; the result lacks dim.

    >>> nn.CosineSimilarity()(torch.tensor([[1., 0.]]), torch.tensor([[3., 4.]]))
    tensor([0.6000])
    """
    __constants__ = ["dim", "eps"]

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
