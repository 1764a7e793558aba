"""Graphs of traces: their nodes are PyTorch's (jit_graphs.txt, which jit_graphs.py prints), and may be walked as there."""
import copy
import io

import jit_graphs
import pytest

import rushlight as torch
from rushlight import nn

NETWORKS, GOLDEN = jit_graphs.networks(torch), jit_graphs.golden()


@pytest.mark.parametrize("name", GOLDEN)
def test_nodes(name):
    assert jit_graphs.text(torch, name, NETWORKS[name]).strip() == GOLDEN[name].strip()


def test_text():
    graph = torch.jit.trace(lambda x: x * 2 + x.sum(), torch.ones(2, 3)).graph
    assert graph.str(False) == """graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %1 : Long(requires_grad=0, device=cpu) = prim::Constant[value={2}]()
  %2 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu) = aten::mul(%x, %1)
  %3 : NoneType = prim::Constant()
  %4 : Float(requires_grad=0, device=cpu) = aten::sum(%x, %3)
  %5 : int = prim::Constant[value=1]()
  %6 : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu) = aten::add(%2, %4, %5)
  return (%6)
"""
    assert "test_jit_graph.py:" in str(graph) and repr(graph) == str(graph)
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    text = torch.jit.trace(net, torch.ones(1, 2)).inlined_graph.str(False)
    assert '%weight : Tensor = prim::GetAttr[name="weight"](%_1)\n' in text and '%weight.1 : Tensor = prim::GetAttr[name="weight"](%_0)\n' in text
    assert "graph(%self : __torch__.torch.nn.modules.container.Sequential,\n      %input : Float(1, 2, " in text and "aten::linear(%input, %weight.1, %bias.1), scope: __module.0\n" in text


def test_values_and_types():
    graph, out = torch.jit._get_trace_graph(nn.Linear(3, 2), (torch.ones(4, 3),))
    assert torch.equal(out, out) and isinstance(graph, torch._C.Graph) and isinstance(graph, torch.Graph)
    node, = graph.nodes()
    x, weight, bias = node.inputs()
    assert isinstance(node, torch._C.Node) and isinstance(x, torch._C.Value)
    assert (node.kind(), node.inputsSize(), node.outputsSize(), node.hasMultipleOutputs(), node.scopeName()) == ("aten::linear", 3, 1, False, "")
    assert node.schema() == "aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor" and node.namedInput("weight") is weight and list(node.blocks()) == []
    assert "linear.py(" in node.sourceRange() and "): forward\n" in node.sourceRange()
    kind = x.type()
    assert (kind.sizes(), kind.strides(), kind.dim(), kind.scalarType(), kind.dtype(), kind.device(), kind.requires_grad()) == ([4, 3], [3, 1], 2, "Float", torch.float32, torch.device("cpu"), False)
    assert (kind.kind(), str(kind), kind.annotation_str, kind.str()) == ("TensorType", "Tensor", "Tensor", "Float(4, 3, strides=[3, 1], requires_grad=0, device=cpu)")
    assert kind.isSubtypeOf(torch._C.TensorType.get()) and not torch._C.TensorType.get().isSubtypeOf(kind) and isinstance(kind, torch._C.Type)
    assert weight.requires_grad() and bias.isCompleteTensor() and x.toIValue() is None and x.node().kind() == "prim::Param" and bias.offset() == 2
    assert [(u.user, u.offset) for u in weight.uses()] == [(node, 1)] and node.output().node() is node and graph.return_node().inputsAt(0) is node.output()
    with pytest.raises(RuntimeError, match="3 inputs, not one"):
        node.input()
    with pytest.raises(RuntimeError, match="outputs are used"):
        node.destroy()
    assert str(torch._C.ListType(torch._C.IntType.get())) == "List[int]" and torch._C.ListType.ofInts() == torch._C.ListType(torch._C.IntType())
    assert torch._C.OptionalType.ofTensor().str() == "Tensor?" and torch._C.TupleType([torch._C.IntType(), kind]).str().startswith("(int, Float(")


