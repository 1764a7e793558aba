"""The context that fake implementations ask for sizes that depend on data."""


class FakeImplCtx:
    """What torch.library.get_ctx() returns inside a fake implementation."""

    def __init__(self, op):
        self._op = op

    def new_dynamic_size(self, *, min=0, max=None):
        if standing is None:
            raise NotImplementedError("new_dynamic_size: sizes that depend on data have no symbol here")
        standing.append(_FIRST + len(standing))
        return standing[-1]

    create_unbacked_symint = new_dynamic_size


current = None
standing = None         # where any number may stand for a size that depends on data: those given so far
_FIRST = 1000003        # what no size of a test is


def get_ctx():
    if current is None:
        raise RuntimeError("get_ctx() can only be called inside a fake implementation")
    return current
