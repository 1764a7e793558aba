"""torch.backends.cusparselt"""


def version():
    return None


def is_available():
    return False


def get_max_alg_id():
    return None
