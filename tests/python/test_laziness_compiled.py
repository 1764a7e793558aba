"""What a C compiler makes of work that is put off gives the bits of the library's own loops: src/op/later_compile.c."""
import os
import subprocess
import sys
import time
import warnings

import laziness
import pytest
import rushlight as torch

C = torch._C
BEHIND, AT_ONCE, NEVER = 1, 2, 3
F = torch.nn.functional

# Rows that need no function of a library, in chains.
UNARY = ("neg abs sign square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p asin acos atan sinh cosh tanh sigmoid erf floor ceil trunc round frac relu "
         "nan_to_num logit deg2rad positive").split()
NN = "silu softplus softsign hardtanh hardsigmoid hardswish leaky_relu elu mish gelu logsigmoid softshrink hardshrink tanhshrink".split()
BINARY = "add sub mul div maximum minimum fmax fmin pow copysign lt le gt ge eq ne xlogy".split()


@pytest.fixture
def at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTORCH_KERNEL_CACHE_PATH", str(tmp_path / "kernels"))
    C._later_compile(AT_ONCE)
    yield tmp_path / "kernels"
    C._later_compile(NEVER)


def numbers(n=9000):
    torch.manual_seed(n)
    x = torch.randn(n) * torch.tensor([1e-3, 1.0, 30.0, 1e10])[torch.arange(n) % 4]
    odd = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-41, -3e-45, 3.4e38, -3.4e38, 1.0, -1.0, 0.5, 2.5, 88.8, -87.5, 104.0, -104.0]
    x[100:100 + len(odd)] = torch.tensor(odd)
    return x


def bits(t):
    return t.contiguous().view(torch.int32 if t.dtype == torch.float32 else t.dtype)


def check(f, *args, loops=1):
    """As many loops are made of f, and give what f gives without; NaN is any NaN."""
    before = C._later_compile(AT_ONCE)
    plain, compiled = f(*args), torch.compile(f)(*args)
    assert C._later_compile(AT_ONCE) - before == loops
    for a, b in zip(plain, compiled, strict=True):
        if a.dtype.is_floating_point:
            assert torch.equal(torch.isnan(a), torch.isnan(b))
            a, b = torch.nan_to_num(a, nan=7.0, posinf=float("inf"), neginf=-float("inf")), torch.nan_to_num(b, nan=7.0, posinf=float("inf"), neginf=-float("inf"))
        assert torch.equal(bits(a), bits(b))


@pytest.mark.parametrize("name", UNARY + NN)
def test_functions(at_once, name):
    f = getattr(F, name) if name in NN else getattr(torch, name)
    check(lambda x: (f(x * 1) + 0,), numbers())


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(at_once, name):
    x = numbers()
    check(lambda x, y: (getattr(torch, name)(x * 1, y),), x, x.flip(0).roll(7))


def test_all_kinds_of_operands(at_once):
    x, y = numbers().view(90, 100), numbers().flip(0).view(90, 100)
    row, column, one, mask, half = torch.randn(100), torch.randn(90, 1), torch.tensor(0.7), torch.rand(90, 100) > .5, torch.randn(100).half()
    check(lambda: ((x + row) * column, (x + row).tanh() - one), loops=1)
    check(lambda: (torch.where(mask, x * 2, y).exp() + 1, (x > y) & mask, mask * x), loops=0)         # truth values among themselves are left to the loops
    check(lambda: (torch.where(mask, x * 2, y).exp() + 1, torch.where(x > y, x, 0.5) * mask), loops=1)
    check(lambda: (torch.where(mask[0], x, y) * row + half, x.t().contiguous()), loops=1)
    check(lambda: ((x * half).half() + 1, x + 0), loops=0)                                            # nor are results in half types taken
    check(lambda: (torch.where(mask[0], x, y) * row * mask[:, :1],), loops=1)
    check(lambda: (x.t() * 2 - row.view(100, 1), x.clamp(-1, 1)), loops=1)
    check(lambda: (torch.addcmul(x, y, row, value=.3).lerp(y, .25), torch.addcdiv(x, y, x, value=-2)))


def test_results_that_are_written_over(at_once):
    def f(x, y):
        z = x * 2
        z.add_(y).mul_(x).tanh_()
        x.add_(1)
        w = x * y
        y.copy_(z - w)
        return z, w, x, y
    x, y = numbers(), numbers().flip(0)
    before = C._later_compile(AT_ONCE)
    plain, compiled = f(x.clone(), y.clone()), torch.compile(f)(x.clone(), y.clone())
    assert C._later_compile(AT_ONCE) > before
    assert all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(plain, compiled, strict=True))


