"""torch.jit.script: functions, classes and modules become programs that compute what Python computes."""
import copy
import enum
import io
import math
import pickletools
import warnings
import zipfile
from collections import OrderedDict
from typing import Dict, Final, List, NamedTuple, Optional, Tuple

import pytest
import rushlight as torch
from rushlight import Tensor, nn
from rushlight.nn import functional as F


def same(a, b):
    if isinstance(a, Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, atol=1e-6, equal_nan=True)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    else:
        assert a == b and type(a) is type(b)


def reloaded(program):
    out = io.BytesIO()
    torch.jit.save(program, out)
    out.seek(0)
    return torch.jit.load(out)


class Pair(NamedTuple):
    a: Tensor
    n: int


class Block(nn.Module):
    expansion: int = 2

    def __init__(self, width, down):
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.down = nn.Conv2d(width, width, 1) if down else None
        self.function = F.gelu
        self.names: List[str] = []

    def forward(self, x):
        rest = x
        if self.down is not None:
            rest = self.down(x)
        return self.function(self.act(self.norm(self.conv(x))) + rest) * self.expansion


class Net(nn.Module):
    __constants__ = ["times"]

    def __init__(self):
        super().__init__()
        self.times, self.scale, self.training_only = 3, 2.5, None
        self.blocks = nn.ModuleList([Block(4, i % 2 == 0) for i in range(3)])
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool2d(2))
        self.heads = nn.ModuleDict({"x": nn.Linear(4, 2), "y": nn.Linear(4, 5)})
        self.drop = nn.Dropout(0.1)
        self.register_buffer("count", torch.zeros(1))
        self.rnn = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2)

    def helper(self, x, k: int = 2) -> Pair:
        return Pair(x * k, k)

    @property
    def factor(self) -> float:
        return self.scale * 2

    @torch.jit.export
    def other(self, x: List[int]) -> Dict[str, int]:
        d: Dict[str, int] = {}
        for i, v in enumerate(x):
            d[f"k{i}"] = v * self.times
        return d

    @torch.jit.unused
    def never(self, x):
        return what_is_not_there(x)  # noqa: F821

    def forward(self, x: Tensor, flag: bool = True, y: Optional[Tensor] = None) -> Tuple[Tensor, Dict[str, Tensor]]:
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            x = block(x) + i
        if not torch.jit.is_scripting():
            self.seen = True
        with torch.no_grad():
            self.count += 1
        pair = self.helper(x, k=3)
        x = self.drop(pair.a) / pair.n * self.factor
        out: Dict[str, Tensor] = {}
        mean = x.mean([2, 3])
        for name, head in self.heads.items():
            out[name] = head(mean)
        if y is not None:
            out["y"] = out["y"] + y
        elif flag:
            out["z"] = F.softmax(mean, dim=-1)
        rows = x.flatten(2).transpose(1, 2)
        h, (a, c) = self.rnn(rows)
        out["seen"] = self.attention(rows, rows, rows)[0] + self.encoder(rows)
        out["h"] = torch.cat([h, a.sum().expand_as(h)[..., :2]], dim=-1) * self.scale
        parts = [F.relu(v) for v in torch.unbind(x, dim=1)]
        while len(parts) > 2:
            parts.pop()
        n = 0
        for k in range(10):
            if k == 3:
                continue
            if k > 6:
                break
            n += k
        assert n > 0, "never"
        return torch.stack(parts).sum(0) + n, out


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    net = Net().eval()
    return net, torch.jit.script(net)


def test_a_module_computes_what_python_computes(net):
    net, program = net
    x = torch.randn(2, 1, 12, 12)
    assert isinstance(program, torch.jit.RecursiveScriptModule) and program.original_name == "Net"
    for kwargs in ({}, {"flag": False}, {"y": torch.ones(5)}):
        same(net(x, **kwargs), program(x, **kwargs))
    same(net.other([1, 2]), program.other([1, 2]))
    assert dict(program.named_parameters()).keys() == dict(net.named_parameters()).keys() and program.count is net.count
    assert "self.blocks" in program.code and program.helper(x, 4).n == 4


def test_a_scripted_module_is_saved_and_trained(net):
    net, program = net
    again, x = reloaded(program), torch.randn(1, 1, 12, 12)
    same(net(x), again(x))
    again.train()
    again(x)[0].sum().backward()
    assert all(p.grad is not None for n, p in again.named_parameters() if "blocks" in n)


def test_nets_with_the_same_text_share_a_class():
    program = torch.jit.script(nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2, bias=False)]))
    kinds = [m._c.type for m in program]
    assert kinds[0] == kinds[1] != kinds[2]


class Sum:
    def __init__(self, start: int):
        self.total = start
        self.items: List[int] = []

    def add(self, x: int) -> int:
        self.total += x
        self.items.append(x)
        return self.total


def uses_a_class(n: int) -> Tuple[int, List[int]]:
    s = Sum(2)
    for i in range(n):
        s.add(i)
    return s.total + len(s.items), s.items


def numbers(x: float, n: int) -> Tuple[float, float, str, bool, float]:
    return math.sqrt(x) + math.pi, math.floor(x) / n, f"{n} and {x}", 0 < n < 3, math.inf


def shapes(x: Tensor, n: int):
    b, c = x.shape
    y = x.view(b, 1, c).permute(2, 0, 1).reshape(-1, n).to(torch.float64)
    size = list(x.size())
    size[0] = 2
    return torch.zeros(size, dtype=torch.int64), y, torch.einsum("ij,ij->i", x, x), x.new_zeros(2, 3), F.max_pool2d(x[None], 2, stride=1)


def by_comment(x, n=2, names=None):
    # type: (Tensor, int, Optional[List[str]]) -> List[Tensor]
    out = []  # type: List[Tensor]
    for i in range(n):
        out.append(x + i)
    if names is not None and len(names) > 1:
        out.append(x * len(names))
    return out


SHIFT = 3


def calls_others(x):
    def_ = by_comment(x, SHIFT)
    return scripted(def_[-1]) - 1 if x.sum() > 0 else torch.jit.annotate(Tensor, -x)


