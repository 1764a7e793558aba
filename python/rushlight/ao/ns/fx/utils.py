"""How far a tensor is from another."""
import rushlight as torch


def compute_sqnr(x, y):
    """Signal to noise in decibels: of x to what y differs from it."""
    return 20 * torch.log10(torch.norm(x) / torch.norm(x - y))


def compute_normalized_l2_error(x, y):
    """The size of the difference, as a part of x's."""
    return torch.sqrt(((x - y) ** 2).sum() / (x ** 2).sum())


def compute_cosine_similarity(x, y):
    """The cosine of the angle between them."""
    return torch.nn.functional.cosine_similarity(x.reshape(1, -1), y.reshape(1, -1))
