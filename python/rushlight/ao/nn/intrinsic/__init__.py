"""Layers that run as one: a convolution or linear layer with the normalization and activation behind it."""
from rushlight import nn

__all__ = ["ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d", "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d",
           "LinearReLU", "LinearLeakyReLU", "LinearTanh", "LinearBn1d", "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d"]


class _FusedModule(nn.Sequential):
    """A sequence of which each part has its kind."""
    _kinds = ()

    def __init__(self, *parts):
        if self._kinds and tuple(map(type, parts)) != self._kinds:
            raise AssertionError("Incorrect types for input modules " + " ".join(str(type(part)) for part in parts))
        super().__init__(*parts)


def _fused(name, *kinds):
    return type(name, (_FusedModule,), {"_kinds": kinds, "__doc__": "A sequence of %s." % " and ".join(kind.__name__ for kind in kinds),
                                        "__module__": __name__})


for _n, _conv, _norm in ((1, nn.Conv1d, nn.BatchNorm1d), (2, nn.Conv2d, nn.BatchNorm2d), (3, nn.Conv3d, nn.BatchNorm3d)):
    for _name, _parts in (("ConvBn", (_conv, _norm)), ("ConvBnReLU", (_conv, _norm, nn.ReLU)), ("ConvReLU", (_conv, nn.ReLU))):
        globals()[f"{_name}{_n}d"] = _fused(f"{_name}{_n}d", *_parts)
LinearReLU = _fused("LinearReLU", nn.Linear, nn.ReLU)
LinearLeakyReLU = _fused("LinearLeakyReLU", nn.Linear, nn.LeakyReLU)
LinearTanh = _fused("LinearTanh", nn.Linear, nn.Tanh)
LinearBn1d = _fused("LinearBn1d", nn.Linear, nn.BatchNorm1d)
BNReLU2d = _fused("BNReLU2d", nn.BatchNorm2d, nn.ReLU)
BNReLU3d = _fused("BNReLU3d", nn.BatchNorm3d, nn.ReLU)


class ConvAdd2d(_FusedModule):
    """A convolution whose result is added to another tensor by `add`."""

    def __init__(self, conv, add):
        super().__init__(conv)
        self.add = add

    def forward(self, x1, x2):
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """ConvAdd2d with a ReLU behind it."""

    def __init__(self, conv, add, relu):
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1, x2):
        return self.relu(self.add(self[0](x1), x2))


def __getattr__(name):
    if name in ("modules", "qat", "quantized"):
        import importlib
        return importlib.import_module(__name__ + "." + name)
    raise AttributeError("module 'torch.ao.nn.intrinsic' has no attribute '%s'" % name)