def twice(x):
    return x + x


@torch.jit.script
def scripted(x, k: float = 0.5):
    """A text of its own."""
    return twice(x) * k


def kinds(x: List[Tensor], d: Dict[str, int]):
    n = 0
    for k, v in d.items():
        n += v if k.startswith("a") else 0
    if torch.jit.isinstance(x, List[Tensor]) and "a" in d:
        del d["a"]
    a, *rest = [1, 2, 3]
    return x[0] if n else x[-1], n, {k: v for k, v in d.items()}, torch.cat([t[:, None] for t in x], 1)


@pytest.mark.parametrize("f, args", [(uses_a_class, (4,)), (numbers, (2.5, 2)), (shapes, (torch.ones(2, 3), 3)), (by_comment, (torch.ones(2),)), (by_comment, (torch.ones(2), 1, ["a", "b"])),
                                     (calls_others, (torch.ones(2),)), (calls_others, (-torch.ones(2),)), (kinds, ([torch.ones(2), torch.zeros(2)], {"ab": 2, "b": 3}))])
def test_functions_compute_what_python_computes(f, args):
    program = torch.jit.script(f)
    assert isinstance(program, torch.jit.ScriptFunction)
    same(f(*args), program(*args))
    if f is not kinds:
        same(f(*args), reloaded(program)(*args))


def raises(x: Tensor, n: int) -> Tensor:
    if n > 3:
        raise ValueError(f"n is {n}")
    return x


def test_what_a_program_raises_is_raised():
    program = torch.jit.script(raises)
    assert program(torch.ones(1), 3) == 1
    with pytest.raises(torch.jit.Error, match="n is 5"):
        program(torch.ones(1), 5)


def test_a_layer_with_overloads_takes_both():
    class Dense(nn.Module):
        @torch.jit._overload_method
        def forward(self, x: List[Tensor]) -> Tensor:  # noqa: F811
            pass

        @torch.jit._overload_method
        def forward(self, x: Tensor) -> Tensor:  # noqa: F811
            pass

        def forward(self, x: Tensor) -> Tensor:  # noqa: F811
            if isinstance(x, Tensor):
                parts = [x]
            else:
                parts = x
            return torch.cat(parts)
    program = torch.jit.script(Dense())
    assert program([torch.ones(1), torch.ones(1)]).tolist() == [1, 1] and program(torch.ones(1)).tolist() == [1]


class Layout(enum.Enum):
    ROWS = "rows"
    COLUMNS = "columns"


class Optional_(nn.Module):
    def __init__(self):
        super().__init__()
        self.checkpointing = False

    def forward(self, x: Tensor, layout: Layout = Layout.ROWS):
        extra = getattr(self, "extra", None)
        if extra is not None:
            x = self.extra(x)
        if self.checkpointing and not torch.jit.is_scripting():
            x = only_python(x)
        return x.sum(0) if layout == Layout.ROWS else x.sum(1)


def only_python(*args):
    return args[0]


def test_what_is_known_while_compiling_decides():
    net, x = Optional_(), torch.ones(2, 3)
    program = torch.jit.script(net)
    same(net(x), program(x))
    same(net(x, Layout.COLUMNS), program(x, "columns"))
    same(net(x, Layout.COLUMNS), program(x, layout=Layout.COLUMNS))


def described(layout: Layout, x: Tensor):
    again = layout
    return layout.value + layout.name + again.value, x.is_contiguous(), x.is_contiguous(memory_format=torch.channels_last)


def test_members_of_enums_are_arguments():
    x = torch.ones(1, 2, 3, 4)
    assert torch.jit.script(described)(Layout.ROWS, x) == ("rowsROWSrows", True, False)
    assert torch.jit.script(described)(Layout.COLUMNS, x.to(memory_format=torch.channels_last)) == ("columnsCOLUMNScolumns", False, True)


ELSEWHERE = torch.ones(2)


def undefined(x):
    return what_is_not_there(x)  # noqa: F821


def lambdas(x):
    y = lambda z: z  # noqa: E731
    return y(x)


def tries(x):
    try:
        return x
    except ValueError:
        return x


def stars(x, *args):
    return x


def imports(x):
    import os
    return x, os


def closes_over(x):
    return x + ELSEWHERE


def no_such_operation(x):
    return torch.nothing_of_this(x)


def yields(x):
    yield x


NotSupported = torch.jit.frontend.NotSupportedError


@pytest.mark.parametrize("f, kind, message", [
    (undefined, RuntimeError, "undefined value what_is_not_there:\n.*\ndef undefined.*\n.*\n           ~~~~~~~~~~~~~~~~~ <--- HERE"), (lambdas, NotSupported, "Lambda aren't supported"),
    (tries, NotSupported, "try blocks aren't supported"), (stars, NotSupported, "Compiled functions can't take variable number of arguments"), (imports, NotSupported, "import statements aren't supported"),
    (closes_over, RuntimeError, "python value of type 'Tensor' cannot be used as a value"), (no_such_operation, RuntimeError, "object has no attribute nothing_of_this"), (yields, NotSupported, "Yield aren't supported")])
def test_what_cannot_be_compiled_says_so_and_where(f, kind, message):
    with pytest.raises(kind, match=message):
        torch.jit.script(f)


def test_a_module_without_the_attribute_says_so():
    class Bad(nn.Module):
        def forward(self, x):
            return self.nothing + x
    with pytest.raises(RuntimeError, match="Module 'Bad' has no attribute 'nothing'"):
        torch.jit.script(Bad())
    with pytest.raises(RuntimeError, match="inherits from nn.Module"):
        torch.jit.script(Bad)


