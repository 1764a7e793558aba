"""FakeTensorProp: what values are like, by running the graph without memory."""
import rushlight as torch
from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from rushlight.fx.node import map_aggregate

__all__ = ["FakeTensorProp"]


class FakeTensorProp(torch.fx.Interpreter):
    """propagate(*args): runs the graph on fake tensors and leaves node.meta["val"]."""

    def __init__(self, module, mode=None):
        super().__init__(module)
        self._mode = mode if mode is not None else FakeTensorMode()

    def run_node(self, n):
        result = super().run_node(n)
        meta = map_aggregate(result, lambda x: x.detach() if isinstance(x, FakeTensor) else x if isinstance(x, (int, float, bool)) else None)
        if meta is not None:
            n.meta["val"] = meta
        return result

    def propagate(self, *args):
        return self.propagate_dont_convert_inputs(*(self._mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))

    def propagate_dont_convert_inputs(self, *args):
        """The same of arguments that are fake already."""
        with self._mode:
            return super().run(*args)
