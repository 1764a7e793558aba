"""The headers for C and C++ programs: nothing is warned of, by gcc and clang, and what the typed functions promise holds."""
import pathlib
import re
import shutil
import subprocess
from typing import Dict, List, Optional, Tuple

import pytest
from places import BUILD, ROOT
import rushlight as torch
from rushlight._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode
from rushlight.fx.experimental.proxy_tensor import make_fx
from rushlight.utils._python_dispatch import TorchDispatchMode

INCLUDE = ["-I", str(ROOT / "include"), "-I", str(BUILD / "include")]
LINK = ["-L", str(BUILD), "-lrushlight", "-Wl,-rpath," + str(BUILD)]
STRICT = ["-Wall", "-Wextra", "-Werror"]


def sanitizers():
    """The flags of the library at hand: a program needs the same."""
    told = (BUILD / "build.ninja").read_text() if (BUILD / "build.ninja").exists() else ""
    return re.findall(r"-fsanitize=[\w,]+", told)[:1]


def compiled(compiler, *flags, text=None):
    """Compiles, or only checks; warnings are errors."""
    if not shutil.which(compiler):
        pytest.skip(compiler + " is not installed")
    done = subprocess.run([compiler, *STRICT, *map(str, flags), *INCLUDE], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def printed(compiler, standard, source, program):
    """What a program prints. Of clang, which may have no runtime of the library's sanitizers, that it compiles is enough."""
    compiled(compiler, standard, *sanitizers(), source, *LINK, "-o", program)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("header", sorted(p.name for p in (ROOT / "include/rushlight").glob("*.h")))
@pytest.mark.parametrize("compiler, language", [("gcc", "c"), ("g++", "c++"), ("clang", "c"), ("clang++", "c++")])
def test_each_header_stands_alone(compiler, language, header):
    compiled(compiler, "-x", language, "-fsyntax-only", "-", text="#include <rushlight/%s>\n" % header)


@pytest.mark.parametrize("compiler, standard, source", [("gcc", "-std=gnu11", "typed.c"), ("g++", "-std=c++17", "typed.cpp")])
def test_typed(compiler, standard, source, tmp_path):
    assert printed(compiler, standard, ROOT / "tests" / "cpp" / source, tmp_path / "program") == "fine\n"


@pytest.mark.parametrize("compiler, standard, source", [("clang", "-std=gnu11", "typed.c"), ("clang++", "-std=c++17", "typed.cpp"), ("g++", "-std=c++20", "typed.cpp")])
def test_typed_compiles(compiler, standard, source):
    compiled(compiler, standard, "-fsyntax-only", ROOT / "tests" / "cpp" / source)


TRAINED = """\
 0.9512 0.9625 1.6255 0.9036 0.8815 0.8930 | 0.0872
 0.7941 0.8115 0.9903 0.5202 0.5984 0.3897 | 0.7985
7 parameters, 3 buffers, first conv.weight
1.0078 1
"""     # what libtorch 2.13 prints


def test_a_file_that_only_includes_has_no_code(tmp_path):
    """Tables of virtual functions and what they call would be compiled with every file of an extension."""
    source, made = tmp_path / "empty.cpp", tmp_path / "empty.o"
    source.write_text("#include <torch/torch.h>\n")
    compiled("g++", "-std=c++17", "-O1", *["-I%s/include/rushlight/cpp" % top for top in (ROOT, BUILD)], "-c", source, "-o", made)
    assert " W " not in subprocess.run(["nm", str(made)], capture_output=True, text=True).stdout


@pytest.mark.parametrize("source, text", [("torch.cpp", "fine\n"), ("vec.cpp", "fine\n"), ("train.cpp", TRAINED)])
def test_torch_headers(source, text, tmp_path):
    folders = [f"-I{top}/include/rushlight/cpp" for top in (ROOT, BUILD)]
    compiled("g++", "-std=c++17", *sanitizers(), *folders, ROOT / "tests" / "cpp" / source, *LINK, "-o", tmp_path / "program")
    done = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True)
    assert done.stdout + done.stderr == text


SAVED = """\
 2.85114 2.83380 2.73676 2.71186 2.61758 0.01
NetImpl(
  (seq): torch::nn::Sequential(
    (0): torch::nn::BatchNorm1d(2, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)
    (1): torch::nn::Linear(in_features=2, out_features=2, bias=true)
    (2): torch::nn::ReLU()
  )
)
 0.8684
 3.0395
[ CPUFloatType{2} ]
Columns 1 to 10 0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333
 0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333  0.3333

Columns 11 to 12 0.3333  0.3333
 0.3333  0.3333
[ CPUFloatType{2,12} ]
 1.0000e-03
 1.0000e+09
[ CPUFloatType{2} ]
0.10000000149011612
[ CPUFloatType{} ]
(1,.,.) = 
 0.0000e+00  1.0000e+05
  2.0000e+05  3.0000e+05

(2,.,.) = 
100000 *
  4.0000  5.0000
   6.0000  7.0000
[ CPUFloatType{2,2,2} ]
[ CPUFloatType{0,2} ][ Tensor (undefined) ]
MulBackward1 AddBackward1 true
No such serialized tensor 'weight'
"""     # what libtorch 2.13 prints, which wrote the files