@pytest.mark.parametrize("layer, shape", [
    (nn.Conv1d(4, 2, 3, padding_mode="reflect", padding=1), (2, 4, 8)), (nn.ConvTranspose2d(2, 3, 3, 2), (1, 2, 4, 4)), (nn.BatchNorm1d(4), (3, 4)), (nn.InstanceNorm2d(2, affine=True), (1, 2, 4, 4)),
    (nn.LayerNorm(4), (2, 4)), (nn.RMSNorm(4), (2, 4)), (nn.GRU(4, 3), (5, 2, 4)), (nn.RNN(4, 3), (5, 4)), (nn.Embedding(5, 2), None), (nn.AdaptiveAvgPool2d(1), (1, 2, 4, 4)), (nn.Upsample(scale_factor=2.0), (1, 2, 4, 4)),
    (nn.ConstantPad1d(1, 2), (1, 4)), (nn.ReflectionPad2d(1), (1, 2, 4, 4)), (nn.Hardswish(), (3,)), (nn.Sigmoid(), (3,)), (nn.ELU(), (3,)), (nn.LogSoftmax(1), (2, 3)), (nn.PixelShuffle(2), (1, 4, 2, 2)),
    (nn.Unflatten(1, (2, 2)), (1, 4)), (nn.MaxPool1d(2), (1, 2, 4)), (nn.MaxPool2d(2, return_indices=True), (1, 2, 4, 4)), (nn.LSTMCell(3, 2), (2, 3)), (nn.GLU(), (4,)), (nn.LocalResponseNorm(2), (1, 4, 2, 2))])
def test_layers_compute_what_python_computes(layer, shape):
    torch.manual_seed(0)
    x = torch.randn(shape) if shape else torch.tensor([1, 4, 0])
    for training in (True, False):
        layer.train(training)
        program = torch.jit.script(layer)
        assert isinstance(program, torch.jit.ScriptModule)
        if training and list(layer.buffers()):
            program = torch.jit.script(__import__("copy").deepcopy(layer))
        same(layer(x), program(x))
        same(program(x), reloaded(program)(x))


def named_results(x):
    top = torch.topk(x, 2)
    return x.max(dim=1, keepdim=True).values, torch.max(x, 1).indices, top.values, torch.linalg.qr(x).R, x.sort().indices


def leaves_early(x, n: int):
    if n > 2:
        raise ValueError("large")
        undefined(x)
    if not torch.jit.is_scripting():
        return undefined(x)
    with torch.no_grad():
        if n > 1:
            return x
        elif n > 0:
            raise ValueError("one")
        else:
            return x + 1
    return undefined(x)


def test_results_have_names():
    x = torch.tensor([[1.0, 3.0, 2.0], [6.0, 5.0, 4.0], [0.0, 2.0, 1.0]])
    program = torch.jit.script(named_results)
    same(program(x), named_results(x))
    with pytest.raises(RuntimeError, match="nothing"):
        torch.jit.script(no_such_result)(x)


def no_such_result(x):
    return x.max(1).nothing


def test_what_is_never_reached_is_not_compiled():
    program = torch.jit.script(leaves_early)
    assert program(torch.ones(2), 2).tolist() == [1, 1] and program(torch.ones(2), 0).tolist() == [2, 2]
    for n, why in ((1, "one"), (3, "large")):
        with pytest.raises(torch.jit.Error, match=why):
            program(torch.ones(2), n)


class Scale:
    def __init__(self, n: int, xs: List[int]):
        self.n: int = n
        self.xs = xs

    def by(self, x: Tensor) -> Tensor:
        return x * self.n + len(self.xs)


class Variable:
    def __init__(self):
        self.n = 1

    def by(self, *args):
        return self.n


