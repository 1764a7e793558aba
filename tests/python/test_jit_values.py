"""What programs do with texts and objects, and what they take from callers: as Python does, and where its types are weaker, as PyTorch."""
import dataclasses
import io
import warnings
import zipfile
from typing import List, NamedTuple, Optional

import pytest
import rushlight as torch

TEXTS = ["abca,d", " a\tB 1\n x", "", "Ab Cd", "-12", "a_1", "ABC", "a\r\nb\n\nc", "aaa"]
METHODS = ["ljust(9, '-')", "rjust(9)", "center(11, '-')", "center(8)", "zfill(9)", "partition('b')", "rpartition('a')", "count('a')", "count('aa')", "count('')", "count('a', 1)",
           "expandtabs(4)", "swapcase()", "splitlines()", "splitlines(True)", "rsplit(',')", "rsplit('a', 1)", "split(',')", "split('a', 1)", "split()", "split(None, 1)", "split('ab')",
           "rfind('a')", "find('b', 1, 3)", "find('a', 1)", "find('', 3)", "find('a', 5, 2)", "startswith('a', 0, 2)", "startswith('b', 1)", "endswith('d')", "replace('a', 'bb', 1)",
           "replace('a', '')", "replace('', '-')", "replace('', '-', 2)", "isdecimal()", "isnumeric()", "isdigit()", "isalpha()", "isalnum()", "isspace()", "islower()", "isupper()",
           "istitle()", "isidentifier()", "title()", "capitalize()", "upper()", "lower()", "strip()", "lstrip('a')", "rstrip('d')", "join(['p', 'q', 'r'])"]


@pytest.mark.parametrize("method", METHODS)
def test_texts_have_the_methods_of_pythons(method):
    run = torch.jit.CompilationUnit(f"def f(s: str):\n  return s.{method}").f
    for text in TEXTS:
        assert run(text) == eval(f"text.{method}"), text


def _placed(s: str, x: float, n: int):
    return "%s|%d|%i|%f|%e|%E|%c|%c|100%%" % (s, x, n, x, x, n, 65, "z"), "%s" % n, s + "%d" % n


def _filled(n: int):
    return "{} {:d} {0}{{".format(n), f"{n} of {n + 1}"


def test_texts_are_formatted_as_pytorch_does():
    assert torch.jit.script(_placed)("a", -2.75, 7) == _placed("a", -2.75, 7)
    assert torch.jit.script(_filled)(3) == ("3 {:d} {0}{{", "3 of 4")
    given = torch.jit.CompilationUnit("def f(s: str, x: Any):\n  return s % x").f
    assert given("%s and %s", ("a", 2)) == "a and 2"
    for text, x, why in [("%d", "a", "%d requires a number for formatting, but got String"), ("%c", 1.5, "%c requires an int or char for formatting, but got Double"),
                         ("%s %s", 1, "Too few arguments for format string"), ("%s", (1, 2), "Too many arguments for format string"),
                         ("%", 1, "Incomplete format specifier"), ("%x", 1, "The specifier %x is not supported in TorchScript format strings")]:
        with pytest.raises(RuntimeError, match=why.replace("(", r"\(")):
            given(text, x)


@torch.jit.script
class Number:
    def __init__(self, n: int):
        self.n = n

    def __lt__(self, other: "Number") -> bool:
        return self.n < other.n

    def __setitem__(self, at: int, value: int):
        self.n = at * value

    def __delitem__(self, at: int):
        self.n = -at

    def __bool__(self) -> bool:
        return self.n > 0

    def __int__(self) -> int:
        return self.n

    def __float__(self) -> float:
        return float(self.n)

    def __str__(self) -> str:
        return "number"

    def __contains__(self, n: int) -> bool:
        return n == self.n


