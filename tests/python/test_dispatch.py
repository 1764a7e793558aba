"""__torch_dispatch__: modes and tensor classes that see operations below autograd."""
import pytest

import rushlight as torch
from rushlight.utils._python_dispatch import TorchDispatchMode


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append(str(func))
        return func(*args, **(kwargs or {}))


def seen(f):
    with Log() as log:
        f()
    return log.calls


def test_modes_see_forms_as_they_are():
    x, y = torch.ones(3), torch.empty(3)
    assert seen(lambda: x + 1) == ["aten.add.Tensor"]
    assert seen(lambda: x.add_(1)) == ["aten.add_.Tensor"]
    assert seen(lambda: torch.add(x, 1, out=y)) == ["aten.add.out"]
    assert y.tolist() == [3.0, 3.0, 3.0]
    assert seen(lambda: x.view(3, 1)) == ["aten.view.default"]


def test_another_name_is_the_operation_itself():
    x = torch.ones(3)
    assert seen(lambda: torch.special.erf(x)) == ["aten.erf.default"]
    assert seen(lambda: torch.subtract(x, 1)) == ["aten.sub.Tensor"]
    assert seen(lambda: torch.greater(x, x)) == ["aten.gt.Tensor"]
    assert seen(lambda: torch.clip(x, 0, 1)) == ["aten.clamp.default"]


def test_nothing_is_seen_outside():
    log = Log()
    with log:
        pass
    torch.ones(2) + 1
    assert log.calls == []


