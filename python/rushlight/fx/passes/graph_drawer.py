"""Drawing of graphs."""


class FxGraphDrawer:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("FxGraphDrawer: drawing needs pydot; print graph_module.graph instead")