def test_torch_saves_and_loads(tmp_path):
    folders = [f"-I{top}/include/rushlight/cpp" for top in (ROOT, BUILD)]
    compiled("g++", "-std=c++17", *sanitizers(), *folders, ROOT / "tests" / "cpp" / "saved.cpp", *LINK, "-o", tmp_path / "program")
    done = subprocess.run([str(tmp_path / "program"), str(ROOT / "tests" / "data" / "libtorch"), str(tmp_path)], capture_output=True, text=True)
    assert done.stdout + done.stderr == SAVED
    again = subprocess.run([str(tmp_path / "program"), str(tmp_path), str(tmp_path)], capture_output=True, text=True)
    assert again.stdout.split("\n")[0] == " 2.52611 2.49651 2.40958 2.37731 2.29660 0.01"
    net = torch.jit.load(str(tmp_path / "libtorch_net.pt"))     # what is written is an archive of TorchScript
    assert [name for name, _ in net.named_parameters()] == ["extra", "seq.0.weight", "seq.0.bias", "seq.1.weight", "seq.1.bias"]
    assert [name for name, _ in net.named_buffers()] == ["seq.0.running_mean", "seq.0.running_var", "seq.0.num_batches_tracked"]
    adam = torch.jit.load(str(tmp_path / "libtorch_adamw.pt"))
    assert adam.pytorch_version == "1.5.0" and getattr(adam.param_groups, "param_groups/1").options.betas == (0.9, 0.999)


LAYERS = """\
lstm -3.79652 0.08933
c 2.87141 0.28082
grad 4.58389 0.04698
weight_hh_l0_reverse torch::nn::LSTM(input_size=3, hidden_size=5, num_layers=2, bias=true, batch_first=true, dropout=0, bidirectional=true)
gru -2.38928 0.20460
h -0.89168 0.22349
rnn 5.14223 0.09183
cell -2.83346 0.18796
gcell 1.29617 0.19861
conv -183.21802 3.82057
pool 97.73745 1.05069
avg -12.24755 0.32581
ada -1.26436 0.25491
up -92.94476 0.53119
near -37.96273 0.80544
pad -9.60198 0.83401
pad0 408.76379 1.40534
norm -12.73168 0.49916
drop -28.91235 0.81406
relu 143.39218 0.37342
leaky 93.40367 0.50360
elu 44.40306 0.63120
ce 1.75058 1.75058
ce2 13.49816 13.49816
ls -39.68429 1.65351
sm 4.00000 0.16667
nll 10.50347 1.75058
mse 0.85238 0.85238
msesum 20.45717 20.45717
bce 0.70133 0.70133
kl 0.08508 0.08508
sl1 0.38219 0.38219
cos 3.26289 0.78797
emb 6.37446 0.79803
hot 6.00000 0.20000
lin 31.03856 2.16345
bn 384.00000 1.15981
ln 384.00000 1.16299
smooth 1.74087 1.74087
"""     # what libtorch 2.13 prints


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("one", torch.ones(2))

    def forward(self, x):
        y = self.linear(x)
        if self.training:
            y = y * y
        return y + self.one


def run_torch_program(source, tmp_path, *arguments):
    folders = [f"-I{top}/include/rushlight/cpp" for top in (ROOT, BUILD)]
    compiled("g++", "-std=c++17", *sanitizers(), *folders, ROOT / "tests" / "cpp" / source, *LINK, "-o", tmp_path / "program")
    done = subprocess.run([str(tmp_path / "program"), *arguments], capture_output=True, text=True)
    return done.stdout + done.stderr


DTYPES = """\
float double float 8 011100
Double Double int
unsigned char 1 Byte
signed char 1 Char
short int 2 Short
int 4 Int
long int 8 Long
c10::Half 2 Half
float 4 Float
double 8 Double
c10::complex<c10::Half> 4 ComplexHalf
c10::complex<float> 8 ComplexFloat
c10::complex<double> 16 ComplexDouble
bool 1 Bool
c10::BFloat16 2 BFloat16
c10::qint8 1 QInt8
c10::quint8 1 QUInt8
c10::qint32 4 QInt32
short unsigned int 2 UInt16
unsigned int 4 UInt32
long unsigned int 8 UInt64
c10::Float8_e5m2 1 Float8_e5m2
c10::Float8_e8m0fnu 1 Float8_e8m0fnu
doubledoubledoubledoubledoubledouble
1110long intfloat4nullptr (uninitialized)0nullptr (uninitialized)FloatFloat
floatFloatdouble
f must be int, not float or Float
cpu cpu -1010cpu
cuda:1 cuda 1101cuda:1
meta meta -1000meta
cpu:0 cpu 0110cpu:0
Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: xyz
Invalid device string: 'cuda:'
Invalid device string: 'cuda:-1'
Invalid device string: 'cuda:01'
Device string must not be empty
Invalid device string: 'cpu:0x'
mps mps -1000mps
xpu:0 xpu 0100xpu:0
Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: CPU
privateuseone privateuseone -1000privateuseone
30cpu:0cpuCUDA
TensorOptions(dtype=float, device=cpu, layout=Strided, requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))TensorOptions(dtype=float (default), device=cpu (default), layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=ChannelsLast)
"""     # what libtorch 2.13 prints