def _of_objects(n: int):
    many = [Number(3), Number(1), Number(2)]
    up, down = sorted(many), [Number(0), Number(5)]
    down.sort(reverse=True)
    x = Number(n)
    asked = (int(x), float(x), str(x), bool(x), n in x, not x, 1 if x else 2)
    x[2] = 5
    changed = x.n
    del x[3]
    return [m.n for m in up], [m.n for m in down], asked, changed, x.n


def test_objects_have_methods_for_what_is_asked_of_them():
    assert torch.jit.script(_of_objects)(0) == _of_objects(0)
    assert torch.jit.script(_of_objects)(4) == _of_objects(4)


class Deep:
    def __init__(self, n: int):
        self.n = n

    def __getitem__(self, at: int) -> int:
        return self[at + self.n]


def _deep(n: int):
    return Deep(n)[n]


def test_methods_that_call_each_other_for_ever_are_an_error():
    with pytest.raises(RuntimeError, match="deep"):
        torch.jit.script(_deep)(1)


REFUSED = object()
GIVEN = {"int": [(True, 1), (torch.tensor(2), 2), (torch.tensor([2.5]), 2), (1.5, REFUSED), (None, REFUSED), ("a", REFUSED), (torch.ones(2), REFUSED)],
         "float": [(1, 1.0), (True, 1.0), (torch.tensor(2.5), 2.5), ("a", REFUSED), (1j, REFUSED)],
         "bool": [(1, True), (0.0, False), (None, False), (torch.tensor(3), True), ("a", REFUSED)],
         "complex": [(1, 1 + 0j), (1j, 1j), ([], REFUSED)],
         "str": [("a", "a"), (1, REFUSED)],
         "Tensor": [(1, REFUSED), ([], REFUSED), (None, None)],
         "Device": [("cpu", torch.device("cpu")), (1, REFUSED)],
         "Optional[int]": [(None, None), (True, 1), ("a", REFUSED)],
         "List[float]": [([1, 2.5], [1.0, 2.5]), ((1, 2), [1.0, 2.0]), ([], []), ([1, "a"], REFUSED), ("a", REFUSED), (torch.ones(2), REFUSED)],
         "List[List[int]]": [([[1], (True,)], [[1], [1]]), ([1], REFUSED)],
         "Dict[str, float]": [({"a": 1}, {"a": 1.0}), ({1: 1}, REFUSED), ([], REFUSED)],
         "Tuple[int, float]": [([1, 2], (1, 2.0)), ((1,), REFUSED)],
         "Union[int, str]": [(1, 1), ("a", "a"), (1.5, REFUSED), (None, REFUSED)],
         "Any": [("a", "a"), ((1, "a"), (1, "a"))]}


@pytest.mark.parametrize("kind", GIVEN)
def test_arguments_become_what_the_signature_says(kind):
    given = torch.jit.CompilationUnit(f"def given(x: {kind}):\n  return x").given
    for x, wanted in GIVEN[kind]:
        if wanted is REFUSED:
            with pytest.raises(RuntimeError) as told:
                given(x)
            assert str(told.value).startswith(f"given() Expected a value of type '{kind}' for argument 'x' but instead found type '{type(x).__name__}'.\nPosition: 0\nValue: ")
        else:
            got = given(x)
            assert got == wanted and repr(got) == repr(wanted)


class Pair(NamedTuple):
    a: int
    b: float


def _pair(x: Pair, y, z=None):
    return x


def test_named_tuples_are_made_of_others_and_what_has_no_annotation_is_a_tensor():
    pair, x = torch.jit.script(_pair), torch.ones(1)
    assert pair((True, 2), x) == pair([1, 2.0], x) == Pair(1, 2.0) and repr(pair((True, 2), x)) == "Pair(a=1, b=2.0)"
    for wrong in ((1,), 1):
        with pytest.raises(RuntimeError, match="for argument 'x' but instead found"):
            pair(wrong, x)
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor \\(inferred\\)' for argument 'y' but instead found type 'int'.\nInferred 'y' to be of type 'Tensor'"):
        pair((1, 2.0), 3)


