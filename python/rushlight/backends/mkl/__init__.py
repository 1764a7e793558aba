"""torch.backends.mkl: Intel's library, which is not used."""


def is_available():
    return False


VERBOSE_OFF, VERBOSE_ON = 0, 1


class verbose:
    def __init__(self, enable):
        self.enable = enable

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