def test_attributes_of_constants():
    graph = torch.jit._get_trace_graph(lambda x: torch.zeros(2, device="cpu") + torch.nn.functional.gelu(x * 0.5) + torch.tensor([1.0, 2.0]), (torch.ones(2),))[0]
    found = {}
    for node in graph.findAllNodes("prim::Constant"):
        names = node.attributeNames()
        assert node.mustBeNone() == (not names) and node.hasAttributes() == bool(names)
        if names:
            kind = node.kindOf("value")
            found.setdefault(kind, []).append(getattr(node, kind)("value"))
    assert found["s"] == ["cpu", "none", "cpu"] and 2 in found["i"] and [t.tolist() for t in found["t"]] == [0.5, [1.0, 2.0]]
    node = graph.findNode("prim::Constant")
    assert node.i("value") == 2 and node.hasAttribute("value") and not node.hasAttribute("other")
    with pytest.raises(RuntimeError, match="has the wrong type"):
        node.s("value")
    with pytest.raises(IndexError, match="undefined"):
        node.i("other")
    assert [n.output().toIValue() for n in graph.findAllNodes("prim::Constant") if str(n.output().type()) == "Device"] == [torch.device("cpu")] * 2


def test_copies_and_changes():
    made = torch.jit.trace(lambda x: (x + 1) * (x + 1), torch.ones(2)).graph
    twin = made.copy()
    assert str(twin) == str(made)
    first, second = twin.findAllNodes("aten::add")
    second.output().replaceAllUsesWith(first.output())
    second.destroy()
    assert len(twin.findAllNodes("aten::add")) == 1 and len(made.findAllNodes("aten::add")) == 2
    product = twin.findNode("aten::mul")
    assert product.inputsAt(0) is product.inputsAt(1) and len(first.output().uses()) == 2
    first.output().setDebugName("sum")
    product.output().setDebugName("sum")
    assert (first.output().debugName(), product.output().debugName()) == ("sum.1", "sum")


def test_hooks_open_scopes():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.ReLU()

        def forward(self, x):
            return self.b(self.a(x)) + 1
    net = Net()
    assert torch._C._get_tracing_state() is None and not torch.jit.is_tracing()
    for name, module in net.named_modules():
        module.register_forward_pre_hook(lambda m, args, name=name: torch._C._get_tracing_state().push_scope(name))
        module.register_forward_hook(lambda m, args, out: torch._C._get_tracing_state().pop_scope())
    graph, _ = torch.jit._get_trace_graph(net, torch.ones(1, 2))
    torch._C._jit_pass_inline(graph)
    assert [(n.kind(), n.scopeName()) for n in graph.nodes() if n.kind() != "prim::Constant"] == [("aten::linear", "/a"), ("aten::relu", "/b"), ("aten::add", "")]


def test_scripted_programs_are_calls_of_a_trace():
    @torch.jit.script
    def doubled(x):
        return x * 2

    class Scripted(nn.Module):
        def forward(self, x):
            return x + 1
    graph = torch.jit.trace(lambda x: doubled(x) + 1, torch.ones(2)).graph
    call = graph.findNode("prim::CallFunction")
    assert call.inputsAt(0).node().s("name") == "doubled" and call.output().type().sizes() == [2]
    net = nn.Sequential(torch.jit.script(Scripted()))
    assert torch.jit.trace(net, torch.ones(2)).graph.findNode("prim::CallMethod").s("name") == "forward"
    with pytest.raises(RuntimeError, match="not part of the active trace"):
        torch.jit._get_trace_graph(net, torch.ones(2))


def test_which_programs_have_nodes():
    class Net(nn.Module):
        def forward(self, x):
            return self.scaled(x) + 1

        def scaled(self, x):
            return x * 2
    x = torch.ones(2)
    made = torch.jit.trace_module(Net(), {"forward": x, "scaled": x})
    kinds = [[n.kind() for n in g.nodes() if n.kind() != "prim::Constant"] for g in (made.graph, made.scaled.graph, copy.deepcopy(made).graph)]
    assert kinds == [["aten::mul", "aten::add"], ["aten::mul"], ["aten::mul", "aten::add"]]
    file = io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    for text in (torch.jit.load(file).graph, torch.jit.script(Net()).graph):
        assert "def forward" in str(text)
        for name in ("nodes", "inputs", "findAllNodes"):
            with pytest.raises(NotImplementedError, match="text and has no nodes"):
                getattr(text, name)()


def test_what_a_graph_cannot_return():
    with pytest.raises(RuntimeError, match="can be returned, not int"):
        torch.jit._get_trace_graph(lambda x: (x, 1), torch.ones(2))
    graph, out, args = torch.jit._get_trace_graph(lambda x: {"a": x + 1, "b": [x, None]}, torch.ones(2), return_inputs=True)
    assert len(list(graph.inputs())) == 1 and graph.return_node().input().type().kind() == "TupleType" and out["b"][1] is None and len(args) == 1