@torch.jit.script
@dataclasses.dataclass(order=True)
class Point:
    x: float
    y: float = 2.0
    scale: dataclasses.InitVar[int] = 1
    norm: Optional[float] = dataclasses.field(default=None, compare=False)
    far: bool = dataclasses.field(default=False, init=False)

    def __post_init__(self, scale: int):
        self.norm = (self.x * self.x + self.y * self.y) ** 0.5 * scale
        self.far = self.x > 10.0


def _points(x: float):
    p, q = Point(x), Point(y=x, x=1.0, scale=3)
    return p.x, p.y, p.norm, p.far, q.norm, Point(11.0).far, p == Point(x, 2.0, 5), p != Point(x), p < q, p <= q, p > q, p >= q, Point(x, 1.0) < Point(x, 2.0), [p].index(Point(x))


def test_dataclasses_have_what_python_writes_for_them():
    for x in (0.5, 1.0, 1.5):
        assert torch.jit.script(_points)(x) == pytest.approx(_points(x))
    with pytest.raises(NotImplementedError, match="Default factory initializers are not supported"):
        torch.jit.script(dataclasses.make_dataclass("Listed", [("items", list, dataclasses.field(default_factory=list))]))


@torch.jit.script
@dataclasses.dataclass
class Perhaps:
    x: torch.Tensor
    y: Optional[torch.Tensor] = None
    name: Optional[str] = None


class Compares(torch.nn.Module):
    def forward(self, x):
        a, b, c = Perhaps(x, x * 2), Perhaps(x), Perhaps(x, x * 2, "c")
        return [a == Perhaps(x, x * 2), a == b, b == a, b == Perhaps(x), a == c, c == Perhaps(x, x * 2, "c"), a == Perhaps(x, x)]


def test_dataclasses_compare_what_may_be_none(tmp_path):
    """With a program that PyTorch's archives may hold: of two Optional[Tensor] it has no ==."""
    scripted, want = torch.jit.script(Compares()), [True, False, False, True, False, True, False]
    torch.jit.save(scripted, tmp_path / "it.pt")
    assert scripted(torch.ones(1)) == torch.jit.load(tmp_path / "it.pt")(torch.ones(1)) == want
    with zipfile.ZipFile(tmp_path / "it.pt") as file:
        code = b"".join(file.read(name) for name in file.namelist() if name.endswith(".py")).decode()
    assert "self.y ==" not in code and "self.y !=" not in code and "is not None" in code


class Named(NamedTuple):
    n: "int"
    items: "Optional[List[float]]" = None


def _items(of: Named, x: List[int]):
    part = slice(1, 3)
    return of.n, of.items, x[part], x[slice(2)], x[slice(None, None, -1)], hash("a") == hash("a"), hash((1, "b")) == hash((1, "b")), hash(2.0) == hash(2)


def test_slices_are_values_and_ranges_lists():
    of = Named(1, [2.0])
    assert torch.jit.script(_items)(of, range(5)) == _items(of, list(range(5)))


def _increased(n: int) -> int:
    return n + 1


def test_texts_of_programs_use_names_of_the_caller_and_types_of_comments():
    class Held:
        def __init__(self, n: int):
            self.n = n

    unit = torch.jit.CompilationUnit("""
        def f(n):
            # type: (int) -> int
            return _increased(n) + Held(n).n
        def g(of,  # type: Dict[str, int]
              key="b"):
            return of["a"]
        def h(of, key):
            # type: (Dict[str, int], str)
            return f(of[key]), annotate(List[int], [])
    """)
    assert Held(1).n == 1 and unit.f(3) == 7 and unit.g({"a": 2}) == 2 and unit.h({"a": 2}, "a") == (5, [])
    with pytest.raises(RuntimeError, match="undefined value nothing"):
        torch.jit.CompilationUnit("def f(x):\n  return nothing(x)")