def test_torch_dtypes_and_devices(tmp_path):
    assert run_torch_program("dtypes.cpp", tmp_path) == DTYPES


STEPPED = """\
sgd a9db6fdb 045e9871
decay eb783832 16f61356
momentum 4b2e78a4 69d872ec
dampening a6a900e0 5941f789
nesterov 18ea4d6b d5618870
adam a028d7fa 6a11930b
betas afb68ab9 7311d4f2
decay 615872eb 0ed77240
amsgrad b96a5690 bbc8e3fb
adamw 3b724a07 198a147e
undecayed a028d7fa 6a11930b
amsgrad af3baa52 25f40127
rmsprop 650e08cf 0f8758d7
decay 8cfb6047 be0bc71b
momentum e2088ace 07c98ef0
centered 682da3c1 0669c134
all 4708ffec 5a9e50e2
adagrad 419df7c6 1ef450b5
all 1bdec552 ee9b6467
sparse -1.05208 0.26134 2.27603 1.91328 -2.00155 0.38587
lbfgs 0.312413 0.097168 0.078212 0.078074 8146794d
wolfe 0.312413 0.079859 0.078070 0.078070 4dbcf953
"""     # what libtorch 2.13 prints where square roots are rounded as IEEE 754 has it; its MKL rounds them otherwise on processors that are not Intel's


@pytest.mark.skipif(" fma " not in pathlib.Path("/proc/cpuinfo").read_text(), reason="without fused multiplication and addition the last bits are others")
def test_optimizers_round_as_libtorch(tmp_path):
    torch.manual_seed(5)
    usual = torch.randn(2000, dtype=torch.float64).view(torch.int64).sum().item() == 448158921978781366  # else a logarithm or cosine of this C library rounds otherwise
    told = run_torch_program("optim.cpp", tmp_path).splitlines()
    columns = None if usual else 2
    assert [line.split()[:columns] for line in told] == [line.split()[:columns] for line in STEPPED.splitlines()]


def test_torch_layers(tmp_path):
    assert run_torch_program("layers.cpp", tmp_path) == LAYERS


def test_torch_runs_programs(tmp_path):
    net = Net()
    with torch.no_grad():
        net.linear.weight.copy_(torch.tensor([[0.5, 1, 0.25], [1, 0.5, 0.75]]))
        net.linear.bias.copy_(torch.tensor([1, 1.125]))
    torch.jit.script(net).save(str(tmp_path / "net.pt"))
    x = torch.arange(6.).reshape(2, 3)
    y = net(x)
    y.sum().backward()
    rows = "".join(" ".join("%8.4f" % v for v in row) + "\n" for row in y.tolist())
    grads = "linear.weight %g\nlinear.bias %g\n" % (net.linear.weight.grad.sum().item(), net.linear.bias.grad.sum().item())
    with torch.no_grad():
        for p in net.parameters():
            p += 1
    expected = rows + "[ CPUFloatType{2,2} ]\n" + grads + "one\n0 %g\n2 1\n0 1 1\nthrown\n" % net.eval()(x).sum().item()
    assert run_torch_program("program.cpp", tmp_path, str(tmp_path / "net.pt"), str(tmp_path / "saved.pt")) == expected
    assert torch.equal(torch.jit.load(str(tmp_path / "saved.pt"))(x), net(x))