def test_numbers_are_no_part_of_a_loop(at_once):
    f = torch.compile(lambda x, k: (x * k + k).tanh())
    x, before = numbers(), C._later_compile(AT_ONCE)
    for k in (2, 3.5, -1.0):
        assert torch.equal(torch.nan_to_num(f(x, k)), torch.nan_to_num((x * k + k).tanh()))
    assert C._later_compile(AT_ONCE) - before == 1


@pytest.mark.parametrize("first", (400, 410))
def test_random_programs(at_once, first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + 10):
            plain, compiled = laziness.run(seed), torch.compile(laziness.run)(seed)
            assert plain[1] == compiled[1] and torch.equal(plain[2], compiled[2]), seed
            assert len(plain[0]) == len(compiled[0]) and all(map(laziness.same, plain[0], compiled[0])), seed


@pytest.mark.parametrize("name", "lgamma digamma atan2 sin cos tan sinc remainder fmod".split())
def test_what_needs_a_library_stays_with_the_loops(at_once, name):
    f = getattr(torch, name)
    check(lambda x: ((f(x * 1, x) if name in ("atan2", "remainder", "fmod") else f(x * 1)) + 1,), numbers(), loops=0)
    assert [f.stat().st_size for f in at_once.iterdir()] == [0]
    assert not [f for f in at_once.parent.iterdir() if f != at_once]


PROGRAM = """
import sys, time
import rushlight as torch
x, how = torch.randn(1 << 16), int(sys.argv[1])
f = torch.compile(lambda x: (x * 2 + 1).tanh() - x)
plain = (x * 2 + 1).tanh() - x
if how > 1: torch._C._later_compile(how)
end = time.time() + float(sys.argv[2])
while True:
    assert torch.equal(f(x), plain)
    made = torch._C._later_compile(1)
    if made or time.time() > end: break
print(made)
"""


def program(how, seconds, **env):
    env = {**{k: v for k, v in os.environ.items() if k != "CC"}, **env}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(how), str(seconds)], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return int(done.stdout)


def test_behind_what_runs_and_then_from_disk(tmp_path):
    env = {"PYTORCH_KERNEL_CACHE_PATH": str(tmp_path / "a" / "b")}
    assert program(BEHIND, 200, **env) == 1
    made = list((tmp_path / "a" / "b").iterdir())
    assert len(made) == 1 and made[0].stat().st_size > 0
    assert program(AT_ONCE, 200, CC="/nowhere/cc", **env) == 1 # what is kept needs no compiler


def test_where_there_is_no_compiler(tmp_path):
    env = {"PYTORCH_KERNEL_CACHE_PATH": str(tmp_path / "kernels")}
    for how, more in ((AT_ONCE, {"CC": "/nowhere/cc"}), (AT_ONCE, {"CC": "sh -c 'kill -9 $$'"}), (BEHIND, {"RUSHLIGHT_COMPILE": "0"}), (AT_ONCE, {"USE_PYTORCH_KERNEL_CACHE": "0"})):
        assert program(how, .3, **env, **more) == 0
        assert not (tmp_path / "kernels").exists() or not list((tmp_path / "kernels").iterdir())


def test_a_folder_of_others_is_not_looked_in(tmp_path):
    folder = tmp_path / "kernels"
    env = {"PYTORCH_KERNEL_CACHE_PATH": str(folder)}
    assert program(AT_ONCE, 200, **env) == 1
    folder.chmod(0o777)
    assert program(AT_ONCE, .3, **env) == 0
    folder.chmod(0o700)
    kept, = folder.iterdir()
    kept.write_bytes(kept.read_bytes()[:200]) # cut short: of no use, and no harm
    assert program(AT_ONCE, .3, **env) == 0


def test_the_program_may_end_meanwhile(tmp_path):
    """What it had begun is finished, or nothing is left."""
    for wait in (0, .02, .1):
        subprocess.run([sys.executable, "-c", PROGRAM.replace("    if made or", "    if "), str(BEHIND), str(wait)], check=True, capture_output=True,
                       env={**os.environ, "PYTORCH_KERNEL_CACHE_PATH": str(tmp_path / "kernels")}, timeout=300)
    end = time.time() + 100
    while time.time() < end and any(".so." in f.name for f in (tmp_path / "kernels").glob("*")):
        time.sleep(.1)
    assert all(f.name.endswith(".loop.so") for f in (tmp_path / "kernels").glob("*"))