class HoldsObjects(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.named = Scale(3, [1, 2]), {1: Scale(1, [1]), 2: Scale(2, [])}
        self.several, self.pair, self.idle = [Scale(1, []), Scale(2, [1])], (Scale(5, []), 2), Variable()

    def forward(self, x):
        self.one.n += 1
        total = x
        for scale in self.several:
            total = total + scale.n
        return self.one.by(x) + self.named[x.dim()].by(x) + total + self.pair[0].by(x)


def scaled(scale: Scale, x: Tensor) -> Tensor:
    return scale.by(x)


def make_scales(n: int) -> Dict[str, List[Scale]]:
    return {"a": [Scale(n, [n])]}


def test_objects_of_python_classes_cross_into_programs_and_back():
    x, net = torch.ones(2), HoldsObjects()
    program = torch.jit.script(net)
    net.one.n = 50  # the program has its own
    assert program(x).tolist() == [17, 17] and program(x).tolist() == [18, 18]
    assert type(program.one) is Scale and program.one.n == 5 and program.one.by(x).tolist() == [7, 7]
    assert [type(s) for s in program.several] == [Scale, Scale] and program.named[2].n == 2 and program.pair[0].n == 5
    program.one = Scale(0, [])
    assert reloaded(program)(x).tolist() == program(x).tolist() == [12, 12]
    outer = torch.jit.script(nn.Sequential(program))  # a program within another
    assert outer(x).tolist() == [13, 13] and type(outer[0].one) is Scale
    apply, make = torch.jit.script(scaled), torch.jit.script(make_scales)
    made = make(3)["a"][0]
    assert type(made) is Scale and vars(made) == {"n": 3, "xs": [3]}
    assert apply(made, x).tolist() == apply(Scale(3, [1]), x).tolist() == [4, 4]
    with pytest.raises(RuntimeError, match="Tried to cast object to type .*Scale.* but object was missing attribute n"):
        apply(Scale.__new__(Scale), x)


@torch.jit.script
class Compressed:
    held: Tensor

    def __init__(self, held: Tensor, other: Optional[Tensor] = None):
        self.held = held
        self.other = other

    @classmethod
    def both(self, x: Tensor):
        return Compressed(x, x)

    def same(self, other) -> bool:
        if not isinstance(other, self.__class__):
            return False
        return torch.equal(self.held, other.held)

    def doubled(self):
        return self.both(self.held * 2)

    def is_float(self) -> bool:
        return torch.is_floating_point(self.held)

    def csr(self) -> Tensor:
        return torch.sparse_csr_tensor(torch.tensor([0, 1, 1]), torch.tensor([1]), self.held, [2, 3])


Compressed.varied = lambda self, *many: many    # these come too late for the program
Compressed.doubled = lambda self: None


def of_compressed(a: Compressed, b: Compressed):
    return a.doubled().held, a.same(b.held), b.is_float(), a.csr().is_sparse_csr, a.csr().to_dense()


def test_scripted_classes_as_arguments():
    program, one = torch.jit.script(of_compressed), Compressed(torch.ones(1))
    wanted = torch.full((1,), 2.0), False, True, True, torch.tensor([[0.0, 1, 0], [0, 0, 0]])
    same(program(one, one), wanted)
    for layout, major, minor in (("csr", [0, 1, 1], [1]), ("csc", [0, 0, 1, 1], [0]), ("bsr", [0, 1, 1], [1]), ("bsc", [0, 0, 1, 1], [0])):
        values = torch.ones(1, *([1, 1] if layout[0] == "b" else []))
        made = getattr(torch.ops.aten, f"sparse_{layout}_tensor")(torch.tensor(major), torch.tensor(minor), values, [2, 3])
        assert made.layout is getattr(torch, "sparse_" + layout) and made.to_dense().tolist() == [[0, 1, 0], [0, 0, 0]]
    with pytest.raises(RuntimeError, match="undefined value missing_name"):     # of the class, not of who names it
        torch.jit.script(of_broken)


class Boxed:
    def __init__(self, held: Tensor, name: Optional[str] = None):
        self._held = held
        self._name = name

    @classmethod
    def joined(cls, many: List["Boxed"]) -> "Boxed":
        return cls(torch.cat([each.held for each in many]), None)

    @property
    def held(self) -> Tensor:
        return self._held

    @held.setter
    def held(self, to: Tensor) -> None:
        self._held = to

    @property
    def name(self) -> str:
        name = self._name
        assert name is not None, "no name"
        return name


def of_boxes(x: Tensor):
    box = Boxed(x, None)
    box.held = box.held + 1
    for part in [x, x]:
        assert isinstance(part, Tensor), type(part)
    return box.joined([box, Boxed(x, "b")]).held, box.held.to(x.device), Boxed(x, "b").name


def named(box: Boxed):
    return box.name


def absent(box: Boxed):
    return box.absent


def test_objects_whose_class_is_not_known_have_properties_and_class_methods():
    x = torch.ones(2)
    for program in (torch.jit.script(of_boxes), reloaded(torch.jit.script(of_boxes))):
        same(program(x), (torch.tensor([2.0, 2, 1, 1]), torch.full((2,), 2.0), "b"))
    assert torch.jit.script(named)(Boxed(x, "a")) == "a"
    with pytest.raises(torch.jit.Error, match="no name"):
        torch.jit.script(named)(Boxed(x))
    with pytest.raises(RuntimeError, match="'__torch__.*Boxed' object has no attribute or method 'absent'. Did you forget to initialize an attribute"):
        torch.jit.script(absent)


class Placeholder:
    def __init__(self, **fields):
        self.fields = fields


def of_placeholder(x: Placeholder):
    return x.held


def test_a_class_may_stand_for_another():
    from rushlight.jit import _state
    torch.jit.script(Boxed)
    Placeholder._jit_override_qualname = torch._jit_internal._qualified_name(Boxed)
    assert _state._get_script_class(Placeholder) is Boxed and _state._get_python_class(Placeholder._jit_override_qualname) is Boxed
    assert torch.jit.script(of_placeholder)(Boxed(torch.ones(1))).tolist() == [1]
    del Placeholder._jit_override_qualname
    with pytest.raises(torch.jit.frontend.NotSupportedError, match="variable number of arguments"):
        torch.jit.script(of_placeholder)


def moved(x: Tensor, device: torch.device, other: Tensor):
    return x.to(device), x.to(device, torch.float64), x.to(device=device, copy=True), x.to(other.device, non_blocking=True), x.to("cpu"), x.to(None, torch.int64)


def test_tensors_move_to_devices():
    x = torch.ones(2)
    same(torch.jit.script(moved)(x, torch.device("cpu"), x), moved(x, torch.device("cpu"), x))
    assert torch.jit.script(moved)(x, torch.device("meta"), x)[0].is_meta


def of_types(x: Tensor, like: Tensor):
    return x.type(torch.float64), x.type(like.dtype), x.type(dtype=torch.int16), x.type_as(like), x.type(torch.int32, non_blocking=True)


def test_type_of_a_tensor_converts():
    x, like = torch.ones(2), torch.ones(2, dtype=torch.uint8)
    same(torch.jit.script(of_types)(x, like), of_types(x, like))
    assert torch.jit.CompilationUnit("def f(x):\n    return x.type()\n").f(x).equal(x)


def of_layouts(x: Tensor):
    return (x.layout == torch.strided, x.layout == torch.sparse_coo, x.layout == torch.sparse_csr, x.layout == torch.sparse_csc, x.layout == torch.sparse_bsr,
            x.layout == torch.sparse_bsc)


def made_in_layouts(x: Tensor):
    return (torch.zeros([2, 2], layout=torch.sparse_csc).layout == torch.sparse_csc, x.to_sparse(layout=torch.sparse_bsr, blocksize=[2, 2]).layout == torch.sparse_bsr,
            torch.zeros_like(x.to_sparse_bsc([2, 2])).layout == torch.sparse_bsc)


def test_layouts_have_pytorchs_numbers():
    """As files have them: 3 is oneDNN's."""
    x = torch.eye(4)
    script = torch.jit.script(of_layouts)
    for t in (x, x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc(), x.to_sparse_bsr((2, 2)), x.to_sparse_bsc((2, 2))):
        assert script(t) == of_layouts(t) and sum(script(t)) == 1
    assert torch.jit.script(made_in_layouts)(x) == (True, True, True)
    names = "strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc"
    assert [torch.jit.CompilationUnit(f"def f():\n    return torch.{name}\n").f() for name in names] == list(range(7))


def test_scripting_may_be_switched_off():
    torch.jit._state.disable()
    try:
        assert torch.jit.script(moved) is moved
    finally:
        torch.jit._state.enable()


class Broken:
    def __init__(self):
        self.n = missing_name   # noqa: F821


def of_broken(x: Broken):
    return x.n


def test_objects_of_what_does_not_compile_say_so():
    class Bad(nn.Module):
        def __init__(self, held):
            super().__init__()
            self.held = held

        def forward(self, x):
            return x * self.held.n
    for held, kind in ((Variable(), "Variable"), ({1}, "set")):
        with pytest.raises(RuntimeError, match=f"Module 'Bad' has no attribute 'held' .*failed to convert Python type: '.*{kind}'"):
            torch.jit.script(Bad(held))


@pytest.mark.parametrize("returned", ["(x, fails(x))", "[x, fails(x)]", "{1: x, 2: fails(x)}", "(x, (x, fails(x)))"])
def test_what_fails_within_a_result_is_dropped_once(returned):
    unit = torch.jit.CompilationUnit(f"""
def fails(x):
    return [x] + 3
def f(x):
    return {returned}
""")
    for _ in range(200):
        with pytest.raises(RuntimeError, match="add takes no arguments of these kinds"):
            unit.f(torch.ones(2))
    assert [bytes(n) for n in range(1, 3000)]  # memory that was dropped twice shows here


def test_a_view_as_another_dtype_is_no_size():
    program = torch.jit.trace(lambda x: x.view(torch.int32), torch.ones(4))
    assert "dtype=3" in program.code
    file = io.BytesIO()
    torch.jit.save(program, file)
    assert torch.jit.load(io.BytesIO(file.getvalue()))(torch.ones(3)).dtype == torch.int32
    assert torch.jit.CompilationUnit("def f(x):\n    return x.view(6)\n").f(torch.ones(2, 3)).shape == (6,)


def test_shared_objects_are_remembered_when_they_are_built(tmp_path):
    """PyTorch's reader has no object before: it would hand out what lay on its stack."""
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(2, 2)
            self.second = self.first

        def forward(self, x):
            return self.second(self.first(x))
    net = torch.jit.script(Shared())
    net.save(str(tmp_path / "net.pt"))
    with zipfile.ZipFile(tmp_path / "net.pt") as file:
        names = [op.name for op, _, _ in pickletools.genops(file.read("archive/data.pkl"))]
    assert "LONG_BINGET" in names and all(names[i - 1] == "BUILD" for i, name in enumerate(names) if name == "LONG_BINPUT")
    again = torch.jit.load(str(tmp_path / "net.pt"))
    assert again.first.weight is again.second.weight and torch.equal(again(torch.ones(1, 2)), net(torch.ones(1, 2)))


@torch.jit.script
def turned(x, n: int = 1):
    if bool(x.sum() > 0):
        return x * n
    return -x


@torch.jit.script
def grown(x) -> Tuple[Tensor, Dict[str, Tensor]]:
    for _ in range(x.size(0)):
        x = x + 1
    return x, {"twice": x * 2}


@torch.jit.script_if_tracing
def repeated(x, n: int, more: List[int]):
    if x.size(0) > 3:
        return x.repeat(n) + more[0]
    return -x * more[1]


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(torch.full((2,), 3.0))

    def forward(self, x):
        while bool(x.max() < 10):
            x = x * self.by
        return x.reshape(x.shape[0] * 2)


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.linear = inner, nn.Linear(2, 2, bias=False)
        nn.init.ones_(self.linear.weight)

    def forward(self, x):
        return self.inner(self.linear(x)) - 1


def test_a_trace_calls_what_has_a_program():
    """Conditions, loops and sizes of scripted functions and modules stay free in a trace that calls them."""
    traced = torch.jit.trace(lambda x: turned(x, 2) + 1, torch.ones(3))
    assert traced(torch.ones(3)).tolist() == [3] * 3 and traced(-torch.ones(3)).tolist() == [2] * 3
    traced = torch.jit.trace(lambda x: grown(x)[0] + grown(x)[1]["twice"], torch.ones(3))
    assert traced(torch.ones(5)).tolist() == [18] * 5
    traced = torch.jit.trace(lambda x: repeated(x * 2, x.shape[0], [x.shape[0], 5]), torch.ones(2))
    assert traced(torch.ones(2)).tolist() == [-10, -10] and traced(torch.ones(4)).tolist() == [4] * 8
    assert repeated(torch.ones(2), 2, [1, 2]).tolist() == [-2, -2]

    scripted = torch.jit.script(Around(Doubled()))
    around = Around(scripted.inner)
    traced = torch.jit.trace(around, torch.ones(1, 2))
    assert reloaded(scripted.inner)(torch.ones(3, 2)).tolist() == [27] * 6
    for program in (traced, reloaded(traced), torch.jit.script(around)):
        assert program(torch.full((3, 2), 0.1)).tolist() == pytest.approx([15.2] * 6)
    for program in (torch.jit.trace(Around(traced), torch.ones(1, 2)), torch.jit.script(Around(traced))):
        assert reloaded(program)(torch.full((3, 2), 0.1)).tolist() == pytest.approx([8.8] * 6)
    with torch.no_grad():
        scripted.inner.by.fill_(2)
    assert traced(torch.ones(3, 2)).tolist() == [15] * 6
    x = torch.ones(2, 2, requires_grad=True)
    traced(x).sum().backward()
    assert x.grad.tolist() == [[16, 16], [16, 16]] and scripted.inner.by.grad.tolist() == [48, 48]
    with pytest.raises(RuntimeError, match="not part of the active trace"):
        torch.jit.trace(lambda x: scripted(x), torch.ones(1, 2))
    assert scripted.inner.code.startswith("def forward(self, x") and scripted.code.rstrip().endswith("- 1")


def test_code_ends_with_its_method():
    class Two(nn.Module):
        def forward(self, x):
            return self.more(x) * 2

        def more(self, x):
            return x + 1
    assert torch.jit.script(Two()).code.rstrip().endswith("* 2")


class Grid(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.register_buffer("d", torch.arange(3.0) * k)
        self.k = k

    def up(self, x):
        return self.scaled(x) + self.d

    def scaled(self, x):
        return x * self.k

    def down(self, x):
        return x - self.d


class Grids(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.jit.script(Grid(k)) for k in (2, 3, 2))

    def forward(self, x):
        return self.a.up(x) + self.b.down(x) * self.c.up(x)


def test_powers_and_rounded_numbers_are_floats():
    def f(n: int, x: float):
        return n ** 2, 2 ** n, n ** -1, round(x), round(n), math.pow(n, 2)
    same(torch.jit.script(f)(3, 2.5), (9.0, 8.0, 1 / 3, 2.0, 3.0, 9.0))


def test_methods_of_scripted_modules_are_compiled_when_they_are_called():
    scripted = torch.jit.script(Grids())
    for program in (scripted, reloaded(scripted)):
        assert program(torch.ones(3)).tolist() == [4, -4, -24]


def test_functions_that_python_prepares_are_prepared_in_programs(recwarn):
    """Those of torch.functional and the pools: a dispatch on what is given, results by flags."""
    def products(x, y, dims: List[List[int]]):
        return torch.tensordot(x, y, ((1, 2), (1, 0)), out=None), torch.tensordot(x, y, 1), torch.tensordot(x, y, dims=dims), torch.tensordot(x, y, ([2], [0]))

    def norms(x):
        return torch.norm(x), torch.norm(x, p="fro", dim=[0, 1]), torch.norm(x, "nuc"), torch.norm(x, dim=-1), torch.norm(x, 1.0, (0, 1), True)

    def distinct(x):
        values, counts = torch.unique(x, dim=0, return_counts=True)
        return values, counts, torch.unique(x), torch.unique(x, True, True), torch.unique(x, True, True, True)[2], torch.unique_consecutive(x), torch.unique_consecutive(x, return_inverse=True)[1]

    class Unpooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

        def forward(self, x):
            values, places = self.pool(x)
            return self.unpool(values, places)

    def pooled(x):
        values, places = F.max_pool2d(x, 2, return_indices=True)
        return values, F.max_unpool2d(values, places, 2), F.max_pool1d(x, 2), F.adaptive_max_pool2d(x, 2, True)[1], F.adaptive_max_pool1d(x, 2)

    def spectrum(x):
        return torch.stft(x, 8, return_complex=True).abs(), torch.stft(x, 8, 4, center=False, return_complex=True).abs()
    torch.manual_seed(0)
    numbers = torch.tensor([[1, 2], [1, 2], [3, 3]])
    for f, args in ((products, (torch.randn(2, 3, 4), torch.randn(4, 3, 5), [[1, 2], [1, 0]])), (norms, (torch.randn(3, 4),)), (distinct, (numbers,)), (pooled, (torch.randn(2, 4, 4),)),
                    (spectrum, (torch.randn(20),))):
        same(torch.jit.script(f)(*args), f(*args))
    x = torch.randn(2, 4, 4)
    same(reloaded(torch.jit.script(Unpooled()))(x), Unpooled()(x))
    assert not [w for w in recwarn if "stays in Python" in str(w.message)]


def test_a_method_that_an_instance_chose_is_its_forward():
    class Chosen(nn.Module):
        def __init__(self, once):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.forward = self.once if once else self.twice

        def once(self, x):
            return self.layer(x)

        def twice(self, x):
            return self.layer(self.layer(x))
    net, x = nn.Sequential(Chosen(True), Chosen(False)), torch.randn(3, 2)
    same(reloaded(torch.jit.script(net))(x), net(x))


def test_a_message_shows_the_class_of_a_tensor():
    def checked(x: torch.Tensor, raises: bool = True):
        if x.dim() < 2:
            if raises:
                raise TypeError(f"a matrix was expected, not {type(x)}")
            return x
        return x + 1
    same(reloaded(torch.jit.script(checked))(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    with pytest.raises(Exception, match="not <class '.*Tensor'>"):
        torch.jit.script(checked)(torch.ones(2))


class _Stages(nn.Module):
    """A list of modules, of which only what stands for it in programs has a ModuleList."""

    def __init__(self):
        super().__init__()
        self.names, self.stages = ("a", "b"), [nn.Linear(2, 2), nn.Sequential(nn.ReLU())]
        for name, stage in zip(self.names, self.stages):
            self.add_module(name, stage)

    def forward(self, x: torch.Tensor):
        for _, stage in zip(self.names, self.stages):
            x = stage(x)
        return x

    def __prepare_scriptable__(self):
        made = copy.deepcopy(self)
        made.stages = nn.ModuleList(made.stages)
        for name in self.names:
            delattr(made, name)
        return made


def test_modules_below_one_are_prepared_for_scripting():
    net = nn.Sequential(_Stages(), nn.Linear(2, 1))
    x = torch.randn(3, 2)
    assert torch.equal(torch.jit.script(net)(x), net(x)) and isinstance(net[0].stages, list)


class _Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("0", torch.ones(2))
        self.register_buffer("none", None)
        self.bn = nn.BatchNorm1d(2)
        self.rest = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))

    def forward(self, x: torch.Tensor):
        return x


class _Walks(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = _Parts()

    def forward(self):
        modules: List[str] = []
        for name, m in self.named_modules():
            modules.append(name)
        count = 0
        for i, m in enumerate(self.parts.modules()):
            count += i
        children: List[str] = []
        for name, m in self.parts.named_children():
            children.append(name)
        return modules, count, children, [b for name, b in self.parts.named_buffers()], [t[0] for t in self.parts.named_buffers()]


def test_programs_walk_modules_and_buffers():
    modules, count, children, buffers, names = torch.jit.script(_Walks())()
    assert modules == ["", "parts", "parts.bn", "parts.rest", "parts.rest.0", "parts.rest.1", "parts.rest.1.0"]
    assert count == 15 and children == ["bn", "rest"] and names == ["0", "none"]
    assert torch.equal(buffers[0], torch.ones(2)) and buffers[1] is None


class _Numbers(nn.Module):
    """Numbers where functions take lists: of an attribute, an argument, an optional one, a size, an expression."""

    def __init__(self):
        super().__init__()
        self.n, self.f = 2, 2.0

    def forward(self, x: Tensor, k: int, s: Optional[float], size: Optional[int] = None):
        width = x.shape[3]
        return (F.interpolate(x, scale_factor=self.f, mode="bilinear", align_corners=False), F.interpolate(x, scale_factor=1.0 / self.f),
                F.interpolate(x, scale_factor=s) if size is None else F.interpolate(x, size), F.interpolate(x, size=x.size(2) * 2),
                F.avg_pool2d(x, k, stride=k - 1, padding=self.n // 2), F.avg_pool2d(x, width), F.unfold(x, self.n))


def test_a_number_stands_for_a_list_of_it():
    net, x = _Numbers(), torch.randn(1, 2, 4, 4)
    program = torch.jit.script(net)
    for given in ((2, 2.0), (2, None, 3)):
        same(net(x, *given), program(x, *given))
        same(net(x, *given), reloaded(program)(x, *given))


def test_what_a_class_says_is_final_decides_branches():
    class Net(nn.Module):
        training: torch.jit.Final[bool]

        def forward(self, x: Tensor):
            if self.training:
                return in_python_only(x)
            return x + 1

    assert torch.jit.script(Net().eval())(torch.ones(1)).item() == 2


def _numbers_as_text(n: int):
    torch.manual_seed(3)
    return hex(n), oct(n), bin(-n), pow(2.0, n), torch.rand(2)


def test_programs_write_numbers_and_seed():
    program = torch.jit.script(_numbers_as_text)
    assert isinstance(program, torch.jit.ScriptFunction)
    for n in (0, 5, 255):
        same(_numbers_as_text(n), program(n))
    assert program(2**63 - 1)[2] == bin(1 - 2**63)


def _sparse_products(a: Tensor, b: Tensor, reduce: str):
    return torch.sparse.mm(a, b), torch.sparse.mm(a, b, reduce), torch.sparse.sum(a.to_dense().to_sparse()), torch.sparse.softmax(a.to_dense().to_sparse(), 1).to_dense()


def test_functions_of_torch_sparse_are_not_those_of_torch():
    a, b = torch.rand(3, 4).to_sparse_csr(), torch.rand(4, 2)
    program = torch.jit.script(_sparse_products)
    assert isinstance(program, torch.jit.ScriptFunction)
    for one, other in zip(_sparse_products(a, b, "mean"), program(a, b, "mean")):
        assert torch.equal(one, other)


class _Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.twice = self.in_python

    def in_python(self, x, **kwargs):
        return in_python_only(x)

    def twice(self, x: Tensor):
        return 2 * x

    def forward(self, x: Tensor):
        return self.twice(x)


def test_methods_are_those_of_the_class():
    assert torch.jit.script(_Replaced())(torch.ones(1)).item() == 2


def _difference(a: Tensor, b: Tensor, times: int = 3):
    return a - b * times


def _seven():
    return 7


def _forked(x: Tensor, y: Tensor):
    f = torch.jit.fork(_difference, b=x, a=y)
    g = torch.jit._fork(_difference, x, times=2, b=y)
    return torch.jit.wait(f), torch.jit._wait(g), torch.jit.wait(torch.jit.fork(_seven))


class _Forking(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def shifted(self, x: Tensor, by: float):
        return self.layer(x) + by

    def forward(self, x: Tensor):
        futures = torch.jit.annotate(List[torch.jit.Future[Tensor]], [])
        futures.append(torch.jit.fork(self.layer, x))
        futures.append(torch.jit.fork(self.shifted, by=3.0, x=x))
        return [torch.jit.wait(f) for f in futures]


def test_fork_takes_functions_modules_methods_and_names():
    x, y = torch.tensor(1.0), torch.tensor(10.0)
    program = torch.jit.script(_forked)
    assert isinstance(program, torch.jit.ScriptFunction)
    same((torch.tensor(7.0), torch.tensor(-19.0), 7), program(x, y))
    net = _Forking()
    program = torch.jit.script(net)
    for run in (program, reloaded(program)):
        same(net(torch.ones(2)), run(torch.ones(2)))


def _dictionaries(x: Tensor):
    first = dict(a=x, b=x + 1)
    return dict(first, b=x * 3, c=x), dict([("a", 1)], d=2), OrderedDict([("z", 1)]), first


def _deleted(n: int):
    items, named = [1, 2, n], {"x": n, "y": 2}
    del items[0], named["x"]
    return items, named


def test_dictionaries_of_keywords_and_several_deletions():
    for function, given in ((_dictionaries, torch.ones(1)), (_deleted, 5)):
        program = torch.jit.script(function)
        assert isinstance(program, torch.jit.ScriptFunction)
        same(function(given), program(given))


def _power(x: float, n: int):
    return x ** n, min([n])


def test_zero_has_no_negative_power():
    program = torch.jit.script(_power)
    assert program(0.0, 0) == (1.0, 0) and program(2.0, -1) == (0.5, -1)
    with pytest.raises(RuntimeError, match="0.0 cannot be raised to a negative power"):
        program(0.0, -1)


def test_modules_with_hooks_stay_in_python():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[0].register_forward_hook(lambda module, args, output: output + 1)
    with pytest.warns(UserWarning, match="stays in Python: the hooks of Linear are Python"):
        program = torch.jit.script(net)
    same(net(torch.ones(2)), program(torch.ones(2)))
    inner = torch.jit.trace(nn.Linear(2, 2), torch.ones(2))
    inner.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    outer = nn.Sequential(inner)
    with pytest.warns(UserWarning, match="stays in Python"):
        program = torch.jit.script(outer)
    same(outer(torch.ones(2)), program(torch.ones(2)))


class _Named(nn.Module):
    def forward(self, x: Tensor):
        return x, x


def test_loaded_programs_fork_functions_in_functions():
    """As PyTorch writes fork(): a function without arguments that has the names around it."""
    text = """
class _Named(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
    y = torch.mul(x, 2)
    def __forked_function():
      def __forked_function0():
        return torch.add(y, x)
      f = fork(__forked_function0)
      return torch.wait(f)
    f0 = fork(__forked_function)
    return (torch.wait(f0), y)
"""
    out = io.BytesIO()
    torch.jit.save(torch.jit.script(_Named()), out)

    def replaced(text):
        made, source = io.BytesIO(), zipfile.ZipFile(out)
        with zipfile.ZipFile(made, "w") as into:
            for name in source.namelist():
                into.writestr(name, text.encode() if name.endswith(".py") else source.read(name))
        made.seek(0)
        return torch.jit.load(made)
    same((torch.full((1,), 3.0), torch.full((1,), 2.0)), replaced(text)(torch.ones(1)))
    with pytest.raises((RuntimeError, NotImplementedError), match="__forked_function"):  # by itself it cannot be called
        replaced(text.replace("f = fork(__forked_function0)", "f = fork(__forked_function)"))(torch.ones(1))


def test_modules_of_programs_are_replaced_by_their_like():
    net, other = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2)
    program, x = torch.jit.script(net), torch.ones(2)
    setattr(program, "0", torch.jit.script(other))
    for run in (program, reloaded(program), copy.deepcopy(program)):
        same(other(x).relu(), run(x))
    with pytest.raises(RuntimeError, match="Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace existing module '0': Linear"):
        setattr(program, "0", other)
    with pytest.raises(NotImplementedError, match="cannot replace"):
        setattr(program, "0", torch.jit.script(nn.Tanh()))
    same(other(x).relu(), program(x))


def typed_in_full(x, a: List[int], b: Optional[Dict[str, torch.Tensor]] = None, c: float = .5, *, e: bool) -> List[torch.Tensor]:
    return [x]


def told(x):
    print(x)


def with_default(x, *, s: float = 1.):
    return x * s


def test_programs_have_schemas():
    f = torch.jit.script(typed_in_full)
    assert str(f.schema) == "typed_in_full(Tensor x, int[] a, Dict(str, Tensor)? b=None, float c=0.5, *, bool e) -> Tensor[]"
    assert [str(a.type) for a in f.schema.arguments][1:3] == ["List[int]", "Optional[Dict[str, Tensor]]"]
    assert str(torch.jit.script(told).schema) == "told(Tensor x) -> NoneType"
    with pytest.raises(torch.jit.frontend.NotSupportedError, match="keyword-only arguments with defaults"):
        torch.jit.script(with_default)


class Settings(nn.Module):
    scale: Final[float]
    table: Final[List[List[int]]]
    __constants__ = ["name", "none"]

    def __init__(self):
        super().__init__()
        self.scale, self.table, self.name, self.none = float("inf"), [[1, 2], [3]], 'a"b\n', None
        self._hidden, self.plain, self.words, self.thing = 7, torch.ones(2), {"a": 1}, object()

    def forward(self, x):
        return x * self.scale


def test_settings_that_nothing_reads_stay_and_constants_cannot_be_set():
    m = torch.jit.script(Settings())
    file = io.BytesIO()
    torch.jit.save(m, file)
    file.seek(0)
    for program in (m, torch.jit.load(file)):
        assert (program.scale, program.table, program.name, program.none) == (float("inf"), ((1, 2), (3,)), 'a"b\n', None)
        assert program._hidden == 7 and program.words == {"a": 1} and program.plain.tolist() == [1., 1.] and not hasattr(program, "thing")
        program._hidden = 8
        assert program._hidden == 8
        for name in ("scale", "table", "name", "none"):
            with pytest.raises(RuntimeError, match=f"Can't set constant '{name}' which has value:"):
                setattr(program, name, 1.)
    with pytest.raises(RuntimeError, match="Can't set constant 'in_features' which has value:3"):
        torch.jit.script(nn.Linear(3, 4)).in_features = 5


def test_functions_of_two_forms_are_found():
    both = torch._jit_internal.boolean_dispatch("pair", 1, False, divmod, max, "m", "both")
    assert torch._jit_internal.boolean_dispatched[both] == {"if_true": divmod, "if_false": max, "index": 1, "default": False, "arg_name": "pair"}


class Ignoring(torch.nn.Module):
    @torch.jit.ignore
    def beside(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(str(x.tolist()))

    def forward(self, x):
        return self.beside(x) + 1


@pytest.mark.parametrize("net", [Ignoring(), torch.nn.Sequential(Ignoring(), torch.nn.ReLU())])
def test_modules_that_call_what_is_ignored_stay_in_python(net):
    with pytest.warns(UserWarning, match="a call of Ignoring.beside, which is marked to stay in Python"):
        scripted = torch.jit.script(net)
    assert scripted(torch.ones(2)).equal(net(torch.ones(2)))


class OneOfTwo(torch.nn.Module):
    """Has a weight or another module; where it asks which, only what is there is compiled."""

    def __init__(self, weight, size):
        super().__init__()
        self.other = None if weight else torch.nn.Identity()
        self.weight = torch.nn.Parameter(torch.full((2,), 3.)) if weight else None
        self.register_buffer("places", torch.tensor([1, 0]) if weight else None)
        self.size, self.plain = size, torch.ones(2) if weight else None

    def forward(self, given: torch.Tensor, by: int = 2):
        x = given
        if self.weight is None or self.places is None:
            x = self.other(x)
        else:
            x = (x * self.weight)[self.places]
        if not (self.plain is not None):
            x = self.other(x)
        if self.size is None:
            x = x + 1 if self.other is None else self.other(x)
        if given is None or by is None:
            x = self.nothing(given)
        return x * by if self.size is not None else x


@pytest.mark.parametrize("weight", [True, False])
@pytest.mark.parametrize("size", [4, [1, 2], None])
def test_what_cannot_be_none_is_not_compiled_as_if_it_were(weight, size):
    net, x = OneOfTwo(weight, size), torch.tensor([1., 2.])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        scripted = torch.jit.script(net)
    assert scripted(x).equal(net(x))
