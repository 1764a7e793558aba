"""Passes over graphs: patterns, partitions, splitting, and what exported graphs say of their nodes."""
import operator

import pytest
import rushlight as torch
from rushlight import fx
from rushlight.fx import symbolic_trace
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.fx.passes import operator_support, pass_manager, split_module, split_utils, tools_common
from rushlight.fx.passes.dialect.common.cse_pass import CSEPass
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
from rushlight.fx.passes.graph_manipulation import get_size_of_all_nodes
from rushlight.fx.passes.infra import pass_manager as infra
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.utils import compare_graphs
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions, validate_partition
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from rushlight.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions


def graph(function):
    return symbolic_trace(function).graph


def found(pattern, target, **options):
    return [[str(n) for n in m.returning_nodes] for m in SubgraphMatcher(graph(pattern), **options).match(graph(target))]


def twice(x, y):
    a = torch.relu(x + y)
    b = torch.relu(x + a)
    return torch.sigmoid(b) * 2, torch.add(b, 3)


def shared(x, y):
    s = x + y
    return torch.relu(s) * s


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2, self.w = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(2))

    def forward(self, x, y):
        a, b = self.l1(x), self.l2(y)
        return torch.relu(a) * self.w + b, a


class Function(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def exported(f, n=1):
    return torch.export.export(Function(f), tuple(torch.randn(2, 6) for _ in range(n))).module(check_guards=False)


def test_patterns_are_found_where_nothing_inside_is_used_outside():
    assert found(lambda x, y: torch.relu(x + y), twice) == [["relu"], ["relu_1"]]
    assert found(lambda x, y: torch.relu(x + y), shared) == []
    assert found(lambda x, y: (torch.relu(x + y), x + y), lambda x, y: (torch.relu(x + y), x + y)) == [["relu", "add_1"]]
    assert found(lambda x: x + x, lambda a, b: a + b) == [] == found(lambda x, y: x + y, lambda a: a + a)


def test_patterns_with_numbers_and_overlaps():
    assert found(lambda x: x * 3, twice) == [] and found(lambda x: x * 3, twice, ignore_literals=True) == [["mul"]]
    match, = SubgraphMatcher(graph(lambda x, k: torch.add(x, k))).match(graph(twice))
    assert match.placeholder_nodes[1] == 3
    thrice, pair = (lambda x: torch.relu(torch.relu(torch.relu(x)))), (lambda x: torch.relu(torch.relu(x)))
    assert found(pair, thrice) == [["relu_1"]] and found(pair, thrice, remove_overlapping_matches=False) == [["relu_1"], ["relu_2"]]
    with pytest.raises(ValueError, match="empty pattern"):
        SubgraphMatcher(fx.Graph())
    dead = graph(torch.nn.ReLU())
    with dead.inserting_before(dead.output_node()):
        unused = dead.call_function(torch.add, (dead.output_node().args[0], 3))
    with pytest.raises(AssertionError, match="dead code"):
        SubgraphMatcher(dead)
    dead.erase_node(unused)
    assert unused.args == (None, 3) and len(SubgraphMatcher(dead).match(dead)) == 1


def test_operators_are_compared_by_their_schemas():
    pattern, target = exported(lambda x: torch.sum(x, 1)), exported(lambda x: torch.sum(x, dim=1, keepdim=False))
    assert len(SubgraphMatcher(pattern.graph).match(target.graph)) == 1
    strided = exported(lambda x: torch.nn.functional.avg_pool1d(x, [2], stride=[3]))
    plain = exported(lambda x: torch.nn.functional.avg_pool1d(x, 2))
    assert SubgraphMatcher(plain.graph).match(strided.graph) == []
    assert torch.ops.aten.conv2d.default._schema.arguments[3].default_value == [1, 1]


def test_named_nodes_of_a_pattern():
    def pattern(x, y):
        s = x + y
        r = torch.relu(s)
        return r, {"sum": s, "result": r}
    matches = SubgraphMatcherWithNameNodeMap(exported(pattern, 2)).match(exported(twice, 2).graph)
    assert [{k: str(v) for k, v in m.name_node_map.items()} for m in matches] == [{"sum": "add", "result": "relu"}, {"sum": "add_1", "result": "relu_1"}]


def test_replacing_several_results_and_chains():
    m = symbolic_trace(shared)
    assert len(fx.replace_pattern(m, lambda x, y: (torch.relu(x + y), x + y), lambda x, y: (x - y, x * y))) == 0

    def both(x, y):
        s = x + y
        return torch.relu(s), s
    assert len(fx.replace_pattern(m, both, lambda x, y: (x - y, x * y))) == 1
    x, y = torch.randn(3), torch.randn(3)
    assert torch.allclose(m(x, y), (x - y) * (x * y))
    m = symbolic_trace(lambda x: torch.relu(torch.relu(x)) + 1)
    assert len(fx.replace_pattern(m, lambda x: torch.relu(x), lambda x: x)) == 2 and torch.equal(m(x), x + 1)
    m = symbolic_trace(twice)
    first, second = fx.subgraph_rewriter.replace_pattern_with_filters(m, lambda x, y: torch.relu(x + y), lambda x, y: torch.sigmoid(x) * y)
    assert second.nodes_map[next(n for n in second.nodes_map if n.name == "y")] in first.replacements
    m = exported(lambda x: torch.relu(x + 1))
    x = torch.randn(2, 6)
    pattern, replacement = (torch.export.export(Function(f), (x,)).module() for f in (torch.relu, lambda x: torch.sigmoid(x) * 2))
    made, = fx.subgraph_rewriter.replace_pattern_with_filters(m, pattern, replacement)      # whose guards are about their own inputs
    assert [n.name for n in made.replacements] == ["sigmoid", "mul"] and torch.equal(m(x), torch.sigmoid(x + 1) * 2) and not hasattr(m, "_guards_fn")
    with pytest.raises(AssertionError, match="Placeholder count mismatch: 2 vs 1"):
        fx.replace_pattern(symbolic_trace(twice), lambda x, y: torch.relu(x + y), lambda x: torch.relu(x))


SUPPORTED = {operator.add, torch.relu}


def chain(a, b, c):
    x = a + b
    y = torch.relu(x)
    w = torch.sigmoid(y) + y
    return w + c, torch.relu(a).sum(), w


def partitioner(f, **options):
    rule = operator_support.create_op_support(lambda modules, node: node.op == "call_function" and node.target in SUPPORTED)
    return CapabilityBasedPartitioner(symbolic_trace(f), rule, **options)


def test_partitions_take_what_they_can_without_a_circle():
    p = partitioner(chain)
    assert [[n.name for n in part.nodes] for part in p.propose_partitions()] == [["add_1", "add_2", "relu_1"], ["add", "relu"]]
    p = partitioner(chain, skip_horizontal_fusion=True)
    assert [[n.name for n in part.nodes] for part in p.propose_partitions()] == [["add_1", "add_2"], ["add", "relu"]]
    fused, args = p.partition_and_fuse(), [torch.randn(3) for _ in range(3)]
    assert all(torch.equal(a, b) for a, b in zip(fused(*args), chain(*args)))
    assert [name for name, _ in fused.named_children()] == ["fused_0", "fused_1"] and "torch.relu(add)" in fused.fused_1.code


def test_fusing_by_hand():
    m = symbolic_trace(chain)
    nodes = {n.name: n for n in m.graph.nodes}
    assert not validate_partition([nodes["relu"], nodes["add_1"]]) and validate_partition([nodes["relu"], nodes["sigmoid"], nodes["add_1"]])
    fuse_by_partitions(m, [{nodes["relu"]: None, nodes["sigmoid"]: None}], prefix="part_")
    args = [torch.randn(3) for _ in range(3)]
    assert "self.part_0(add)" in m.code and all(torch.equal(a, b) for a, b in zip(m(*args), chain(*args)))
    assert compare_graphs(graph(chain), graph(chain)) and not compare_graphs(graph(chain), graph(twice))


def test_rules_of_what_is_supported():
    m = symbolic_trace(Net())
    ShapeProp(m).propagate(torch.randn(3, 2), torch.randn(3, 2))
    modules, nodes = dict(m.named_modules()), {n.name: n for n in m.graph.nodes}
    assert tools_common.get_node_target(modules, nodes["l1"]) == "torch.nn.modules.linear.Linear"
    assert tools_common.get_node_target(modules, nodes["add"]) == "_operator.add"
    table = operator_support.OperatorSupport({"torch.relu": None, "_operator.mul": ([[torch.float16]], {})})
    calls = operator_support.create_op_support(lambda modules, node: node.op == "call_function")
    assert [table.is_node_supported(modules, nodes[n]) for n in ("relu", "mul", "add", "x")] == [True, False, False, True]
    assert operator_support.any_chain(table, calls).is_node_supported(modules, nodes["add"])
    assert not operator_support.chain(table, calls).is_node_supported(modules, nodes["add"])
    assert not operator_support.OpSupports.decline_if_input_dtype(torch.float32).is_node_supported(modules, nodes["relu"])


def test_orders():
    m = symbolic_trace(chain)
    nodes = {n.name: n for n in m.graph.nodes}
    nodes["relu"].prepend(nodes["sigmoid"])
    tools_common.stable_topological_sort(m).graph.lint()
    nodes["relu"].prepend(nodes["sigmoid"])
    tools_common.legalize_graph(m).graph.lint()
    nodes["add"].args = (nodes["relu"], nodes["b"])
    with pytest.raises(RuntimeError, match="cycles"):
        tools_common.legalize_graph(m)


def test_splitting():
    net, x, y = Net(), torch.randn(3, 2), torch.randn(3, 2)
    m = symbolic_trace(net)
    for node in m.graph.nodes:
        node.tag = {"l1": "left", "relu": "left", "l2": "right", "mul": "right", "add": "main"}.get(node.name)
    made, names = split_utils.split_by_tags(m, ["left", "right", "main"], return_fqn_mapping=True)
    assert names == {"l1": "left.l1", "l2": "right.l2", "w": "right.w"} and all(torch.equal(a, b) for a, b in zip(made(x, y), net(x, y)))
    with pytest.raises(AssertionError, match="must be >= max of its upstream components"):
        split_utils.split_by_tags(m, ["main", "right", "left"])
    names, part = {}, {"l1": 0, "l2": 1, "relu": 0, "mul": 1, "add": 2}
    made = split_module.split_module(symbolic_trace(net), net, lambda n: part[n.name], names)
    assert names == {"submod_0.l1": "l1", "submod_1.l2": "l2"} and all(torch.equal(a, b) for a, b in zip(made(x, y), net(x, y)))
    part.update(add=0)
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module.split_module(symbolic_trace(net), net, lambda n: part[n.name])


def test_managers_of_passes():
    def once(m):
        for n in m.graph.nodes:
            if n.target is torch.relu:
                n.target = torch.sigmoid
                return PassResult(m, True)
        return PassResult(m, False)

    def nothing(m):
        return PassResult(m, False)
    m = symbolic_trace(lambda x: torch.relu(torch.relu(x)))
    assert infra.PassManager([once]).__call__(m).modified and m.code.count("relu(") == 1
    assert infra.PassManager([once, nothing], steps=5)(m).modified and "torch.relu" not in m.code
    pm = infra.PassManager([once, nothing], constraints=[infra.this_before_that_pass_constraint(nothing, once)])
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        pm.validate_constraints()
    pm.solve_constraints()
    assert pm.passes == [nothing, once]
    pm.add_constraint(infra.this_before_that_pass_constraint(once, nothing))
    with pytest.raises(RuntimeError, match="Circular dependency"):
        pm.solve_constraints()
    with pytest.raises(Exception, match="when running the 'bad' pass after the following passes: \\['nothing'\\]"):
        def bad(m):
            return 5
        infra.PassManager([nothing, bad])(m)
    assert pass_manager.PassManager([pass_manager.loop_pass(pass_manager.inplace_wrapper(lambda x: x.append(1)), n_iter=3)])([]) == [1, 1, 1]


def test_common_subexpressions_sizes_and_fake_values():
    def f(x):
        h = x.clone()
        h.add_(1)
        return x.cos() + x.cos() + h, torch.rand_like(x) - torch.rand_like(x), x.sum(0) + x.sum(1)
    m = make_fx(f)(torch.randn(2, 2))
    result = CSEPass()(m)
    code = result.graph_module.code
    assert result.modified and code.count("cos.default") == 1 and code.count("rand_like.default") == 2 and code.count("sum.dim") == 2
    assert not CSEPass()(result.graph_module).modified
    m = symbolic_trace(Net())
    get_size_of_all_nodes(m, [torch.randn(3, 2), torch.randn(3, 2)])
    assert next(n for n in m.graph.nodes if n.name == "l1").size_bytes == (24, 48)
    m = symbolic_trace(lambda x: torch.relu(x).sum(1))
    out = FakeTensorProp(m).propagate(torch.randn(3, 2))
    assert out.shape == (3,) and next(n for n in m.graph.nodes if n.name == "relu").meta["val"].shape == (3, 2)


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.s = torch.nn.Linear(6, 6), torch.nn.Sequential(torch.nn.ReLU())

    def forward(self, x, *, k):
        return {"a": self.s(self.l(self.l(x))) + k, "b": torch.split(x, 1)[0]}


def test_exported_nodes_say_where_they_come_from():
    x, k = torch.randn(2, 6), torch.randn(6)
    m = torch.export.export(Twice(), (x,), {"k": k}).module()
    nodes = {n.name: n for n in m.graph.nodes}
    assert list(nodes)[:5] == ["l_weight", "l_bias", "x", "k", "_guards_fn"] and type(m).__mro__[1] is fx.GraphModule
    assert list(nodes["linear_1"].meta["nn_module_stack"].items())[1] == ("L__self__l@1", ("l", "torch.nn.modules.linear.Linear"))
    assert nodes["linear_1"].meta["torch_fn"][0] == "linear_2" and nodes["add"].meta["torch_fn"] == ("add_1", "method_descriptor.add")
    assert list(nodes["relu"].meta["nn_module_stack"].values())[-1] == ("s.0", "torch.nn.modules.activation.ReLU")
    assert isinstance(nodes["add"].meta["val"], torch._subclasses.FakeTensor) and nodes["add"].meta["val"].device == x.device
    assert nodes["add"].meta["tensor_meta"].shape == (2, 6) and [v.shape for v in nodes["split"].meta["val"]] == [(1, 6), (1, 6)]
    source, = nodes["l_weight"].meta["from_node"]
    assert (source.name, source.pass_name, source._action_string()) == ("p_l_weight", "ExportedProgram.module().unlift()", "create+replace")
    assert nodes["add"].meta["from_node"][0].pass_name == "ExportedProgram.module()"
    made = fx.GraphModule(m, m.graph)
    assert made.code == m.code and torch.equal(made(x, k=k)["a"], m(x, k=k)["a"])
    m.graph.eliminate_dead_code()
    assert "_guards_fn" in [n.name for n in m.graph.nodes]


def test_source_partitions():
    g = torch.export.export(Twice(), (torch.randn(2, 6),), {"k": torch.randn(6)}).module(check_guards=False).graph
    assert [[n.name for n in p.nodes] for p in get_source_partitions(g, ["linear"])["linear"]] == [["linear"], ["linear_1"]]
    linears, relus = (get_source_partitions(g, [kind])[kind] for kind in (torch.nn.Linear, torch.nn.ReLU))
    assert [[n.name for n in p.nodes] for p in linears] == [["linear"], ["linear_1"]]
    assert check_subgraphs_connected(linears[1], relus[0]) and not check_subgraphs_connected(linears[0], relus[0])
    assert get_source_partitions(g, ["linear"], filter_fn=lambda n: n.name != "linear")["linear"][0].input_nodes[0].name == "linear"


def test_constants_are_folded():
    from rushlight._inductor.constant_folding import constant_fold
    m = torch.export.export(Net(), (torch.randn(3, 2), torch.randn(3, 2))).module()
    w = next(n for n in m.graph.nodes if n.target == "w")
    with m.graph.inserting_after(w):
        double = m.graph.call_function(torch.ops.aten.mul.Tensor, (w, 2))
    next(n for n in m.graph.nodes if n.name == "mul").replace_input_with(w, double)
    m.recompile()
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    before = m(x, y)[0]
    constant_fold(m)
    assert torch.equal(m(x, y)[0], before) and torch.equal(m._frozen_param0, torch.full((2,), 2.0)) and "self.w" not in m.code


def test_configurations_of_quantization():
    from rushlight.ao.quantization import backend_config, get_default_qconfig_mapping, quantize_fx
    from rushlight.ao.quantization.backend_config import utils
    from rushlight.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig
    native = backend_config.get_native_backend_config()
    assert utils.get_pattern_to_dtype_configs(native)[torch.nn.Linear][1].is_dynamic
    assert utils.get_fuser_method_mapping(native)[(torch.nn.ReLU, (torch.nn.BatchNorm2d, torch.nn.Conv2d))](False, torch.nn.Conv2d(1, 1, 1).eval(),
                                                                                                            torch.nn.BatchNorm2d(1).eval(), torch.nn.ReLU().eval())
    assert torch.ao.nn.qat.Conv2d in utils.get_qat_module_classes(native)
    again = backend_config.BackendConfig.from_dict(native.to_dict())
    assert len(again.configs) == len(native.configs) and again.configs[0].dtype_configs == native.configs[0].dtype_configs
    with pytest.raises(NotImplementedError, match="tensorrt"):
        backend_config.get_tensorrt_backend_config()
    config = PrepareCustomConfig().set_non_traceable_module_names(["l2"]).set_preserved_attributes(["note"])
    assert PrepareCustomConfig.from_dict(config.to_dict()).to_dict() == config.to_dict() == {"non_traceable_module_name": ["l2"], "preserved_attributes": ["note"]}
    net = Net().eval()
    net.note = "kept"
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    prepared = quantize_fx.prepare_fx(net, get_default_qconfig_mapping(), (x, y), prepare_custom_config=config)
    prepared(x, y)
    converted = quantize_fx.convert_fx(prepared, convert_custom_config=ConvertCustomConfig().set_preserved_attributes(["note"]))
    assert prepared.note == converted.note == "kept" and torch.allclose(converted(x, y)[0], net(x, y)[0], atol=0.2)


def test_ordered_set():
    from rushlight.utils._ordered_set import OrderedSet
    s = OrderedSet([3, 1, 2, 1])
    s.add(0)
    s.discard(1)
    assert list(s) == [3, 2, 0] and list(s | [9]) == [3, 2, 0, 9] and list(s.difference([2])) == [3, 0] and s.issubset([0, 2, 3]) and s == {0, 2, 3}
