"""Models that tests of quantization share."""
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


class TestHelperModules:
    """The models by their names."""
    __test__ = False
    EmbeddingConvLinearModule, ConvLinearWPermute = _EmbeddingConvLinear, _ConvLinear


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
    import unittest
    return unittest.skip("there is no code generator")(fn)


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