def test_a_result_may_be_replaced_and_is_recorded():
    class Doubles(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.ops.aten.exp.default else out

    x = torch.zeros(2, requires_grad=True)
    with Doubles():
        y = x.exp()
    assert y.tolist() == [2.0, 2.0] and type(y.grad_fn).__name__ == "ExpBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_inner_modes_come_first_and_pass_on():
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(self.name)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        torch.ones(2).neg()
    assert order == ["inner", "outer"] * 2


def test_what_a_mode_raises_comes_out_and_the_stack_is_as_it_was():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError("no")

    x = torch.ones(2)
    with pytest.raises(KeyError, match="no"):
        with Refuses():
            x + 1
    assert (x + 1).tolist() == [2.0, 2.0] and torch._C._len_torch_dispatch_stack() == 0


def test_wrong_answers_are_errors():
    class Wrong(TorchDispatchMode):
        def __init__(self, answer):
            super().__init__()
            self.answer = answer

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return self.answer

    x = torch.ones(2)
    for answer, op in ((3, x.neg), (None, lambda: torch.max(x, 0)), ((x,), lambda: torch.max(x, 0)), (NotImplemented, x.neg)):
        with pytest.raises((TypeError, RuntimeError)):
            with Wrong(answer):
                op()
    with Wrong("whatever"):
        assert x.add_(1) is x


def test_views_of_leaves_keep_their_base():
    x = torch.ones(2, 2, requires_grad=True)
    with Log():
        y = x.view(4)
    assert y._base is x and y.grad_fn is not None


def test_backward_is_seen():
    x = torch.ones(2, requires_grad=True)
    with Log() as log:
        y = x.exp().sum()
        n = len(log.calls)
        y.backward()
    assert "aten.mul.Tensor" in log.calls[n:]


# --- tensors without data

def llama_like(d, layers, hidden):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.gate, self.up, self.down = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False), nn.Linear(hidden, d, bias=False)

        def forward(self, x):
            q, k, v = (t.view(1, -1, d // 128, 128).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
            h = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(h.transpose(1, 2).reshape(x.shape))
            return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    return nn.Sequential(nn.Embedding(32000, d), *(Layer() for _ in range(layers)), nn.Linear(d, 32000, bias=False))


def test_seven_billion_fake_parameters():
    from rushlight._subclasses import FakeTensor, FakeTensorMode
    with FakeTensorMode():
        net = llama_like(4096, 32, 11008)
        assert sum(p.numel() for p in net.parameters()) > 6.5e9
        loss = net(torch.zeros(1, 512, dtype=torch.long)).float().sum()
        loss.backward()
    grad = net[-1].weight.grad
    assert type(grad) is FakeTensor and grad.shape == (32000, 4096) and grad.device.type == "cpu"


def test_fake_tensors_change_their_geometry():
    from rushlight._subclasses import FakeTensorMode
    with FakeTensorMode():
        x = torch.empty(2, 3)
        assert x.t_() is x and (x.shape, x.stride()) == ((3, 2), (1, 3))
        assert x.unsqueeze_(0).shape == (1, 3, 2) and x.squeeze_().shape == (3, 2) and x.resize_(4, 5).shape == (4, 5) and x.stride() == (5, 1)
        y = torch.zeros(3, 2, requires_grad=True)
        z = (y * 2).swapaxes_(0, 1)
        (z * torch.ones(2, 3)).sum().backward()
        assert y.grad.shape == (3, 2) and z.shape == (2, 3)
    z = torch.ones(2, 3, requires_grad=True) * 2
    assert seen(lambda: z.transpose_(0, 1).sum())[0] == "aten.transpose_.default" and z.shape == (3, 2) and z._version == 1


@pytest.mark.parametrize("options", [dict(), dict(bidirectional=True, num_layers=2, batch_first=True), dict(bias=False)])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_give_the_same_when_they_are_seen(kind, options):
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        net, x = getattr(torch.nn, kind)(3, 4, **options).to(dtype), torch.randn(5, 5, 3, dtype=dtype, requires_grad=True)

        def results():
            out, h = net(x)
            leaves = [x, *net.parameters()]
            return [out, *(h if kind == "LSTM" else [h]), *torch.autograd.grad((out * out.detach().cos()).sum() + sum(t.sum() for t in h), leaves)]

        plain, watched = results(), []
        seen(lambda: watched.extend(results()))
        assert len(plain) == len(watched)
        for a, b in zip(plain, watched):
            torch.testing.assert_close(a, b)


def test_fake_tensors_have_no_data():
    from rushlight._subclasses import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
    mode = FakeTensorMode()
    x = mode.from_tensor(torch.ones(2, 3))
    assert mode.from_tensor(x) is x and repr(x) == "FakeTensor(..., size=(2, 3))"
    y = x.t()[1:]
    assert y.stride() == (1, 3) and y.storage_offset() == 1 and y._is_view()
    x.add_(1)
    assert y._version == x._version > 0
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.numpy()
    for ask in (x.sum().item, lambda: bool(x.sum() > 0), lambda: float(x.sum())):
        with pytest.raises(DataDependentOutputException):
            ask()
    with pytest.raises(DynamicOutputShapeException):
        x.nonzero()
    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
        x + torch.ones(2, 3)
    with pytest.raises(RuntimeError):
        x @ x
    with mode:
        z = torch.ones(2, dtype=torch.float64) + torch.tensor([1.0, 2.0])
    assert z.dtype == torch.float64 and type(z) is type(x)


# --- graphs of operations

def lines(f, *args):
    from rushlight.fx.experimental.proxy_tensor import make_fx
    graph = make_fx(f)(*args)
    real, again = f(*args), graph(*args)
    for a, b in zip(torch.utils._pytree.tree_leaves(real), torch.utils._pytree.tree_leaves(again)):
        assert torch.equal(a, b)
    return [line.strip().partition(";")[0] for line in graph.code.strip().split("\n")[1:]]


X = torch.arange(6.0).view(2, 3)
L = torch.nn.Linear(3, 2)
W = torch.ones(2, 3, requires_grad=True)


def changed_in_place(x):
    y = x.clone()
    y.add_(1)
    return y.mul_(2)


def with_gradient(x, w):
    return torch.autograd.grad(torch.nn.functional.linear(x, w).relu().sum(), w)


A = "torch.ops.aten."
# What PyTorch's make_fx writes for these.
GRAPHS = [
    (lambda x: x * 2 + 1, [X], ["mul = " + A + "mul.Tensor(x_1, 2)", "add = " + A + "add.Tensor(mul, 1)", "return add"]),
    (lambda x: torch.softmax(x, -1), [X], ["_softmax = " + A + "_softmax.default(x_1, -1, False)", "return _softmax"]),
    (lambda x: L(x), [X], ["_param_constant0 = self._param_constant0", "t = " + A + "t.default(_param_constant0)",
                           "_param_constant1 = self._param_constant1", "addmm = " + A + "addmm.default(_param_constant1, x_1, t)", "return addmm"]),
    (changed_in_place, [X], ["clone = " + A + "clone.default(x_1)", "add_ = " + A + "add_.Tensor(clone, 1)",
                             "mul_ = " + A + "mul_.Tensor(add_, 2)", "return mul_"]),
    (lambda x: x.max(dim=1), [X], ["max_1 = " + A + "max.dim(x_1, 1)", "getitem = max_1[0]", "getitem_1 = max_1[1]", "return (getitem, getitem_1)"]),
    (lambda x: {"a": x + 1, "b": [x * 2]}, [X], ["add = " + A + "add.Tensor(x_1, 1)", "mul = " + A + "mul.Tensor(x_1, 2)", "return {'a': add, 'b': [mul]}"]),
    (lambda x: x + torch.tensor([1.0, 2.0, 3.0]), [X], ["_tensor_constant0 = self._tensor_constant0",
     "lift_fresh_copy = " + A + "lift_fresh_copy.default(_tensor_constant0)", "add = " + A + "add.Tensor(x_1, lift_fresh_copy)", "return add"]),
    (lambda x: x.t().reshape(6), [X], ["t = " + A + "t.default(x_1)", "clone = " + A + "clone.default(t, memory_format = torch.contiguous_format)",
                                       "_unsafe_view = " + A + "_unsafe_view.default(clone, [6])", "return _unsafe_view"]),
    (lambda x: torch.cat([x, x]), [X], ["cat = " + A + "cat.default([x_1, x_1])", "return cat"]),
    (lambda x: x[0] + x[:, 1].sum(), [X], ["select = " + A + "select.int(x_1, 0, 0)", "select_1 = " + A + "select.int(x_1, 1, 1)",
                                           "sum_1 = " + A + "sum.default(select_1)", "add = " + A + "add.Tensor(select, sum_1)", "return add"]),
]


@pytest.mark.parametrize("number", range(len(GRAPHS)))
def test_graphs(number):
    f, args, wanted = GRAPHS[number]
    assert lines(f, *args) == wanted


def test_graphs_hold_derivatives():
    ops = [line.split("aten.")[1].split("(")[0] for line in lines(with_gradient, X, W) if "aten." in line]
    assert ops == ["t.default", "mm.default", "relu.default", "detach.default", "sum.default", "ones_like.default", "expand.default", "detach.default",
                   "threshold_backward.default", "t.default", "mm.default", "t.default", "t.default"]


def test_graphs_of_lists_and_without_data():
    from rushlight.fx.experimental.proxy_tensor import make_fx
    graph = make_fx(lambda xs: {"sum": xs[0] + xs[1]})([X, X + 1])
    assert torch.equal(graph([X, 2 * X])["sum"], 3 * X)
    graph = make_fx(lambda x: x.exp() @ x.t(), tracing_mode="fake")(X)
    assert torch.equal(graph(X), X.exp() @ X.t())
    with pytest.raises(RuntimeError, match="get value out of a tracing tensor"):
        make_fx(lambda x: x if x.sum() > 0 else -x)(X)


def test_module_tracker_by_the_names_that_packages_override():
    from torch.utils.module_tracker import ModuleTracker
    seen = []

    class Probe(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return g

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.Linear(3, 3))

        def forward(self, x):
            return Probe.apply(self.b(Probe.apply(self.a(x))))

    class Named(ModuleTracker):
        entered = ()

        def _get_append_fn(self, module, name, is_bw):
            enter = super()._get_append_fn(module, name, is_bw)

            def noted(*args):
                self.entered += ((name, is_bw),)
                enter()
            return noted
    tracker = Named()
    with tracker:
        for k in range(2):
            Net()(torch.ones(2, 3)).sum().backward()
            assert tracker.parents == {"Global"} and len(tracker._hooks) > 0
    assert seen == [(["Global", "Net"], True)] * 4 and not tracker._hooks
    assert [name for name, is_bw in tracker.entered if not is_bw] == ["Net", "Net.a", "Net.b", "Net.b.0"] * 2
    assert ("Net", True) in tracker.entered


def test_flops_by_module():
    from rushlight.utils.flop_counter import FlopCounterMode
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    with FlopCounterMode(display=False) as counter:
        net(torch.randn(2, 1, 8, 8)).sum().backward()
    by_name = {name: {str(op): n for op, n in counts.items()} for name, counts in counter.get_flop_counts().items()}
    assert by_name["Sequential.0"] == {"aten.convolution": 5184, "aten.convolution_backward": 5184}
    assert by_name["Global"] == {"aten.convolution": 5184, "aten.addmm": 5760, "aten.mm": 11520, "aten.convolution_backward": 5184}
    up, y = nn.ConvTranspose2d(2, 4, 3, stride=2, groups=2), torch.randn(1, 2, 5, 5, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        up(y).sum().backward()
    assert counter.get_total_flops() == 7200


# --- operators of programs

def test_operators_of_programs_are_seen():
    from rushlight._subclasses import FakeTensorMode

    @torch.library.custom_op("seen::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))
    twice.register_autograd(lambda ctx, g: g * 2)
    x = torch.ones(3, requires_grad=True)
    calls = seen(lambda: twice(x).sum().backward())
    assert calls[0] == "seen.twice.default" and calls.count("seen.twice.default") == 1 and x.grad.tolist() == [2.0] * 3
    with FakeTensorMode() as mode:
        y = twice(torch.ones(4, 5))
    assert mode.is_our_fake(y) and y.shape == (4, 5)
    assert lines(lambda v: twice(v) + 1, X)[0] == "twice = torch.ops.seen.twice.default(v_1)"


# --- kernels of programs for operators of the library

def test_arguments_that_are_written_to_without_a_name():
    schema = torch._C.parse_schema("ns::f.out(Tensor A, Tensor! out, Tensor[]! l, Tensor(a! -> *) q) -> (Tensor!, Tensor)")
    assert str(schema) == "ns::f.out(Tensor A, Tensor($0! -> ) out, Tensor($1! -> )[] l, Tensor(a! -> *) q) -> (Tensor($2! -> ), Tensor)"
    assert [a.is_write for a in schema.arguments] == [False, True, True, True] and str(torch._C.parse_schema(str(schema))) == str(schema)
    for text in ("f(Tensor!) -> ()", "f(Tensor?! a) -> ()", "f(Tensor ) -> ()", "f(Tensor a) -> (Tensor =)"):
        with pytest.raises(RuntimeError, match="expected ident"):
            torch._C.parse_schema(text)
    lib = torch.library.Library("unnamed", "DEF")
    lib.define("plus(Tensor x, Tensor! out) -> Tensor!")
    lib.impl("plus", lambda x, out: out.copy_(x + 1), "CPU")
    out = torch.zeros(2)
    assert torch.ops.unnamed.plus(torch.ones(2), out) is out and out.tolist() == [2, 2] and torch.ops.unnamed.plus.default._schema.is_mutable
    lib._destroy()


def test_what_the_library_has_is_said_by_values():
    for name in "cuda cudnn magma mkldnn mps xpu".split():
        assert type(getattr(torch._C, "_has_" + name)) is bool


def test_kernels_by_dispatch_key():
    calls, x = [], torch.ones(2)

    def sevens(x):
        calls.append("sin")
        return torch.full_like(x, 7)

    with torch.library._scoped_library("aten", "IMPL") as lib:
        lib.impl("sin", sevens, "CPU")
        lib.impl("add.Tensor", lambda a, b, *, alpha=1: torch.ops.aten.sub.Tensor(a, b), "CPU")
        lib.impl("cos", lambda x: torch.empty(5, device="meta"), "Meta")
        lib.impl("matmul", lambda a, b: a.new_full((3,), 4.0), "CompositeImplicitAutograd")
        lib.impl("tan", lambda x: x * 9, "CompositeImplicitAutograd")     # it has kernels: they come first
        lib.impl("addmm", lambda b, x, w, **kw: b.new_full((2, 2), 5.0), "CompositeExplicitAutograd")
        lib.impl(torch.ops.aten.tanh.default, sevens, "CPU")
        assert x.sin().tolist() == [7, 7] == torch.ops.aten.sin.default(x).tolist() == x.tanh().tolist() and len(calls) == 3
        assert torch.allclose(x.clone().sin_(), torch.tensor(0.8414709848)) and len(calls) == 3     # in place is another operator
        y = torch.zeros(2, requires_grad=True)
        torch.sin(y).sum().backward()
        assert y.grad.tolist() == [1, 1]            # the derivative is the library's
        assert (x + x).tolist() == [0, 0] and (x + 3).tolist() == [-2, -2] and torch.cos(x.to("meta")).shape == (5,)
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).tolist() == [4, 4, 4] and torch.nn.Linear(3, 2)(torch.ones(2, 3)).tolist() == [[5, 5], [5, 5]]
        assert torch.allclose(x.tan(), torch.tensor(1.5574077246))
        with pytest.raises(RuntimeError, match="could not parse dispatch key"):
            lib.impl("exp", sevens, "Nowhere")
    assert torch.sin(torch.zeros(2)).tolist() == [0, 0] and (x + x).tolist() == [2, 2] and (torch.ones(2, 2) @ torch.ones(2, 2)).shape == (2, 2)


def test_kernels_above_autograd():
    class Five(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return torch.exp(x)

        @staticmethod
        def backward(ctx, g):
            return g * 5

    lib = torch.library.Library("aten", "IMPL")
    lib.impl("exp", Five.apply, "Autograd")
    x = torch.zeros(2, requires_grad=True)
    x.exp().sum().backward()
    assert x.grad.tolist() == [5, 5] and seen(lambda: x.detach().exp())[-1] == "aten.exp.default"

    def fails(x):
        raise KeyError("of the kernel")

    lib.impl("neg", fails, "CPU")
    with pytest.raises(KeyError, match="of the kernel"):
        -torch.ones(1)
    del lib                                         # with it go its kernels
    assert (-torch.ones(1)).item() == -1 and torch.autograd.grad(x.exp().sum(), x)[0].tolist() == [1, 1]


def test_what_can_be_a_fallback():
    everywhere, aten = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    for library, f, key, error, words in [(everywhere, print, "", AssertionError, "must not be empty"), (aten, print, "CPU", RuntimeError, 'global namespace "_" but it is aten'),
                                          (everywhere, 3, "CPU", TypeError, "callable"), (everywhere, print, "Nobody", RuntimeError, "could not parse dispatch key: Nobody"),
                                          (everywhere, print, "Meta", RuntimeError, "multiple backend fallbacks for the same dispatch key Meta"),
                                          (everywhere, print, "Tracer", NotImplementedError, "dispatch key Tracer")]:
        with pytest.raises(error, match=words):
            library.fallback(f, key)
    mine = torch.library.Library("fallen", "DEF")
    mine.define("back(Tensor x) -> Tensor")
    everywhere.fallback(torch.library.fallthrough_kernel, "AutogradCPU")
    everywhere.fallback(lambda op, x: x + len(str(op)), "CPU")
    assert torch.ops.fallen.back(torch.zeros(1)).item() == len("fallen.back.default")
    assert torch.full((), 2.0).sqrt().square().round().item() == 2      # of those that have a kernel nobody asks
    with pytest.raises(RuntimeError, match="previous registration registered at .*test_dispatch.py:"):
        torch.library.Library("_", "IMPL").fallback(print, "CPU")
    everywhere._destroy()
    with pytest.raises(NotImplementedError, match="no kernel registered"):
        torch.ops.fallen.back(torch.zeros(1))


def test_a_kernel_that_was_asked_for_stays_what_it_was():
    x = torch.ones(2)
    own = torch.library.get_kernel("aten::add.Tensor", "CPU")
    lib = torch.library.Library("aten", "IMPL")

    def doubled(keys, a, b, alpha=1):
        return own.call_boxed(keys, a, b, alpha=alpha) * 2

    lib.impl("add.Tensor", doubled, "CPU", with_keyset=True)
    try:
        assert (x + x).tolist() == [4.0, 4.0]
        later = torch.library.get_kernel("aten::add.Tensor", "CPU")
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        assert later.call_boxed(keys, x, x).tolist() == [4.0, 4.0] and own.call_boxed(keys, x, x).tolist() == [2.0, 2.0]
        with pytest.raises(RuntimeError, match="size"):
            own.call_boxed(keys, x, torch.ones(3))
    finally:
        lib._destroy()
    assert (x + x).tolist() == [2.0, 2.0]


def test_a_kernel_of_an_autocast_key_is_asked_first_and_only_under_autocast():
    seen, keys = [], torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def mine(x):
        seen.append(x.dtype)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return torch.ops.aten.sigmoid(x.float()).to(x.dtype)
    library = torch.library.Library("aten", "IMPL")
    library.impl("sigmoid", mine, "AutocastCPU")
    library.impl("sigmoid", mine, "AutocastCUDA")
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    torch.sigmoid(x)
    assert not seen
    with torch.autocast("cpu", torch.bfloat16):
        torch.sigmoid(x).sum().backward()
        assert torch.is_autocast_enabled("cpu")
    assert seen == [torch.bfloat16] and x.grad.tolist() == [0.1962890625] * 2
    library._destroy()
    with torch.autocast("cpu", torch.bfloat16):
        torch.sigmoid(x)
    assert len(seen) == 1


def test_kernels_of_other_namespaces_open_no_operation_of_ours():
    x = torch.ones(2)

    def seen():
        with torch.autograd.profiler.profile() as p:
            torch.where(x > 0, x, 0.0)
        return [e.name for e in p.function_events]
    before, library, aten = seen(), torch.library.Library("elsewhere", "DEF"), torch.library.Library("aten", "IMPL")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert torch.ops.elsewhere.twice(x).tolist() == [2.0, 2.0] and seen() == before
    aten.impl("where.self", lambda condition, a, b: a + 7, "CPU")
    assert seen() != before  # this one is reached by the kernel of where() with a number
    aten._destroy()
    assert seen() == before


def test_operations_give_the_same_while_one_has_a_kernel_of_a_program():
    def answers():
        a = torch.full((2, 2), 1.5, dtype=torch.float64, requires_grad=True)
        b = (a * 1).ldexp_(torch.ones(2, 2, dtype=torch.float64))
        power = torch.linalg.matrix_power(a, 0)
        c = torch.tensor([1 + 2j]).conj()
        return [torch.autograd.grad(x.sum(), a)[0].tolist() for x in (b, power)] + [c.imag.tolist(), torch.isclose(c == c, c == c).tolist()]
    before, library = answers(), torch.library.Library("aten", "IMPL")
    library.impl("_cdist_backward", lambda *a: None, "Meta")  # every call is asked about now
    assert answers() == before
    for call in (lambda: torch.isclose(torch.ones(1), torch.ones(1), rtol=-1.0), lambda: torch.max_pool1d(torch.tensor(1.0), 1)):
        with pytest.raises(RuntimeError):
            call()
    library._destroy()


class Plain(torch.Tensor):
    """Its operations run as those of plain tensors."""
    called = []

    @staticmethod
    def __new__(cls, elem):
        return torch.Tensor._make_subclass(cls, elem, elem.requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.called.append(str(func))
        return super().__torch_dispatch__(func, types, list(args), kwargs)


def test_the_default_runs_the_operation():
    Plain.called.clear()
    x = torch.ones(2, requires_grad=True)
    y = Plain(x) + Plain(x)
    assert y.tolist() == [2, 2] and type(y) is torch.Tensor and Plain.called == ["aten.add.Tensor"]


def test_set_is_seen():
    Plain.called.clear()
    x = Plain(torch.ones(2))
    x.set_(torch.zeros(3))
    x.set_()
    assert Plain.called == ["aten.set_.source_Tensor", "aten.set_.default"] and type(x) is Plain and x.shape == (0,)


def test_a_context_in_which_nobody_is_asked():
    class Own(Plain):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            with torch._C._DisableTorchDispatch():
                return func(*args, **(kwargs or {}))

    assert Own(torch.ones(2)).exp().neg().shape == (2,)
    with Log() as log, torch._C._DisableTorchDispatch():
        torch.ones(2) + 1
    assert log.calls == []


def test_autograd_where_the_operation_was_called():
    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, elem):
            self = torch.Tensor._make_wrapper_subclass(cls, elem.shape, elem.stride(), 0, None, elem.dtype)
            self.elem = elem
            return self

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            outside = torch.is_grad_enabled()
            with torch.overrides.enable_reentrant_dispatch():
                return Wrapper(func(self.elem, *args[1:])), outside

    class Inner(Wrapper):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return super().__torch_dispatch__(func, types, args, kwargs)[0]

    x = torch.ones(2, requires_grad=True)
    y = Inner(x) + 2
    assert not y.requires_grad and y.elem.grad_fn is not None
    y.elem.sum().backward()
    assert x.grad.tolist() == [1, 1]
    with torch.no_grad():
        assert (Inner(x) + 2).elem.grad_fn is None
        with torch.overrides.enable_reentrant_dispatch():
            assert not torch.is_grad_enabled()


@pytest.mark.parametrize("answer, call, message", [
    ("arf", lambda x: x.neg(), "Unable to cast arf to Tensor"), (3, lambda x: x.sort(), "Object of type 'int' is not an instance of 'sequence'"),
    ("arf", lambda x: x.item(), "Cannot cast arf to number"), (None, lambda x: x.item(), "Cannot cast None to number"), (["no"], lambda x: x.split(1), "Unable to cast no to Tensor")])
def test_answers_of_another_kind(answer, call, message):
    class Answers(Plain):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return answer

    with pytest.raises(RuntimeError, match=message):
        call(Answers(torch.zeros(1)))


def test_nobody_answers():
    class Silent(Plain):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Quiet(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    x = Silent(torch.ones(1))
    with pytest.raises(TypeError, match=r"(?s)failed for 'torch._ops.aten.neg.default'; all.*  - mode object <.*Quiet.*  - tensor subclass <.*Silent"):
        with Quiet():
            x.neg()


def test_a_mode_is_not_asked_as_a_class():
    class Mode(TorchDispatchMode):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args)

    x = torch.ones(1)
    with pytest.raises(RuntimeError, match="as a classmethod is not supported, please make it a plain method"):
        with Mode():
            x.neg()


def test_a_namespace_of_a_destroyed_library_is_free():
    gone = torch.library.Library("rl_sole", "DEF")
    gone._destroy()
    again = torch.library.Library("rl_sole", "DEF")
    del gone
    with pytest.raises(RuntimeError, match="Only a single TORCH_LIBRARY"):
        torch.library.Library("rl_sole", "DEF")
    again._destroy()


def test_operators_refuse_with_a_runtime_error():
    """What torch.neg answers with a TypeError is a RuntimeError of torch.ops."""
    for call in lambda: torch.ops.aten.neg("a"), lambda: torch.ops.aten.neg(), lambda: torch.ops.aten.add.Tensor(1, 2, 3, 4), lambda: torch.ops.aten.neg(torch.ones(1), other=2):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(RuntimeError, match=r"aten::neg\(\) Expected a value of type 'Tensor' for argument 'self' but instead found type 'str'"):
        torch.ops.aten.neg.default("a")
    with pytest.raises(RuntimeError, match="Overloaded torch operator invoked from Python failed to match any schema"):
        torch.ops.aten.sum(torch.ones(1), [1.5])
    with pytest.raises(TypeError):
        torch.neg("a")


def test_operators_without_tensors_go_by_their_device():
    @torch.library.custom_op("seen::fresh", mutates_args=())
    def fresh(n: int, device: torch.device) -> torch.Tensor:
        return torch.ones(n, device=device)

    assert fresh(2, "cpu").tolist() == [1.0, 1.0]
    fresh.register_kernel("cpu")(lambda n, device: torch.zeros(n))
    assert fresh(2, "cpu").tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="fresh does not have a kernel registered for cuda"):
        fresh(2, "cuda")
    fresh.register_fake(lambda n, device: torch.empty(n, device=device))
    with torch._subclasses.fake_tensor.FakeTensorMode():
        assert fresh(3, "cuda").device == torch.device("cuda:0")
    for types in ("cpu", ["cuda"]):
        with pytest.raises(ValueError, match="Functions without tensor inputs are required to have a `device: torch.device` argument"):
            @torch.library.custom_op("seen::none", mutates_args=(), device_types=types)
            def none(n: int, dev: torch.device) -> torch.Tensor:
                return torch.ones(n)


def test_registrations_are_checked_at_once():
    with torch.library._scoped_library("seen2", "FRAGMENT") as lib:
        lib.define("foo(Tensor x, *, Tensor[] y) -> Tensor")
        with pytest.raises(NotImplementedError, match="register_autograd with kwarg-only Tensor args"):
            torch.library.register_autograd("seen2::foo", lambda ctx, g: g)
        with pytest.raises(NotImplementedError, match="register_vmap with kwarg-only Tensor args"):
            torch.library.register_vmap("seen2::foo", lambda info, dims, x, *, y: (x, 0))
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
            torch.library.impl("seen2::foo", "something")
        with pytest.raises(RuntimeError, match="Expected device_type string to not have a device index; got cpu:0"):
            torch.library.impl("seen2::foo", "cpu:0")


def test_composites_decompose():
    x, y = torch.randn(2, 3), torch.randn(5, 3)
    assert torch.equal(torch.ops.aten.linear.default.decompose(x, y), torch.nn.functional.linear(x, y))
    assert torch.ops.aten.mm.default.decompose(x, y.t()) is NotImplemented
    key = torch._C.DispatchKey
    assert torch.ops.aten.linear.default.has_kernel_for_dispatch_key(key.CompositeImplicitAutograd)
    assert not torch.ops.aten.linear.default.has_kernel_for_dispatch_key(key.CPU)
    assert torch.ops.aten.mm.default.has_kernel_for_dispatch_key(key.CPU)
    assert not torch.ops.aten.mm.default.has_kernel_for_dispatch_key(key.CompositeImplicitAutograd)


def test_nobody_reads_the_memory_of_tensors_that_stand_for_others():
    import numpy as np
    from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from rushlight.func import functionalize
    mode = FakeTensorMode()
    x, state = mode.from_tensor(torch.ones(2)), mode.from_tensor(torch.zeros(5056, dtype=torch.uint8))
    for f in (memoryview, bytes, np.asarray, np.array, np.from_dlpack, lambda t: torch.frombuffer(t, dtype=torch.float32), lambda t: t.apply_(abs), lambda t: t.map_(t, max),
              lambda t: torch.ones(2).map_(t, max), lambda t: torch.Generator().set_state(state)):
        with pytest.raises((RuntimeError, BufferError, AssertionError, TypeError, ValueError)):
            f(x)
    for y in (torch.tensor(x), torch.tensor(x, dtype=torch.float64), torch.ones(1).new_tensor(x)):
        assert type(y) is FakeTensor and y.shape == (2,) and not y.requires_grad
    assert torch.tensor(x, dtype=torch.float64).dtype == torch.float64
    with torch._C._DisableTorchDispatch():
        for f in (lambda: x + 1, lambda: x.sum(), lambda: x.fill_(1), lambda: torch.ones(2).copy_(x), lambda: torch.cat([torch.ones(1), x]), x.detach,
                  lambda: torch.add(torch.ones(2), 1, out=x), lambda: torch._foreach_add_([x], [torch.ones(2)]), lambda: x.data, lambda: float(x.sum()), lambda: torch.ones(3)[x.long()]):
            with pytest.raises((NotImplementedError, RuntimeError)):
                f()
        views = [x.view(1, 2), x[:1], x[0], x.expand(3, 2), x.unbind(), x.split(1), x.chunk(2), x.as_strided((1,), (1,)), x.view(torch.int32), torch.ones(2).view_as(x), x.unfold(0, 1, 1)]
        for v in (v for view in views for v in (view if type(view) in (tuple, list) else [view])):
            if v.device.type != "meta":     # nobody answers for these
                assert v.tolist() == [1.0, 1.0]
            else:
                assert (v + 1).is_meta and torch.stack([v, v]).is_meta and v.clone().is_meta and "meta" in repr(v)
                with pytest.raises((NotImplementedError, RuntimeError)):
                    v.tolist()
    seen = []

    def inside(t):
        y = t * 2
        seen.extend((y.tolist(), repr(y[0]), torch.tensor([v for v in y]).tolist(), torch.tensor(y).tolist(), y.data.tolist()))
        for f in (memoryview, np.asarray, lambda t: t.apply_(abs)):
            with pytest.raises((RuntimeError, BufferError, TypeError)):
                f(y)
        return y

    functionalize(inside)(torch.tensor([1.0, 2.0]))
    assert seen == [[2.0, 4.0], "FunctionalTensor(tensor(2.))", [2.0, 4.0], [2.0, 4.0], [2.0, 4.0]]
