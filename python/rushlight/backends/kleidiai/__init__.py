"""torch.backends.kleidiai"""


def is_available():
    return False