class Inner(torch.nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.linear = torch.nn.Linear(n, 2)
        self.register_buffer("seen", torch.zeros(1))
        self.scale = 0.5

    def forward(self, x):
        return self.linear(x) * self.scale


class Everything(torch.nn.Module):
    names: List[str]
    table: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.inner = Inner(3)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
        self.names = ["a", "b"]
        self.table = {"one": 1, "two": 2}
        self.count = 3
        self.flag = True
        self.weights = torch.nn.Parameter(torch.arange(2.))
        self.title = "net"
        self.pair = (1, "x")

    def forward(self, x, k: int = 2, names: Optional[List[str]] = None) -> Dict[str, torch.Tensor]:
        y = self.inner(x)
        for layer in self.layers:
            y = layer(y)
        out = {"y": y * k, "w": self.weights}
        if names is not None:
            for n in names:
                out[n] = y.sum()
        return out

    @torch.jit.export
    def encode(self, s: str, d: Dict[str, int]) -> List[int]:
        return [d[w] if w in d else -1 for w in s.split()]

    @torch.jit.export
    def mixed(self, xs: List[torch.Tensor], p: Tuple[int, float], deep: List[List[int]]) -> Tuple[List[torch.Tensor], float, List[List[int]], Optional[int], Dict[int, float], bool]:
        return [x + p[0] for x in xs], p[1] * 2, deep + [[7]], None, {1: 0.5, 2: 1.5}, len(xs) > 1

    @torch.jit.export
    def bump(self) -> int:
        self.count += 1
        self.names.append("c")
        return self.count


SCRIPTED = """\
cat
dog
10 2
-0.5898 -1.3711
[ CPUFloatType{1,2} ]
y -2.94122
w 1
p -0.980408
q -0.980408
-0.2949 -0.6855
[ CPUFloatType{1,2} ]
[4, -1, 4]
([ 3  3  3
[ CPUFloatType{1,3} ],  3  3  3
[ CPUFloatType{1,3} ]], 0.5, [[1, 2], [7]], None, {1: 0.5, 2: 1.5}, True)
6111111
2 2 7
3Truenet[a, b]{one: 1, two: 2}(1, x)
44[a, b, c]105
11 4
110.5 -0.10795
weights inner.linear.weight inner.linear.bias layers.0.weight layers.0.bias layers.1.weight layers.1.bias weights inner.seen inner layers [] [inner] [inner.linear] [layers] [layers.0] [layers.1] seen training scale linear linear.weight linear.bias linear.training 2 6 7
forward bump encode mixed 10
11100011 1
Double
more11
3[1, 2.5, x]{t: (True, None)}
(1, t, 2.5)10
thrown
thrown
thrown
thrown
"""     # what libtorch 2.13 prints, but for the attribute _is_full_backward_hook of modules


def test_torch_scripts_of_any_values(registered, tmp_path):
    torch.manual_seed(0)
    torch.jit.save(torch.jit.script(Everything().eval()), tmp_path / "net.pt", _extra_files={"labels.txt": "cat\ndog"})
    torch.save({"a": torch.arange(3), "list": [1, 2.5, "x"], "nested": {"t": (True, None)}}, tmp_path / "pickle.pt")

    class Objects(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = registered.Words(["u", "v"])

        def forward(self, x, c: torch.classes.test_classes.Counter):
            self.words.merge(torch.classes.test_classes.Words(["n"]))
            return self.words.pop(), len(self.words), torch.ops.test_classes.twice(c).apply(x), c.get()

    torch.jit.save(torch.jit.script(Objects()), tmp_path / "objects.pt")
    told = run_torch_program("scripted.cpp", tmp_path, *(str(tmp_path / name) for name in ("net.pt", "pickle.pt", "saved.pt", "objects.pt")))
    assert told == SCRIPTED + "102\nn2 82 2\nthrown\n"
    assert torch.jit.load(tmp_path / "saved.pt").count == 11


MADE = """\
 1
 2
[ CPUFloatType{2} ]
1f21
 -1
 16
[ CPUFloatType{2} ]
2f21
(s41 2, -4, [2, 4])
1f21
 3
 4
[ CPUFloatType{2} ]
3f21
thrown when run
1f21
thrown
thrown
thrown
thrown when run
0thrown
 5
[ CPUFloatType{1} ] 3
[ CPUFloatType{1} ]
 0.5000  1.5000
[ CPUFloatType{1,2} ]
 0.2500  0.7500
[ CPUFloatType{1,2} ]
 1.5000  2.5000
[ CPUFloatType{1,2} ]00
[a, b, c][a, b, c]{c: 3}499
(1, None)(2,  1  1
[ CPUFloatType{1,2} ])
3 2forward
weight child.bias seen training weight seen scale names count table maybe child child.training child.bias child forward helper add_name count_up opt 
 1.5000  2.5000
[ CPUFloatType{1,2} ]910{c: 3}
 3  5
[ CPUFloatType{1,2} ]
1009 1.5000  2.5000
[ CPUFloatType{1,2} ]
 3.5000  6.5000
[ CPUFloatType{1,2} ]
 3.5000  6.5000
[ CPUFloatType{1,2} ]
 1
 1
[ CPUFloatType{2} ]1
 0.9000
 0.9000
[ CPUFloatType{2} ]
double
float
c10::Half
 1.5000  2.5000
[ CPUFloatType{1,2} ]0010109
 1.5000  2.5000
[ CPUFloatType{1,2} ] 1.5000  2.5000
[ CPUFloatType{1,2} ]2
module __torch__.Child {
  parameters {
    bias = ...
  }
  attributes {
    training = False
    bias =  1
     1
    [ CPUFloatType{2} ]
  }
  methods {
    method forward {
    }
  }
  submodules {
  }
}

module __torch__.Child {
  parameters {
    bias =  1
     1
    [ CPUFloatType{2} ]
  }
  attributes {
    training = False
    bias =  1
     1
    [ CPUFloatType{2} ]
  }
  methods {
    method forward {
    }
  }
  submodules {
  }
}

11
thrown
thrown
thrown
thrown
thrown
thrown
thrown
registered
registered
"""     # what libtorch 2.13 prints


def test_torch_programs_of_text(tmp_path):
    assert run_torch_program("made.cpp", tmp_path, *(str(tmp_path / name) for name in ("net.pt", "outer.pt"))) == MADE
    net, outer = torch.jit.load(tmp_path / "net.pt"), torch.jit.load(tmp_path / "outer.pt")
    assert [name for name, _ in net.named_parameters()] == ["weight", "child.bias"] and [name for name, _ in net.named_buffers()] == ["seen"]
    assert net(torch.ones(1, 2)).tolist() == [[1.5, 2.5]] and net.count_up(2) == 11 and net.add_name("z") == ["a", "b", "c", "z"]
    assert outer(torch.ones(1, 2)).tolist() == [[3.5, 6.5]] and len(list(outer.parameters())) == 4


def test_readme_as_cpp(tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text(re.search(r"```c\n(.*?)```", (ROOT / "README.md").read_text(), re.S).group(1))
    assert printed("g++", "-std=c++17", source, tmp_path / "program") == "tensor([2., 4., 6.])\n"


@pytest.mark.parametrize("compiler, flags", [("gcc", "-x c -std=gnu11 -Wshadow"), ("clang++", "-x c++ -std=c++11")])
def test_each_header_alone(compiler, flags):
    text = "".join(f"#include <rushlight/{h.name}>\n" for h in sorted((ROOT / "include/rushlight").glob("*.h")))
    compiled(compiler, *flags.split(), "-fsyntax-only", "-", text=text)


def test_examples_compile_without_a_warning():
    compiled("gcc", "-std=gnu11", "-Wno-unused-parameter", "-fsyntax-only", "-I", ROOT / "src", *sorted((ROOT / "examples").rglob("*.c")))


OPERATOR = """
#include <rushlight/library.h>
#include <rushlight/ops.h>
static int twice(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)arg, (void)op;
    out[0] = rush_v_tensor(rush_mul(in[0].t, 2));
    return rush_error() ? -1 : 0;
}
static int same(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)arg;
    for (int i = 0; i < op->nout; ++i) out[i] = in[i];
    return 0;
}
static int fill(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)arg, (void)op, (void)out;
    return rush_copy_(in[1].t, in[0].t) ? 0 : -1;
}
static int again(void *arg, const rush_op *op, const rush_value *in, rush_value *out)
{
    (void)arg;
    bool was = rush_grad_enabled_set(false);
    int failed = rush_call(op, in, out);
    rush_grad_enabled_set(was);
    return failed;
}
int register_operations(void)
{
    if (!rush_library_define("from_c::again(Tensor x) -> Tensor") || rush_library_impl("from_c::again", "Autograd", again, NULL, NULL)) return -1;
    if (!rush_library_define("from_c::fill(Tensor x, Tensor(a!) out) -> ()") || rush_library_impl("from_c::fill", "CPU", fill, NULL, NULL)) return -1;
    static const char nested[] = "from_c::nested(Dict(str, Tensor[]) a, (int, str)[]? b, bool[][] c, Dict(int, float?) d) -> (Dict(str, Tensor[]), (int, str)[]?, bool[][], Dict(int, float?))";
    if (!rush_library_define(nested) || rush_library_impl("from_c::nested", "CPU", same, NULL, NULL)) return -1;
    return rush_library_define("from_c::twice(Tensor x) -> Tensor") ? rush_library_impl("from_c::twice", "CPU", twice, NULL, NULL) : -1;
}
"""


OPERATOR_HEADERS = """
#include "parts/plus.h"
#include <ATen/ops/full.h>
TORCH_LIBRARY(with_headers, m)
{
    m.def("more(Tensor x) -> Tensor", [](const at::Tensor &x) { return plus(x, at::full({2}, 3)); }, {at::Tag::pt2_compliant_tag});
    m.def(torch::schema("none(Tensor x) -> Tensor"), {at::Tag::pointwise});
}
"""


def test_a_header_for_each_operator(tmp_path):
    from rushlight.utils import cpp_extension
    if sanitizers() or not shutil.which("g++"):
        pytest.skip("g++ is not installed, or the extension would need the library's sanitizers")
    (tmp_path / "from" / "parts").mkdir(parents=True)
    (tmp_path / "from" / "parts" / "plus.h").write_text("#include <torch/library.h>\n#include <ATen/ops/add.h>\ninline at::Tensor plus(at::Tensor a, at::Tensor b) { return at::add(a, b); }\n")
    (tmp_path / "more.cpp").write_text(OPERATOR_HEADERS)
    cpp_extension.load("with_headers", [str(tmp_path / "more.cpp")], is_python_module=False, build_directory=str(tmp_path), extra_include_paths=[str(tmp_path / "from")], extra_cflags=["-O0"])
    assert torch.ops.with_headers.more(torch.ones(2)).tolist() == [4, 4]
    assert sorted(path.name for path in (tmp_path / "include" / "ATen" / "ops").iterdir()) == ["add.h", "full.h"]


def test_torch_h_of_extensions(tmp_path):
    """Where an extension is built torch/torch.h has what torch/extension.h has: lists are converted, the module's name is known."""
    from rushlight.utils import cpp_extension
    pytest.importorskip("pybind11")
    if sanitizers() or not shutil.which("g++"):
        pytest.skip("g++ is not installed, or the extension would need the library's sanitizers")
    (tmp_path / "sum.cpp").write_text("#include <torch/torch.h>\n"
                                      "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"sum\", [](std::vector<at::Tensor> list) { return at::stack(list).sum(0); }); }\n")
    module = cpp_extension.load("with_torch_h", [str(tmp_path / "sum.cpp")], build_directory=str(tmp_path), extra_cflags=["-O0"])
    assert module.sum([torch.ones(2), torch.ones(2)]).tolist() == [2, 2]


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """tests/cpp/classes.cpp, loaded."""
    if sanitizers() or not shutil.which("g++"):
        pytest.skip("g++ is not installed, or the extension would need the library's sanitizers")
    built = tmp_path_factory.mktemp("classes") / "classes.so"
    compiled("g++", "-std=c++17", "-O0", "-fPIC", "-shared", *[f"-I{top}/include/rushlight/cpp" for top in (ROOT, BUILD)], ROOT / "tests" / "cpp" / "classes.cpp", *LINK, "-o", built)
    torch.classes.load_library(str(built))
    assert str(built) in torch.classes.loaded_libraries
    return torch.classes.test_classes


def test_registered_classes(registered):
    words = registered.Words(["hi", "there"])
    assert isinstance(words, torch.ScriptObject) and type(words).__name__ == "ScriptObject" and str(words._type()) == "__torch__.torch.classes.test_classes.Words"
    words.push("you")
    assert words.pop() == "you" and words.top() == "there" and len(words) == 2 and words.both() == (True, ["hi", "there"])
    other = words.clone()
    other.merge(words)
    assert len(other) == 4 and len(words) == 2
    assert words._method_names()[:3] == ["__init__", "top", "push"] and words._has_method("pop") and not words._has_method("pops")
    for wrong in lambda: words.push(1), lambda: words.push(), lambda: words.push("a", "b"), lambda: registered.Words(3), lambda: registered.Words([]).pop(), lambda: registered.Nothing, \
            lambda: torch.ops.test_classes.scaled(torch.ones(1), words), lambda: torch.ops.test_classes.twice(3), lambda: type(words)().top():
        with pytest.raises((RuntimeError, TypeError)):
            wrong()
    with pytest.raises(RuntimeError, match=r"push\(\) Expected a value of type 'str' for argument '_1' but instead found type 'int'"):
        words.push(1)
    with pytest.raises(RuntimeError, match="was not made by its class"):
        type(words).__new__(type(words)).top()
    with pytest.raises(AttributeError, match="does not have a field with name 'nothing'"):
        words.nothing
    with pytest.raises(NotImplementedError, match="'__add__' is not implemented"):
        words + words


def test_registered_properties_and_operators(registered):
    c = registered.Counter()
    assert c.get() == c.count == c.value == 5 and c.weight.tolist() == [1, 1] and c.doubled(4) == 8
    c.count = 7
    assert c.value == 7
    c.value = 3
    assert c.count == 3 and registered.Counter.of(9).count == 9 and registered.Counter(1, weight=torch.zeros(1)).weight.tolist() == [0]
    with pytest.raises(RuntimeError, match="can't set attribute"):
        c.weight = torch.ones(1)
    with pytest.raises(RuntimeError, match="no.* attribute|does not have an attribute"):
        c.other = 1
    x = torch.ones(2, requires_grad=True)
    c.apply(x=x).sum().backward()
    assert x.grad.tolist() == [3, 3]
    ops = torch.ops.test_classes
    assert ops.scaled(x, c).tolist() == [3, 3] and ops.twice(c).get() == 6 and ops.total([c, ops.twice(c)], c) == 12 and ops.total([], None) == 0 and ops.through_ivalue(4) == 4


def test_registered_classes_are_saved(registered, tmp_path):
    import copy
    import pickle
    words = registered.Words(["a", "b"])
    again = copy.deepcopy(words)
    again.push("c")
    assert len(again) == 3 and len(words) == 2 and pickle.loads(pickle.dumps(words)).top() == "b"
    torch.save({"w": words}, tmp_path / "w.pt")
    assert torch.load(tmp_path / "w.pt", weights_only=False)["w"].top() == "b"
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "w.pt")
    with pytest.raises(RuntimeError, match="does not have a __getstate__ method"):
        pickle.dumps(registered.Counter())


def test_registered_classes_in_programs(registered, tmp_path):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = registered.Words(["u", "v"])

        def forward(self, x, c: torch.classes.test_classes.Counter):
            own = torch.classes.test_classes.Counter(3, None)
            own.count = c.get() + c.count
            self.words.merge(torch.classes.test_classes.Words(["n"]))
            return self.words.pop(), len(self.words), torch.ops.test_classes.twice(own).apply(x), torch.ops.test_classes.total([own, c], None)

    net, c = torch.jit.script(Net()), registered.Counter(2, None)
    assert net(torch.ones(2), c)[::3] == ("n", 6) and net(torch.ones(2), c)[2].tolist() == [8, 8]
    torch.jit.save(net, tmp_path / "net.pt")
    loaded = torch.jit.load(tmp_path / "net.pt")
    assert loaded(torch.ones(2), c)[:2] == ("n", 2) and loaded.words.top() == "v"
    with pytest.raises(RuntimeError):
        loaded(torch.ones(2), registered.Words([]))

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return torch.ops.test_classes.scaled(x, c)

    with pytest.raises(NotImplementedError, match="no objects of registered classes"):
        torch.export.export(Scaled(), (torch.ones(2),))


def test_python_adds_to_operators_of_shared_objects(tmp_path, monkeypatch):
    from rushlight.testing._internal.optests import OpCheckError, opcheck
    from rushlight.utils import cpp_extension
    if sanitizers():
        pytest.skip("the extension would need the library's sanitizers")
    if not shutil.which("cc"):
        pytest.skip("cc is not installed")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    (tmp_path / "twice.c").write_text(OPERATOR)
    torch.library.register_autograd("from_c::twice", lambda ctx, g: g * 2)     # it comes later
    cpp_extension.load("from_c", [str(tmp_path / "twice.c")], is_python_module=False)
    fill, seen = torch.ops.from_c.fill.default, []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))
    with Seen():
        fill(torch.ones(2), torch.zeros(2))
    assert fill in seen      # nobody has given it anything in Python
    graph = make_fx(lambda x, out: (fill(x, out), out.clone())[1])(torch.ones(2), torch.zeros(2))
    assert fill in [node.target for node in graph.graph.nodes] and graph(torch.ones(2), torch.zeros(2)).tolist() == [1, 1]
    with FakeTensorMode() as fake:
        assert fill(fake.from_tensor(torch.ones(2)), fake.from_tensor(torch.zeros(2))) is None
    packet = torch.ops.from_c.twice
    overload, known = packet.default, {packet: 1}
    torch.library.register_fake("from_c::twice", lambda x: torch.empty_like(x))
    assert torch.ops.from_c.twice is packet and packet.default is overload and known[packet] and packet.overloads() == ["default"]
    x = torch.ones(3, requires_grad=True)
    assert overload(torch.ones(2, device="meta")).shape == (2,)
    again, meta = torch.ops.from_c.again, torch.ones(3, device="meta")
    for given in x, x.detach(), meta:
        with pytest.raises(NotImplementedError, match="Could not run 'from_c::again' with arguments from the '(CPU|Meta)' backend"):
            again(given)            # its function calls it below autograd, where nothing is
    library = torch.library.Library("from_c", "IMPL", "Meta")
    library.impl(again.default, lambda x: x.new_empty(7))
    assert again(meta).shape == again(meta.clone().requires_grad_()).shape == (7,)
    y = torch.ops.from_c.twice(x)
    y.sum().backward()
    assert y.tolist() == x.grad.tolist() == [2, 2, 2]
    assert torch.ops.from_c.twice(torch.ones(2, device="meta")).shape == (2,)
    assert set(opcheck(torch.ops.from_c.twice.default, (x,)).values()) == {"SUCCESS"}
    assert set(opcheck(torch.ops.from_c.fill.default, (x, torch.zeros(3))).values()) == {"SUCCESS"}     # it has no fake, and needs none
    torch.library.register_fake("from_c::twice", lambda x: x.new_empty(7))
    with pytest.raises(OpCheckError, match="test_faketensor failed .* Shapes torch.Size..3.. and torch.Size..7.. are not equal"):
        torch.library.opcheck(torch.ops.from_c.twice.default, (x,))
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        torch.library.opcheck(torch.ops.from_c.twice.default, (x,), test_utils="test_other")
    given = {"x": [x, y], "": []}, [(1, "one")], [[True], []], {3: None, 4: 0.5}
    got = torch.ops.from_c.nested(*given)
    assert got == given and got[0]["x"][0] is x and type(got[2][0][0]) is bool
    assert torch.ops.from_c.nested({}, None, [], {})[1] is None
    for bad in ({1: [x]}, None, [], {}), ({}, [(1, 2)], [], {}), ({}, None, [True], {}), ({}, None, [], {3: "x"}):
        with pytest.raises((TypeError, RuntimeError)):
            torch.ops.from_c.nested(*bad)


