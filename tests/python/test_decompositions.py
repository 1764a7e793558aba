"""run_decompositions(), its table and the rules in it: the operations that are left are PyTorch's (decomposed.txt), the numbers those of the program."""
import decomposed
import pytest
from test_golden import tensors_in

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn
from rushlight._decomp import core_aten_decompositions, decomposition_table, get_decompositions, register_decomposition, remove_decompositions
from rushlight.export import Dim
from rushlight.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
CASES, GOLDEN = decomposed.cases(), decomposed.golden_targets()

# Where other operations are left than in PyTorch, and why.
OTHERS = {
    # the exported program is another one already: what runs above the operations of ATen is ours
    *("Tensor.__getitem__ Tensor.__rtruediv__ masked.mean masked.normalize masked.std masked.var ops.aten._batch_norm_with_update _segment_reduce "
      "nn.functional.upsample_bilinear unravel_index").split(),
    *("signal.windows." + name for name in "bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser nuttall".split()),
    # the same by other operations of the core set
    *("alias_copy diff functional.einsum fft.ihfft2 fft.ihfftn gradient index_fill inner isin linalg.cond "
      "linalg.matrix_rank linalg.multi_dot linalg.norm linalg.pinv linspace logspace nanmean "
      "nn.functional.pad nn.functional.rrelu nn.functional.instance_norm pinverse tensordot "
      "ops.aten.native_dropout_backward.default t_copy t").split(),
    # operations that we have in another form
    *"cdist histogramdd nn.functional.embedding_bag nn.functional.pdist nn.functional.interpolate".split(),
}
DRAWN = ("rand", "dropout", "bernoulli", "normal", "multinomial", "exponential", "uniform", "geometric", "cauchy", "rrelu", "empty", "poisson", "fractional",
         "multi_head_attention_forward", "scaled_dot_product_attention/float1")


def alike(got, want):
    got, want = tensors_in(got), tensors_in(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert torch.allclose(a, b, rtol=2e-4, atol=2e-4, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in GOLDEN if not name.startswith("Tensor.item/")])
def test_operation(name):
    module, given = decomposed.program(torch, CASES[name])
    copies = lambda: [t.clone() for t in given]
    want = module(*copies())
    program = torch.export.export(module, given).run_decompositions()
    if not any(word in name for word in DRAWN):
        alike(program.module()(*copies()), want)
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert not any(a.alias_info is not None and a.alias_info.is_write for a in node.target._schema.arguments), node.target
    if name.partition("/")[0] not in OTHERS:
        assert decomposed.targets(program) == GOLDEN[name]


class Of(nn.Module):
    """A module of a function and layers."""

    def __init__(self, f, *layers):
        super().__init__()
        self.f, self.layers = f, nn.ModuleList(layers)

    def forward(self, *args):
        return self.f(*self.layers, *args)


def counted(program):
    """The operations of a program, as "name*count" words."""
    names = [str(n.target).removeprefix("aten.").removesuffix(".default") for n in program.graph.nodes if n.op == "call_function"]
    names = ["getitem" if n == "<built-in function getitem>" else n for n in names]
    return " ".join("%s*%d" % (n, names.count(n)) for n in sorted(set(names)))


