"""The context that fake implementations ask for sizes that depend on data."""


class DependsOnData(RuntimeError):
    """A result has a size that follows from data, where no number may stand for it."""


class FakeImplCtx:
    """What torch.library.get_ctx() returns inside a fake implementation."""

    def __init__(self, op):
        self._op = op

    def new_dynamic_size(self, *, min=0, max=None):
        if standing is None:
            raise DependsOnData("%s: You're trying to run this operator with meta Tensors (as opposed to FakeTensors), but this operator may return an output Tensor "
                                "with data-dependent shape. Meta Tensors don't support operators with outputs that have data-dependent shapes but FakeTensors do. "
                                "If your operator does not return an output with data-dependent shape, make sure the FakeTensor and/or meta kernel does not call "
                                "torch.library.get_ctx(). Otherwise, please use FakeTensors." % self._op.name)
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