def test_tests_of_operators_are_made_of_tests_that_call_them(tmp_path):
    from rushlight.testing._internal import optests
    for name, kernel in ("made_of_tests::good", torch.sin), ("made_of_tests::bad", lambda x: x.mul_(2).clone()):
        torch.library.define(name, "(Tensor x) -> Tensor")
        torch.library.impl(name, "CPU", kernel)
        torch.library.register_fake(name, torch.empty_like)

    class Tests:
        def test_good(self):
            assert not optests.is_inside_opcheck_mode()
            return torch.ops.made_of_tests.good(torch.ones(3, requires_grad=True))

        def test_bad(self):
            return torch.ops.made_of_tests.bad.default(torch.ones(3))

        @optests.dontGenerateOpCheckTests("it is slow")
        def test_none(self):
            return 0

    statuses = {"made_of_tests::bad": {"Tests.test_faketensor__test_bad": {"status": "xfail", "comment": ""}, "Tests.test_aot_dispatch_dynamic__test_bad": {"status": "skip", "comment": ""}}}
    (tmp_path / "failures.json").write_text('{"_description": "", "_version": 1, "data": %s}' % str(statuses).replace("'", '"'))
    optests.generate_opcheck_tests(Tests, ["made_of_tests"], str(tmp_path / "failures.json"), {"test_schema__test_good": [lambda test: lambda self: (test(self), "seen")]})
    tests = Tests()
    assert len([name for name in dir(tests) if name.startswith("test_")]) == 3 + 2 * 4
    assert tests.test_schema__test_good()[1] == "seen" and tests.test_faketensor__test_good().shape == (3,)
    tests.test_aot_dispatch_dynamic__test_bad()
    with pytest.raises(optests.OpCheckError, match="test_schema__test_bad, failed on operators .'made_of_tests::bad'") as failed:
        tests.test_schema__test_bad()
    assert "not defined as mutable" in str(failed.value.__cause__)
    with pytest.raises(optests.OpCheckError, match="Unexpected success for operator made_of_tests::bad"):
        tests.test_faketensor__test_bad()
    with pytest.raises(RuntimeError, match="has a test test_schema__test_bad already"):
        optests.generate_opcheck_tests(Tests, ["made_of_tests"], str(tmp_path / "failures.json"))


