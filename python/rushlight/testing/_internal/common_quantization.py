"""Models that tests of quantization share."""
import importlib.util
import unittest

import rushlight as torch
from rushlight import nn
from rushlight.testing._internal.common_utils import TestCase


class _EmbeddingConvLinear(nn.Module):
    """Rows of a table, convolved, each through a linear layer."""

    def __init__(self):
        super().__init__()
        self.emb, self.conv, self.linear = nn.Embedding(num_embeddings=10, embedding_dim=8), nn.Conv2d(8, 16, (1, 3)), nn.Linear(16, 8)

    def forward(self, indices):
        rows = self.emb(indices).unsqueeze(0).permute(0, 3, 1, 2)
        return self.linear(self.conv(rows).permute(0, 2, 3, 1).squeeze(0))


class _ConvLinear(nn.Module):
    """A convolution whose channels go through a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 16, 3), nn.Linear(16, 5)

    def forward(self, x):
        return self.linear(torch.permute(self.conv(x), (0, 2, 3, 1)))


class _WithNorm(nn.Module):
    """A convolution, perhaps normalized, perhaps followed by a relu."""

    def __init__(self, name, conv, dim, bn, relu):
        super().__init__()
        self._first = name
        setattr(self, name, conv)
        self.bn = (nn.BatchNorm1d if dim == 1 else nn.BatchNorm2d)(3) if bn else nn.Identity()
        self.relu = nn.ReLU() if relu else nn.Identity()

    def forward(self, x):
        return self.relu(self.bn(getattr(self, self._first)(x)))


class _ConvWithNorm(_WithNorm):
    def __init__(self, relu, dim=2, bn=True, bias=True, padding=0):
        super().__init__("conv", (nn.Conv1d if dim == 1 else nn.Conv2d)(3, 3, 3, bias=bias, padding=padding), dim, bn, relu)


class _TransposedConvWithNorm(_WithNorm):
    def __init__(self, relu, dim=2, bn=True, bias=True):
        super().__init__("convt", (nn.ConvTranspose1d if dim == 1 else nn.ConvTranspose2d)(3, 3, 3, bias=bias), dim, bn, relu)


class _ConvNormLinear(nn.Module):
    """A normalized convolution whose channels go through a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv_bn_relu, self.linear, self.relu = _ConvWithNorm(relu=True), nn.Linear(3, 8, bias=False), nn.ReLU()

    def forward(self, x):
        return self.linear(torch.permute(self.conv_bn_relu(x), (0, 2, 3, 1)))


class _Rows(nn.Module):
    """Rows of a table."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(num_embeddings=10, embedding_dim=12)

    def forward(self, indices):
        return self.emb(indices)


class _GroupedConv(nn.Module):
    """A convolution in two groups."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, groups=2)

    def forward(self, x):
        return self.conv(x)

    def example_inputs(self):
        return (torch.randn(2, 4, 10, 10),)


class _ConvPool(nn.Module):
    """A convolution and a pool of windows of one."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv2d(2, 2, 1), nn.MaxPool2d(1, 1)

    def forward(self, x):
        return self.pool(self.conv(x))


class _TwoConvs(nn.Module):
    """Two convolutions, one behind the other in channels."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 3, 3), nn.Conv2d(3, 3, 3)

    def forward(self, x, y):
        return torch.cat([self.conv1(x), self.conv2(y)], dim=1)


class _TwoConvsTwice(_TwoConvs):
    """The same behind a sum."""

    def forward(self, x1, x2, x3, x4):
        first = super().forward(x1, x2)
        return torch.cat([x3 + x4, first])


class _Sums(nn.Module):
    """A sum of two sums."""

    def forward(self, x1, x2, x3, x4):
        first = x1 + x2
        return first + (x3 + x4)


class TestHelperModules:
    """The models by their names."""
    __test__ = False
    EmbeddingConvLinearModule, ConvLinearWPermute, ThreeAdd, EmbeddingModule = _EmbeddingConvLinear, _ConvLinear, _Sums, _Rows
    ConvWithBNRelu, ConvTWithBNRelu, ConvBnReLU2dAndLinearReLU = _ConvWithNorm, _TransposedConvWithNorm, _ConvNormLinear
    GroupwiseConv2d, ConvMaxPool2d, Conv2dWithCat, Conv2dWithTwoCat = _GroupedConv, _ConvPool, _TwoConvs, _TwoConvsTwice


for _name, _kind in list(vars(TestHelperModules).items()):
    if isinstance(_kind, type):
        _kind.__name__ = _kind.__qualname__ = _name


class NodeSpec:
    """What a node calls: to be counted in a graph."""

    def __init__(self, op, target):
        self.op, self.target = op, target

    @classmethod
    def call_function(cls, target):
        return cls("call_function", target)

    @classmethod
    def call_method(cls, target):
        return cls("call_method", target)

    @classmethod
    def call_module(cls, target):
        """A module by its class."""
        return cls("call_module", target)

    def __hash__(self):
        return hash((self.op, self.target))

    def __eq__(self, other):
        return isinstance(other, NodeSpec) and (self.op, self.target) == (other.op, other.target)

    def __repr__(self):
        return "%r %r" % (self.op, self.target)


def skipIfNoQNNPACK(fn):
    """The engine is there: nothing is skipped."""
    return fn


skipIfNoONEDNN = skipIfNoX86 = skipIfNoFBGEMM = skipIfNoQNNPACK


def skipIfNoInductorSupport(fn):
    return unittest.skip("there is no code generator")(fn)


def skip_if_no_torchvision(fn):
    return unittest.skipIf(importlib.util.find_spec("torchvision") is None, "no torchvision")(fn)


class QuantizationTestCase(TestCase):
    """Counts nodes of graphs."""

    def checkGraphModuleNodes(self, graph_module, expected_node=None, expected_node_occurrence=None, expected_node_list=None):
        """`expected_node` is there; each of `expected_node_occurrence` as often as it says; those of the list come in this order."""
        modules = dict(graph_module.named_modules(remove_duplicate=False))
        specs = [NodeSpec(n.op, type(modules[n.target]) if n.op == "call_module" else n.target) for n in graph_module.graph.nodes
                 if n.op in ("call_function", "call_method", "call_module")]
        if expected_node is not None:
            self.assertIn(expected_node, specs, "%s is not in\n%s" % (expected_node, graph_module.code))
        for spec, count in (expected_node_occurrence or {}).items():
            self.assertEqual(specs.count(spec), count, msg="%s is there %d times, not %d, in\n%s" % (spec, specs.count(spec), count, graph_module.code))
        rest = iter(specs)
        for spec in expected_node_list or []:
            self.assertTrue(spec in rest, "%s does not come in the order of the list in\n%s" % (spec, graph_module.code))