X, PICTURE = torch.randn(2, 4, 8), torch.randn(2, 3, 8, 8)
NETWORKS = {
    "mlp": (nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Dropout(), nn.LayerNorm(4)), (X,),
            "addmm*1 getitem*2 native_dropout*1 native_layer_norm*1 permute*1 relu*1 view*2"),
    "cnn": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval(), (PICTURE,),
            "_native_batch_norm_legit_no_training*1 convolution*1 getitem*2 max_pool2d_with_indices*1 mean.dim*1 mul.Tensor*1 sigmoid*1 view*1"),
    "attention": (nn.MultiheadAttention(8, 2, batch_first=True).eval(), (X, X, X),
                  "_softmax*1 add.Tensor*1 addmm*1 bmm*3 clone*2 expand*2 mean.dim*1 mul.Tensor*1 permute*10 select.int*3 squeeze.dims*1 unsqueeze*1 view*10"),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (X,),
                "_softmax*1 add.Tensor*3 addmm*3 any.dim*1 bmm*3 clone*5 eq.Scalar*1 expand*6 full_like*1 getitem*2 logical_not*2 mul.Scalar*2 native_layer_norm*2 "
                "permute*14 relu*1 select.int*3 squeeze.dims*1 unsqueeze*1 view*22 where.self*1"),
    "bag": (nn.EmbeddingBag(11, 4), (torch.tensor([[1, 2, 4], [4, 3, 9]]),), "_embedding_bag*1 arange.start_step*1 getitem*1 view*1"),
    "causal": (Of(lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None], is_causal=True)), (X,),
               "_softmax*1 add.Tensor*1 any.dim*1 arange.start_step*2 bmm*2 clone*1 eq.Scalar*1 expand*4 full*1 full_like*1 le.Scalar*1 logical_and*1 logical_not*2 "
               "mul.Scalar*2 permute*3 scalar_tensor*2 sub.Tensor*1 unsqueeze*5 view*6 where.self*2"),
    "norms": (Of(lambda a: F.group_norm(a, 2) + F.instance_norm(a) + F.rms_norm(a, (8,)) + F.normalize(a, dim=1) + F.local_response_norm(a, 2)), (X,),
              "_native_batch_norm_legit.no_stats*1 add.Scalar*1 add.Tensor*5 avg_pool2d*1 clamp*1 constant_pad_nd*1 div.Tensor*2 expand*1 getitem*2 linalg_vector_norm*1 "
              "mean.dim*1 mul.Tensor*3 native_group_norm*1 pow.Tensor_Scalar*2 rsqrt*1 squeeze.dims*1 unsqueeze*1 view*2"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name):
    """How often each operation is left, as PyTorch prints it."""
    net, given, want = NETWORKS[name]
    program = torch.export.export(net, given).run_decompositions()
    assert counted(program) == want
    if name != "mlp":
        alike(program.module()(*given), net(*given))


@pytest.mark.parametrize("layer", [nn.LSTM(8, 4, batch_first=True), nn.GRU(8, 4, 2, bidirectional=True), nn.RNN(8, 4, bias=False),
                                   nn.RNN(8, 4, nonlinearity="relu")])
def test_recurrent_layers_become_steps(layer):
    program = torch.export.export(layer, (X,)).run_decompositions()
    called = set(decomposed.targets(program).split())
    assert {"permute.default", "split_with_sizes.default", "sigmoid.default", "tanh.default", "addmm.default"} & called
    assert not {w for w in called if "lstm" in w or "gru" in w or "rnn" in w or w.partition(".")[0].endswith("_")}
    alike(program.module()(X), layer(X))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x):
        y = self.norm(x)
        self.seen += y.sum(0)
        x[:, 1:3].mul_(2)
        return y.view(-1)[2:] + self.seen[0]


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_stay_where_the_length_varies(layer):
    net = nn.Sequential(layer(4, 5, num_layers=2))
    program = torch.export.export(net, (torch.randn(3, 2, 4),), dynamic_shapes=({0: Dim("t", min=2, max=9)},))
    again, x = program.run_decompositions(), torch.randn(7, 2, 4)
    torch.testing.assert_close(again.module()(x), net(x))
    assert len(again.graph.nodes) < 25 and "full" in {n.target._opname for n in again.graph.nodes if hasattr(n.target, "_opname")}


def test_changes_are_results():
    """Of buffers and of what is given; through views, too."""
    x = torch.randn(3, 4)
    net, other = Counting(), Counting()
    program = torch.export.export(net, (x.clone(),)).run_decompositions()
    kinds = [(s.kind.name, s.target) for s in program.graph_signature.output_specs]
    assert kinds == [("BUFFER_MUTATION", "seen"), ("BUFFER_MUTATION", "norm.running_mean"), ("BUFFER_MUTATION", "norm.running_var"),
                     ("BUFFER_MUTATION", "norm.num_batches_tracked"), ("USER_INPUT_MUTATION", "x"), ("USER_OUTPUT", None)]
    assert "_native_batch_norm_legit_functional.default" in decomposed.targets(program) and "slice_scatter.default" in decomposed.targets(program)
    again = program.run_decompositions()
    assert [(s.kind.name, s.target) for s in again.graph_signature.output_specs] == kinds and counted(again) == counted(program)
    run, a, b = again.module(), x.clone(), x.clone()
    for _ in range(2):
        alike(run(a), other(b))
    alike(a, b)
    for name, buffer in other.named_buffers():
        alike(run.get_buffer(name), buffer)