def test_sizes_that_depend_on_data():
    def sized(dtype):
        return lambda x: x.new_empty((torch.library.get_ctx().new_dynamic_size(), x.dim()), dtype=dtype)
    for name, fake, wrong in ("right", sized(torch.int64), False), ("dtype", sized(torch.int32), True), ("dims", lambda x: x.new_empty(3, 2, dtype=torch.int64), True):
        torch.library.define("sized_by_data::" + name, "(Tensor x) -> Tensor")
        torch.library.impl("sized_by_data::" + name, "CPU", lambda x: x.nonzero())
        torch.library.register_fake("sized_by_data::" + name, fake)
        result = torch.library.opcheck(getattr(torch.ops.sized_by_data, name).default, (torch.tensor([0., 2, 0, 3]),), test_utils="test_faketensor", raise_exception=False)
        assert (result["test_faketensor"] != "SUCCESS") == wrong
    with pytest.raises(RuntimeError, match="may return an output Tensor with data-dependent shape"):
        torch.ops.sized_by_data.right(torch.ones(2, device="meta"))
    with FakeTensorMode(), pytest.raises(DynamicOutputShapeException, match="sized_by_data.right.default"):
        torch.ops.sized_by_data.right(torch.ones(2))


def test_what_only_writes_needs_no_fake():
    library = torch.library.Library("only_writes", "DEF")
    library.define("both(Tensor x, Tensor(a!)? out, Tensor(b!)[] list) -> ()")
    library.define("counts(Tensor(a!) x) -> int")
    library.define("reads(Tensor x) -> ()")
    library.impl("both", lambda x, out, list: [t.copy_(x) for t in [out, *list] if t is not None] and None, "CPU")
    for name in "counts", "reads":
        library.impl(name, lambda x: None, "CPU")
    x = torch.ones(3)
    for out in None, torch.zeros(3):
        assert set(torch.library.opcheck(torch.ops.only_writes.both.default, (x, out, [torch.zeros(3)])).values()) == {"SUCCESS"}
    for name in "counts", "reads":
        with pytest.raises(NotImplementedError, match="Meta"):
            getattr(torch.ops.only_writes, name)(x.to("meta"))