def test_dictionaries_are_made_of_keywords_and_errors_are_pythons():
    unit = torch.jit.CompilationUnit("def f(n: int):\n  return dict(a=n), dict([('a', 1)], b=n), dict({'a': 1}, a=n)\n")
    assert unit.f(3) == ({"a": 3}, {"a": 1, "b": 3}, {"a": 3})
    for text, why in [("x.index(5)", "'5' is not in list"), ("x.remove(5)", "x not in list"), ("x.pop(7)", "list index out of range"), ("[0].pop(3)", "list index out of range"),
                      ("sorted([x, None])", "cannot be put in order"), ("slice(1, stop=2)", "Slice does not accept any keyword arguments"), ("hash([x])", "unhashable type: 'list'")]:
        with pytest.raises(RuntimeError, match=why):
            torch.jit.CompilationUnit(f"def f(x: List[int]):\n  return {text}").f([1, 2])
    with pytest.raises(RuntimeError, match="Expected 3 elements in a list but found 2"):
        torch.jit.CompilationUnit("def f(x: List[int]):\n  a, b, c = x\n  return a").f([1, 2])
    three = [torch.tensor(n) for n in (3, 1, 2)]
    assert torch.jit.CompilationUnit("def f(x: List[Tensor]):\n  x.sort(reverse=True)\n  return x, sorted(x)").f(three) == ([3, 2, 1], [1, 2, 3])