def test_sizes_that_vary():
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Hardswish(), nn.Flatten(), nn.Linear(256, 8), nn.GLU())
    net = Of(lambda net, x: F.scaled_dot_product_attention(*(net(x).reshape(1, x.shape[0], 4),) * 3), net)
    program = torch.export.export(net, (PICTURE,), dynamic_shapes={"args": ({0: Dim("n", max=64)},)}).run_decompositions()
    for n in 3, 7:
        x = torch.randn(n, 3, 8, 8)
        alike(program.module()(x), net(x))


def test_graphs_inside():
    def f(net, x):
        a = torch.cond(x.sum() > 0, lambda x: F.silu(net(x)).add_(1), lambda x: F.hardswish(x), (x,))
        b = torch._higher_order_ops.map(lambda row: F.silu(row) * 2, x)
        c, d = torch._higher_order_ops.scan(lambda c, row: (F.silu(c + row), (c * row).clone()), torch.zeros(4), x)
        e, = torch._higher_order_ops.while_loop(lambda x: x.sum() < 20, lambda x: (F.softplus(x) + 1,), (x,))
        return a, b, c, d, e
    net = Of(f, nn.Linear(4, 4))
    program = torch.export.export(net, (torch.randn(3, 4),)).run_decompositions()
    inside = {name: {str(n.target) for n in graph.graph.nodes if n.op == "call_function"} for name, graph in program.graph_module.named_children()}
    assert inside["true_graph_0"] == {"aten.permute.default", "aten.addmm.default", "aten.sigmoid.default", "aten.mul.Tensor", "aten.add.Tensor"}
    assert inside["body_graph_0"] == {"aten.sigmoid.default", "aten.mul.Tensor"}
    for x in torch.randn(3, 4), torch.ones(3, 4):
        alike(program.module()(x), net(x))


def test_a_table_of_nothing_opens_views_and_changes():
    net = nn.Sequential(nn.Linear(4, 4), nn.SiLU(), nn.Dropout(), nn.Flatten()).train()
    assert counted(torch.export.export(net, (X[..., :4],)).run_decompositions({})) == "getitem*1 linear*1 native_dropout*1 silu*1 view*1"


def test_tables():
    table = torch.export.default_decompositions()
    assert isinstance(table, torch.export.CustomDecompTable) and table.keys() == core_aten_decompositions().keys()
    assert all(isinstance(op, torch._ops.OpOverload) for op in table)
    assert {aten.silu.default, aten.linear.default, aten.native_layer_norm_backward.default, aten.zeros.default} <= table.keys()
    assert not {aten.add.Tensor, aten.addmm.default, aten.native_layer_norm.default, aten._softmax.default, aten.flatten.using_ints} & table.keys()
    del table[aten.linear.default]
    table.pop(aten.silu.default)
    program = torch.export.export(nn.Sequential(nn.Linear(8, 4), nn.SiLU(), nn.Mish()), (X,)).run_decompositions(table)
    assert counted(program) == "exp*1 gt.Scalar*1 linear*1 log1p*1 mul.Tensor*1 silu*1 tanh*1 where.self*1"
    with pytest.raises(KeyError):
        del table[aten.add.Tensor]


def test_a_rule_of_ones_own():
    table = torch.export.default_decompositions()
    table[aten.relu.default] = lambda x: x * (x > 0)
    program = torch.export.export(nn.ReLU(), (X,)).run_decompositions(table)
    assert counted(program) == "gt.Scalar*1 mul.Tensor*1"
    alike(program.module()(X), X.relu())


def test_get_register_and_remove():
    found = get_decompositions([aten.addcmul, aten.silu.default, aten.addmm, aten.add, "what is no operator"])
    assert list(found) == [aten.addcmul.default, aten.silu.default, aten.addmm.default]
    assert all(decomposition_table[op] is rule for op, rule in found.items())
    own = {}
    register_decomposition([aten.relu, aten.tanh.default], own)(abs)
    assert own.keys() >= {aten.relu.default, aten.tanh.default}
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.relu.default"):
        register_decomposition(aten.relu.default, own)(abs)
    with pytest.raises(AssertionError, match="type must be one of post_autograd, pre_autograd, or meta, got what"):
        get_decompositions([aten.relu], "what")
    remove_decompositions(own, [aten.tanh, aten.add])
    assert aten.tanh.default not in own


