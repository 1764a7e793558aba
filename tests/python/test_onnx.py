"""torch.onnx.export: what the models say, read from their bytes; tests/onnx_exchange.py has onnxruntime run them."""
import io
import sys

import pytest
import rushlight as torch
from rushlight import nn


def fields(data):
    """The fields of a message: number -> list of ints or bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        n, shift = 0, 0
        while True:
            b = data[at]
            at += 1
            n, shift = n | (b & 127) << shift, shift + 7
            if b < 128:
                return n
    while at < len(data):
        key = varint()
        kind, value = key & 7, None
        if kind == 0:
            value = varint()
        else:
            n = {1: 8, 5: 4}.get(kind) or varint()
            value, at = data[at:at + n], at + n
        found.setdefault(key >> 3, []).append(value)
    return found


def graph_of(data):
    return fields(fields(data)[7][0])


def names(graph, field, of=1):
    return [fields(x)[of][0].decode() for x in graph.get(field, [])]


def sizes(value):
    """The sizes of an input, names where they vary."""
    shape = fields(fields(fields(fields(value)[2][0])[1][0])[2][0])
    return [d[1][0] if 1 in d else d[2][0].decode() for d in map(fields, shape.get(1, []))]


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


def test_a_module_is_written_with_its_names(tmp_path):
    net = small()
    program = torch.onnx.export(net, (torch.randn(2, 1, 6, 6),), tmp_path / "net.onnx", input_names=["image"], output_names=["scores"], opset_version=18, do_constant_folding=True)
    data = (tmp_path / "net.onnx").read_bytes()
    model, graph = fields(data), graph_of(data)
    assert fields(model[8][0])[2] == [18]
    assert names(graph, 1, 4) == ["Conv", "BatchNormalization", "Relu", "Reshape", "Gemm", "Identity"]
    assert names(graph, 11) == ["image"] and names(graph, 12) == ["scores"]
    assert sizes(graph[11][0]) == [2, 1, 6, 6] and sizes(graph[12][0]) == [2, 3]
    assert set(net.state_dict()) - {"1.num_batches_tracked"} <= set(names(graph, 5, 8))
    assert net.training and isinstance(program, torch.onnx.ONNXProgram) and program.exported_program is not None
    out = io.BytesIO()
    program.save(out)
    assert out.getvalue() == data


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("axes", [{"x": {0: "batch"}}, {"x": [0]}])
def test_dynamic_axes(batch, axes):
    out = io.BytesIO()
    assert torch.onnx.export(small(), torch.randn(batch, 1, 6, 6), out, input_names=["x"], dynamic_axes=axes, dynamo=False) is None
    graph = graph_of(out.getvalue())
    first, *rest = sizes(graph[11][0])
    assert isinstance(first, str) and rest == [1, 6, 6]
    assert sizes(graph[12][0]) == [first, 3]


def test_results_and_arguments_by_name():
    class Net(nn.Module):
        def forward(self, x, y=None):
            return {"a": x, "b": (x + 1, [x * 2])} if y is None else x - y
    out = io.BytesIO()
    torch.onnx.export(Net(), (torch.ones(2),), out)
    graph = graph_of(out.getvalue())
    assert names(graph, 11) == ["x"] and len(names(graph, 12)) == 3 and names(graph, 12)[1:] == ["add", "mul"]
    out = io.BytesIO()
    torch.onnx.export(Net(), (torch.ones(2),), out, kwargs={"y": torch.ones(2)})
    assert names(graph_of(out.getvalue()), 11) == ["x", "y"]


def test_what_has_no_form_is_told_at_once():
    class Net(nn.Module):
        def forward(self, x):
            return torch.linalg.svd(x)[1], torch.linalg.qr(x)[0]
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="(?s)2 operations.*linalg_svd, called by test_onnx.py, line.*linalg_qr") as caught:
        torch.onnx.export(Net(), (torch.ones(2, 2),))
    assert isinstance(caught.value, torch.onnx.OnnxExporterError) and not torch.onnx.is_in_onnx_export()
    with pytest.raises(NotImplementedError, match="export_params"):
        torch.onnx.export(small(), (torch.randn(1, 1, 6, 6),), export_params=False)
    with pytest.raises(TypeError, match="Module"):
        torch.onnx.export(3, ())


def test_the_export_is_seen_inside():
    seen = []

    class Net(nn.Module):
        def forward(self, x):
            seen.append((torch.onnx.is_in_onnx_export(), self.training))
            return x + 1
    net = Net()
    torch.onnx.export(net, (torch.ones(2),))
    assert seen and all(pair == (True, False) for pair in seen) and net.training


def test_attention_and_cells():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.norm = nn.LSTM(4, 4, 2, batch_first=True, bidirectional=True), nn.LayerNorm(8)

        def forward(self, x):
            y = self.norm(self.cell(x)[0])
            return nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True).softmax(-1)
    out = io.BytesIO()
    torch.onnx.export(Net(), (torch.randn(2, 3, 4),), out)
    kinds = names(graph_of(out.getvalue()), 1, 4)
    assert kinds.count("LSTM") == 2 and kinds.count("Softmax") == 2 and {"LayerNormalization", "MatMul", "Trilu"} <= set(kinds)


class _Flagged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor(1))

    def forward(self, x):
        if not self.ready.item() or torch.equal(x, x + 1):
            return x
        return x * 2


def test_the_older_exporter_takes_the_examples_way(tmp_path):
    """What the program reads out of tensors is a number there, as in a trace; the newer one refuses to guess."""
    x = torch.arange(3.0)
    torch.onnx.export(_Flagged(), (x,), tmp_path / "net.onnx", dynamo=False)
    assert b"Mul" in (tmp_path / "net.onnx").read_bytes()
    with pytest.raises(torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode):
        torch.onnx.export(_Flagged(), (x,), tmp_path / "net.onnx", dynamo=True)


class _Three(torch.nn.Module):
    def forward(self, a, b, c):
        return (a - b) * c


def test_what_is_given_twice_stays_apart_in_the_older_exporter():
    x, out = torch.arange(3.0), io.BytesIO()
    torch.onnx.export(_Three(), (x, x, x), out, input_names=["a", "b", "c"], dynamo=False)
    inputs = [name for node in graph_of(out.getvalue())[1] for name in fields(node).get(1, [])]
    assert [name.decode() for name in inputs if name in (b"a", b"b", b"c")] == ["a", "b", "c"]


def test_models_are_run_and_verified_without_a_runtime(monkeypatch):
    from rushlight.onnx.testing import assert_onnx_program
    from rushlight.onnx.verification import VerificationInfo, verify_onnx_program
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    torch.manual_seed(0)
    net, x = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)).eval(), torch.randn(5, 4)
    program = torch.onnx.export(net, (torch.randn(5, 4),), output_names=["y"], verify=True)
    assert torch.allclose(program(x)[0], net(x), atol=1e-6)
    info, = verify_onnx_program(program, (x,))
    assert info.name == "y" and info.max_abs_diff < 1e-6 and info.abs_diff_hist[0].sum() == 15 and info.expected_dtype == info.actual_dtype == torch.float32
    assert_onnx_program(program)
    with torch.no_grad():
        program.exported_program.state_dict["0.weight"][0] += 1  # the program is not the model any more
    with pytest.raises(AssertionError, match="y: Tensor-likes are not close"):
        assert_onnx_program(program, args=(x,))
    with pytest.raises(NotImplementedError, match="compare_intermediates"):
        verify_onnx_program(program, compare_intermediates=True)
    # what PyTorch says of these tensors
    info = VerificationInfo.from_tensors("n", torch.tensor([1., 2., 0., 4.]), torch.tensor([1., 2.1, 1e-7, 4.])).asdict()
    assert (info["max_abs_diff"], info["max_rel_diff"], info["expected_dtype"]) == (0.09999990463256836, 1.0, "torch.float32")
    assert info["abs_diff_hist"][0] == [3, 0, 0, 0, 0, 1, 0, 0, 0] and info["rel_diff_hist"][0] == [2, 0, 0, 0, 0, 1, 0, 1, 0] and info["abs_diff_hist"][1][-1] == 1e6
    info = VerificationInfo.from_tensors("n", torch.tensor([True, False]), torch.tensor([True, True]))
    assert (info.max_abs_diff, info.max_rel_diff, info.rel_diff_hist[0].sum()) == (1.0, 1e7, 1)
    info = VerificationInfo.from_tensors("n", torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert (info.max_abs_diff, info.max_rel_diff, type(info.max_abs_diff)) == (1, 0.5, int)
    assert VerificationInfo.from_tensors("n", torch.ones(0), torch.ones(0)).max_abs_diff == float("inf")


def test_boxes_without_those_that_better_ones_overlap(monkeypatch):
    class Kept(nn.Module):
        def forward(self, boxes, scores):
            return torch.ops.torchvision.nms(boxes, scores, 0.5)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    torch.manual_seed(0)
    boxes = torch.rand(30, 4) * 0.5
    boxes[:, 2:] += boxes[:, :2] + 0.5
    scores = torch.rand(30)
    program = torch.onnx.export(Kept(), (boxes, scores))
    found, want = program(boxes, scores)[0], Kept()(boxes, scores)
    assert 3 < len(want) < 30 and torch.equal(found, want)
    # the example of ONNX's page of NonMaxSuppression, with a second class
    boxes = torch.tensor([[[0., 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]])
    scores, run = torch.tensor([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.9, 0.3, 0.4, 0.5]]]), torch.ops.onnx.NonMaxSuppression
    want = [[0, 0, 3], [0, 0, 0], [0, 0, 5], [0, 1, 2], [0, 1, 5], [0, 1, 4]]
    assert run(boxes, scores, torch.tensor([3]), torch.tensor([0.5])).tolist() == want == run(boxes[..., [2, 3, 0, 1]], scores, torch.tensor([3]), torch.tensor([0.5])).tolist()
    centred = torch.cat([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    assert run(centred, scores, torch.tensor([3]), torch.tensor([0.5]), center_point_box=1).tolist() == want
    assert run(boxes, scores, torch.tensor([2]), torch.tensor([0.5]), torch.tensor([0.4])).tolist() == [[0, 0, 3], [0, 0, 0], [0, 1, 2], [0, 1, 5]]
    assert run(boxes, scores).shape == (0, 3)