class Weighted(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = torch.nn.Parameter(w)

    def forward(self, a, b, c):
        return (a - b) * c + self.w


def test_what_is_given_twice_stays_apart_in_a_trace():
    x, y, z = torch.ones(2), torch.full((2,), 3.0), torch.full((2,), 5.0)
    m = Weighted(torch.zeros(2))
    for made in (torch.jit.trace(m, (x, x, x)), torch.jit.trace(m.forward, (x, x, x)), torch.jit.trace(m, (m.w, x, x)), torch.jit.trace(m, example_kwarg_inputs={"a": x, "b": x, "c": x})):
        assert made(a=x, b=y, c=z).tolist() == m(x, y, z).tolist() == [-10.0, -10.0]
    assert torch.jit.trace(lambda d: d[0]["x"] - d[1]["x"], (({"x": x}, {"x": x}),))(({"x": y}, {"x": x})).tolist() == [2.0, 2.0]
    computed = torch.ones(2, requires_grad=True) * 2
    assert torch.jit.trace(lambda t: t.add_(1) * 2, computed)(torch.ones(2)).tolist() == [4.0, 4.0]
    graph, _ = torch.jit._get_trace_graph(m, (x, x, x))
    assert "aten::sub(%0, %1" in str(graph)


class _Shares(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.weight, self.inner = torch.nn.Parameter(torch.full((2,), 3.0)), inner

    def forward(self, x):
        return self.inner(x * self.weight)


def test_a_module_that_several_others_hold_is_traced(tmp_path):
    inner = _Shares(torch.nn.SiLU())
    model = torch.nn.Sequential(_Shares(inner), _Shares(inner), inner)
    torch.jit.trace(model, torch.ones(2)).save(tmp_path / "shares.pt")
    made = torch.jit.load(tmp_path / "shares.pt")
    assert torch.equal(made(torch.arange(2.0)), model(torch.arange(2.0)))


def test_a_trace_has_no_constants_that_require_gradients():
    w = torch.ones(2, requires_grad=True)
    for held in (w, w * 2):
        with pytest.raises(RuntimeError, match="Cannot insert a Tensor that requires grad as a constant"):
            torch.jit.trace(lambda x, held=held: x + held, torch.ones(2))


def _negated(x):
    for _ in range(x.size(0)):
        x = torch.neg(x)
    return x


def test_traces_are_checked_with_other_inputs():
    kept = []

    def remembers(x):
        kept.append(torch.neg(x))
        return x + kept[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f, rows in ((_negated, 4), (remembers, 3)):
            with pytest.raises(torch.jit.TracingCheckError, match="Graphs differed across invocations!"):
                torch.jit.trace(f, torch.ones(3, 4), check_inputs=[torch.ones(rows, 4)])
    with pytest.warns(torch.jit.TracerWarning, match="Trace had nondeterministic nodes. Did you forget call .eval"):
        torch.jit.trace(torch.nn.Dropout(0.5), torch.ones(20, 20))
    with pytest.warns(torch.jit.TracerWarning, match="Output nr 2. of the traced function does not match the corresponding output of the Python function"):
        torch.jit.trace(lambda x: (x, x * len(kept.append(1) or kept)), torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        assert torch.jit.trace(lambda x: x.add_(1) * 2, torch.ones(2))(torch.zeros(2)).tolist() == [2.0, 2.0]


def test_a_program_is_not_saved_where_there_is_no_folder(tmp_path):
    with pytest.raises(RuntimeError, match="Parent directory .*nowhere does not exist"):
        torch.jit.trace(torch.neg, torch.ones(1)).save(tmp_path / "nowhere" / "net.pt")


class Kept(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.k = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), 3
        self.tied = self.linear

    def forward(self, x):
        return self.norm(self.linear(x)) * self.k + self.tied(x)

    @torch.jit.export
    def other(self, x):
        return x + self.k


def _saved(program):
    out = io.BytesIO()
    program.save(out)
    out.seek(0)
    return torch.jit.load(out)


def test_a_frozen_module_is_a_copy_of_its_own():
    net, x = Kept(), torch.randn(3, 2)
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        torch.jit.freeze(torch.jit.script(net))
    for program in (torch.jit.script(net.eval()), torch.jit.trace(net, x)):
        frozen, wanted = torch.jit.freeze(program), net(x).detach()
        assert len(program.state_dict()) == 9 and not frozen.state_dict() and [name for name, _ in frozen.named_modules()] == [""]
        assert not any(hasattr(frozen, name) for name in ("linear", "k", "other"))
        with torch.no_grad():
            net.linear.weight.zero_()
        frozen.train().to(torch.float64)
        for run in (frozen, _saved(frozen)):
            assert torch.equal(run(x), wanted) and not run(x).requires_grad and not list(run.parameters())
        assert not torch.equal(program(x), wanted)
        net.linear.reset_parameters()
    program = torch.jit.script(net)
    frozen = torch.jit.optimize_for_inference(program, ["k", "other", "norm.weight"])
    assert frozen.k == 3 and frozen.other(x).shape == (3, 2) and frozen.norm.weight.tolist() == [1.0, 1.0] and torch.jit.optimize_for_inference(frozen) is frozen
    with pytest.raises(RuntimeError, match="Unknown name: nowhere"):
        torch.jit.freeze(program, ["nowhere"])


class Older(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(2))

    @torch.jit.script_method
    def forward(self, x):
        return self.helper(x) + 1

    @torch.jit.script_method
    def helper(self, x):
        return x * self.w


def test_modules_of_the_older_way_are_saved():
    net, x = Older(), torch.ones(2)
    made = _saved(net)
    assert torch.equal(made(x), net(x)) and torch.equal(made.helper(x), x) and list(made.state_dict()) == ["w"]


class Holding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.listed = torch.nn.ParameterList([torch.full((1,), float(i)) for i in range(3)])
        self.named = torch.nn.ParameterDict({"a": torch.ones(1), "b": torch.full((1,), 2.0)})
        self.act = torch.nn.ReLU()
        self.acts = torch.nn.ModuleDict({"relu": self.act})
        self.layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])
        self.register_buffer("one", torch.ones(1))
        self.register_buffer("two", torch.full((1,), 2.0))
        self.v = 3

    @property
    def twice(self):
        return self.v

    @twice.setter
    def twice(self, v: int):
        self.v = v * 2

    def forward(self, x, many: List[torch.Tensor], n: int):
        assert self.acts["relu"] is self.act
        r = x
        for i, p in enumerate(self.listed):
            r = r + p * i
        for k, v in self.named.items():
            r = r * v + len(k)
        for k in self.named:
            r = r + len(k)
        for v in self.named.values():
            r = r + v.sum()
        r = r + self.listed[0] + self.listed[-1] + self.named["a"] * len(self.listed) + len(self.named)
        if "a" in self.named:
            r = r + 1
        self.twice = n
        walked = [f(y) + i for i, (f, y) in enumerate(zip(self.layers, [m * 2 for m in many]))]
        return r, self.twice, [p * 2 for p in self.listed], walked, {k: b * 2 for k, b in self.named_buffers()}


def test_programs_walk_parameters_and_set_properties():
    net, many = Holding(), [torch.ones(1), -torch.ones(1)]
    program = torch.jit.script(net)
    for run in (program, _saved(program)):
        given, wanted = run(torch.ones(1), many, 4), net(torch.ones(1), many, 4)
        assert given == wanted and net.v == 8

    class ReadOnly(torch.nn.Module):
        @property
        def twice(self):
            return 3

        def forward(self):
            self.twice = 4
    with pytest.raises(RuntimeError, match="Tried to set read-only attribute: twice"):
        torch.jit.script(ReadOnly())


def test_classes_of_functions_know_themselves():
    class Local:
        def __init__(self, n: int):
            self.n = n

        def __lt__(self, other: "Local") -> bool:
            return self.n < other.n

        def __eq__(self, other: "Local") -> bool:
            return self.n == other.n

        @property
        def twice(self) -> int:
            return self.n * 2

        def use(self) -> int:
            return self.twice + 1

    def ordered(n: int):
        pairs = [(Local(2), 1), (Local(n), 5), (Local(1), 3)]
        pairs.sort()
        return [(a.n, b) for a, b in pairs], Local(3).use()
    assert torch.jit.script(ordered)(1) == ordered(1) == ([(1, 3), (1, 5), (2, 1)], 7)


def test_quantized_layers_are_traced_and_stay_in_python_when_scripted():
    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear}, dtype=torch.qint8)
    x = torch.randn(2, 8)
    program = torch.jit.trace(made, x)
    assert torch.equal(program(x), made(x)) and torch.equal(_saved(program)(x), made(x))
    assert torch.jit.trace(lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.quint8), x)(x).is_quantized
    with pytest.warns(UserWarning, match="stays in Python: Linear.forward, which is not written in the language"):
        assert torch.jit.script(made) is made
    with pytest.warns(UserWarning, match="stays in Python: Linear.forward"):
        assert torch.jit.script(made[0]) is made[0]


class Grids(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 3, torch.quint8))
        for name, kind in (("each", torch.float64), ("floats", torch.float32)):
            zeros = torch.zeros(3, dtype=torch.int64 if kind == torch.float64 else kind)
            self.register_buffer(name, torch.quantize_per_channel(torch.randn(3, 4), torch.tensor([0.5, 0.25, 0.125], dtype=kind), zeros, 0, torch.quint8))
        self.view = self.one[1:]

    def forward(self, x):
        return x + self.one.dequantize() + self.each.dequantize() + self.floats.dequantize() + self.view.dequantize().sum()


def test_quantized_tensors_are_in_archives():
    net, x = Grids(), torch.zeros(3, 4)
    loaded = _saved(torch.jit.script(net))
    assert torch.equal(loaded(x), net(x))
    for name in ("one", "each", "floats"):
        was, now = getattr(net, name), getattr(loaded, name)
        assert now.qscheme() == was.qscheme() and now.dtype == was.dtype and torch.equal(now.int_repr(), was.int_repr())
    assert loaded.one.q_scale() == 0.1 and loaded.one.q_zero_point() == 3 and torch.equal(loaded.each.q_per_channel_scales(), net.each.q_per_channel_scales())