def test_graphs_of_aot_are_pure():
    """What runs forward is what the results need; changes in place are results, of a view that is written, too."""
    from rushlight._functorch.aot_autograd import aot_module, make_boxed_func
    made, x = [], torch.randn(4, 3, 8)

    def compiler(graph, _):
        made.append({str(n.target) for n in graph.graph.nodes if n.op == "call_function"})
        return make_boxed_func(graph.forward)
    net = Of(lambda linear, norm, x: norm(linear(x).mul_(2).relu_().transpose(0, 1)[0]).tanh(), nn.Linear(8, 5), nn.LayerNorm(5))
    out = aot_module(net, compiler, compiler, decompositions=core_aten_decompositions())(x)
    want, weights = net(x), rows(4, 3, 5)[:, 0]
    alike(out, want)
    parameters = list(net.parameters())
    alike(torch.autograd.grad((out * weights).sum(), parameters), torch.autograd.grad((want * weights).sum(), parameters))
    assert not {w for graph in made for w in graph if w.partition(".")[2].partition(".")[0].endswith("_")}
    assert {"aten.relu.default", "aten.native_layer_norm.default"} <= made[0] and "aten.le.Scalar" not in made[0]


def test_the_debugging_backend_takes_operations_apart(monkeypatch):
    from rushlight._dynamo.backends import debugging
    nop, seen = debugging.boxed_nop, set()
    monkeypatch.setattr(debugging, "boxed_nop", lambda graph, given: seen.update(str(n.target) for n in graph.graph.nodes if n.op == "call_function") or nop(graph, given))
    net, x = nn.Sequential(nn.Linear(3, 4), nn.SiLU()), torch.randn(2, 3)
    torch.testing.assert_close(torch.compile(net, backend=lambda graph, given: debugging.aot_eager_decomp_partition(graph, given))(x), net(x))
    assert {"aten.addmm.default", "aten.sigmoid.default"} <= seen and "aten.silu.default" not in seen


def test_make_fx_and_aot_use_the_same_table():
    from rushlight._functorch.aot_autograd import aot_function, make_boxed_func
    f, table = lambda x: F.mse_loss(F.gelu(x), F.silu(x.detach())), core_aten_decompositions()
    called = {str(n.target) for n in make_fx(f, table)(X).graph.nodes if n.op == "call_function"}
    assert {"aten.sigmoid.default", "aten.pow.Tensor_Scalar"} <= called and not {"aten.silu.default", "aten.mse_loss.default"} & called
    graphs, x = [], X.clone().requires_grad_()

    def compiler(graph, _):
        graphs.append({str(n.target) for n in graph.graph.nodes})
        return make_boxed_func(graph.forward)
    loss = aot_function(f, compiler, compiler, decompositions=table)(x)
    grad, = torch.autograd.grad(loss, x)
    want = f(x)
    alike([loss, grad], [want, *torch.autograd.grad(want, x)])
    assert len(graphs) == 2 and not {"aten.gelu_backward.default", "aten.mse_loss_backward.default"} & (graphs[0] | graphs[1])


# ---- every rule beside its operation: what no program above reaches

def rows(*shape, k=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(k)) * 2


