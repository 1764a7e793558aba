"""Adding an operation touches two places: a record in its family's file and a row of behaviour.tsv. One is added in a copy.

Only the copy's one file is compiled; the library is linked again with it, and Python runs with that library in place of the other.
"""
import json
import os
import shlex
import subprocess
import sys

import pytest
from places import BUILD, ROOT


pytestmark = pytest.mark.skipif(not (BUILD / "compile_commands.json").exists(), reason="there is no build folder")

RECORD = """
static void tripled_cpu(const rush_op *op, const rush_value *in, rush_value *out)
{
    rush_tensor *y = T("mul.Tensor", in[0], V(3));
    if (y) rush_copy_into(out[0].t, y);
}

static void tripled_grad(rush_grads *s)
{
    if (s->g[0]) s->gin[0] = T("mul.Tensor", V(s->g[0]), V(3));
}

static rush_op op_tripled = {
    .schema = "tripled(Tensor self) -> Tensor", .method = RUSH_ALL_FORMS, .doc = "Three times self.", .shape = rush_same_shape, .cpu = tripled_cpu, .grad = tripled_grad};

RUSH_FAMILY(scan, &op_tripled, """
ROW = "torch.ones(2).tripled()\t('T', 'torch.float32', (2,), (1,), False, '[3.0, 3.0]', 'Tensor')"

PROGRAM = """
import io, sys
import rushlight as torch
from test_behaviour import answer
snippet, wanted = sys.argv[1].split("\\t")
assert answer(snippet) == wanted, answer(snippet)
x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
y = torch.tripled(x)
assert torch.equal(y, x * 3) and "TripledBackward0" in repr(y)
assert torch.autograd.gradcheck(torch.tripled, (x,)) and torch.autograd.gradgradcheck(torch.tripled, (x,))
z = torch.ones(2)
assert z.tripled_() is z and torch.tripled_(z) is z and z.tolist() == [9, 9]
assert torch.tripled(z, out=torch.empty(2)).tolist() == torch.ops.aten.tripled(z).tolist() == torch.ops.aten.tripled_(z.clone()).tolist() == [27, 27]
assert torch.tripled(torch.ones(5, device="meta")).shape == (5,)
assert torch.vmap(torch.tripled)(torch.ones(2, 3)).tolist() == [[3] * 3] * 2
with torch.profiler.profile() as seen:
    torch.tripled(z)
assert "aten::tripled" in [event.key for event in seen.key_averages()]
assert "Three times self" in torch.tripled.__doc__
"""


def run(*command, **env):
    done = subprocess.run(command, cwd=BUILD, env=dict(os.environ, **env), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, " ".join(map(str, command))[:300] + done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def without_cache(command):
    return [word for word in shlex.split(command) if not word.endswith("ccache")]


def test_an_operation_is_a_record_and_a_row(tmp_path):
    file = next((ROOT / "src/ops").rglob("scan.c"))
    text = file.read_text()
    assert text.count("\nRUSH_FAMILY(scan, ") == 1
    copy = tmp_path / "scan.c"
    copy.write_text(text.replace("\nRUSH_FAMILY(scan, ", RECORD))

    commands = json.loads((BUILD / "compile_commands.json").read_text())
    compiled = next(c for c in commands if (BUILD / c["file"]).resolve() == file)
    words = without_cache(compiled["command"])
    where = {"-c": str(copy), "-o": str(tmp_path / "scan.o"), "-MF": str(tmp_path / "scan.d")}
    run(*(where.get(before, word) for before, word in zip([""] + words, words)))

    old = compiled["output"]
    members = [str(BUILD / member) for member in run("ar", "t", "libcore.a").split() if member != old]
    assert len(members) == len(run("ar", "t", "libcore.a").split()) - 1
    run("ar", "csrDT", str(tmp_path / "libcore.a"), *members, str(tmp_path / "scan.o"))
    library = tmp_path / "librushlight.so.0"
    link = without_cache(run("ninja", "-t", "commands", "librushlight.so.0.1.0").strip().splitlines()[-1])
    run(*(str(library) if before == "-o" else str(tmp_path / "libcore.a") if word == "libcore.a" else word for before, word in zip([""] + link, link)))

    path = os.pathsep.join([str(ROOT / "tests/python"), *sys.path])
    run(sys.executable, "-c", PROGRAM, ROW, LD_PRELOAD=str(library), PYTHONPATH=path)
    assert "tripled(Tensor self)" in run(str(BUILD / "rushlight"), "ops", "tripled", LD_PRELOAD=str(library))


def test_without_the_record_it_is_not_there():
    with pytest.raises(AssertionError, match="tripled"):
        run(sys.executable, "-c", PROGRAM, ROW, PYTHONPATH=os.pathsep.join([str(ROOT / "tests/python"), *sys.path]))