A, B, P, WHOLE = rows(3, 5), rows(3, 5, k=1), torch.rand(3, 5), torch.tensor([[1, 0, 2], [2, 2, 1]])
NORMED = aten.native_layer_norm(rows(4, 6), [6], rows(6), rows(6, k=1), 1e-5)
GROUPED = aten.native_group_norm(rows(2, 4, 3), rows(4), rows(4, k=1), 2, 4, 3, 2, 1e-5)
BATCHED = aten.native_batch_norm(rows(4, 3, 2), rows(3), rows(3, k=1), torch.zeros(3), torch.ones(3), True, 0.1, 1e-5)
CALLS = {
    "sigmoid_backward": (A, P), "tanh_backward": (A, P), "threshold_backward": (A, B, 0.3), "hardtanh_backward": (A, B, -1.0, 1.5),
    "leaky_relu_backward": (A, B, 0.1, False), "silu_backward": (A, B), "elu_backward": (A, 1.2, 0.9, 1.1, False, B), "hardsigmoid_backward": (A, B),
    "hardswish_backward": (A, B), "softplus_backward": (A, B, 1.5, 2.0), "log_sigmoid_backward": (A, B, P), "mish_backward": (A, B), "gelu_backward": (A, B),
    "glu_backward": (A, rows(3, 10), 1), "mse_loss_backward": (A, B, A, 1),
    "smooth_l1_loss_backward": (A, B, A, 1, 0.7), "huber_loss_backward": (A, B, A, 2, 0.7),
    "binary_cross_entropy_backward": (A, P, P.flip(0), None, 1), "native_dropout_backward": (A, B > 0, 1.25),
    "_softmax_backward_data": (A, P, 1, torch.float32), "_log_softmax_backward_data": (A, B, 1, torch.float32), "_softmax": (A, 1, False),
    "_log_softmax": (A, 0, False),
    "nll_loss_backward": (torch.tensor(2.0), A, torch.tensor([1, 4, 2]), P[0], 1, 4, P[0, 1] + P[0, 2]),
    "native_layer_norm": (rows(4, 6), [6], rows(6), rows(6, k=1), 1e-5),
    "native_layer_norm_backward": (rows(4, 6, k=2), rows(4, 6), [6], *NORMED[1:], rows(6), rows(6, k=1), [True] * 3),
    "native_group_norm": (rows(2, 4, 3), rows(4), rows(4, k=1), 2, 4, 3, 2, 1e-5),
    "native_group_norm_backward": (rows(2, 4, 3, k=2), rows(2, 4, 3), *GROUPED[1:], rows(4), 2, 4, 3, 2, [True] * 3),
    "native_batch_norm_backward": (rows(4, 3, 2, k=2), rows(4, 3, 2), rows(3), torch.zeros(3), torch.ones(3), *BATCHED[1:], True, 1e-5, [True] * 3),
    "_native_batch_norm_legit_no_training": (rows(4, 3, 2), rows(3), None, rows(3, k=1), torch.rand(3) + 1, 0.1, 1e-5),
    "_native_batch_norm_legit_functional": (rows(4, 3, 2), rows(3), rows(3, k=1), torch.zeros(3), torch.ones(3), True, 0.1, 1e-5),
    "_native_batch_norm_legit.no_stats": (rows(4, 3, 2), None, None, True, 0.1, 1e-5), "embedding_dense_backward": (rows(2, 3, 4), WHOLE, 4, 1, True),
    "select_backward": (A, [3, 2, 5], 1, 1), "slice_backward": (A, [3, 9], 1, 0, 9, 2), "diagonal_backward": (rows(3), [3, 4], 1, 0, 1),
    "addmm": (rows(4), A, rows(5, 4)), "addmv": (rows(3), A, rows(5)), "mean": (A,),
    "upsample_bilinear2d": (PICTURE, [5, 12], True), "upsample_nearest2d": (PICTURE, [5, 12]),
    "upsample_bicubic2d": (PICTURE, [5, 12], False), "upsample_trilinear3d": (PICTURE[None], [2, 5, 9], False),
    "lstm_cell": (rows(2, 3), [rows(2, 4), rows(2, 4, k=1)], rows(16, 3), rows(16, 4), rows(16), rows(16, k=1)),
    "gru_cell": (rows(2, 3), rows(2, 4), rows(12, 3), rows(12, 4), rows(12), rows(12, k=1)), "rnn_tanh_cell": (rows(2, 3), rows(2, 4), rows(4, 3), rows(4, 4)),
    "_scaled_dot_product_flash_attention_for_cpu": (rows(1, 2, 3, 4), rows(1, 2, 3, 4, k=1), rows(1, 2, 3, 4, k=2), 0.0, True),
    "logit_backward": (A, P, 0.2), "_log_sigmoid_slope": (A, B), "unfold_backward": (rows(3, 3, 4), [3, 9], 1, 4, 2),
    "reflection_pad2d_backward": (rows(2, 3, 11, 12), PICTURE, [1, 3, 1, 2]), "replication_pad2d_backward": (rows(2, 3, 11, 12), PICTURE, [1, 3, 1, 2]),
    "_pad_backward": (rows(2, 3, 11, 12), [2, 3, 8, 8], [1, 3, 1, 2], 2), "_fused_rms_norm_backward": (A, B, [5], P[:, :1], P[0], [True, True]),
    "_weight_norm_interface": (A, rows(3, 1)), "permute_copy": (A, [1, 0]), "native_channel_shuffle": (PICTURE, 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_rule(name):
    packet, _, overload = name.partition(".")
    op = getattr(getattr(aten, packet), overload or "default")
    got, want = decomposition_table[op](*CALLS[name]), op(*CALLS[name])
    alike([t for t in pytree_leaves(got) if t.numel()], [t for t in pytree_leaves(want) if t.numel()])


def pytree_leaves(x):
    return [t for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]
