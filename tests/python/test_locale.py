"""Programs that set a locale: numbers have points all the same, and an i in capitals is an I."""
import os
import shutil
import subprocess
import sys

import pytest

# What reads or writes numbers and names, each once. Printed without a locale, and with one.
PROGRAM = """
import io, locale, os, sys, tempfile
if len(sys.argv) > 1:
    locale.setlocale(locale.LC_ALL, sys.argv[1])
    assert locale.localeconv()["decimal_point"] == ","
import rushlight as torch
from rushlight.utils.tensorboard import SummaryWriter

x = torch.linspace(-1.5, 1.25, 4, requires_grad=True)
print(x * 1e-9, x[[0]].grad_fn.name(), torch.index_select(x, 0, torch.tensor([1])).grad_fn.name(), torch.finfo(torch.float16), torch.tensor(1.5 + 0.25j))
print(torch.ops.aten.leaky_relu.default._schema, torch._C.parse_schema("a::b(Tensor x, float y=0.75, float[] z=[0.5, 1e-3]) -> Tensor"))

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.leaky_relu(x, 0.125) * 1.75

@torch.jit.script
def f(x, s: str):
    return x * 1.5 + 0.25, float(s), str(2.5), "{}".format(1e-7), "%f" % 2.5, "hi".upper(), "IN".lower()

def again(save, load):
    file = io.BytesIO()
    save(file)
    file.seek(0)
    return load(file)

print(f(x, "3.5"), f.code, again(lambda to: torch.jit.save(f, to), torch.jit.load)(x, "0.5"))
program = torch.export.export(Net(), (x.detach(),))
print(again(lambda to: torch.export.save(program, to), torch.export.load).module()(x.detach()))
print(torch.compile(lambda x: (x * 1.5 + 0.25).sin() * 0.125)(torch.ones(3)))
for wrong in (lambda: torch.nn.functional.dropout(x, 1.5), lambda: torch.linalg.norm(torch.ones(2, 2), 2.5)):
    try:
        wrong()
    except Exception as e:
        print(e)
with tempfile.TemporaryDirectory() as home:
    torch.export.save(program, home + "/net.pt2")
    os.system("%s/rushlight compile %s/net.pt2 -o %s/net.c >%s/said" % (os.environ["RUSHLIGHT_BUILD"], home, home, home))
    print(open(home + "/net.c").read())
    with SummaryWriter(home) as w:
        w.add_embedding(torch.tensor([[0.5, 1.25]]))
    print(*[open(os.path.join(at, name)).read() for at, _, names in os.walk(home) for name in names if name == "tensors.tsv"])
"""


@pytest.fixture(scope="module")
def locale_of_ours(tmp_path_factory):
    """A folder with the locale "ours": a comma in numbers, and no capital I for i. Made here, since few machines have more than C's."""
    if not shutil.which("localedef"):
        pytest.skip("there is no localedef, which makes locales (Debian: libc-bin)")
    home = tmp_path_factory.mktemp("locale")
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    (home / "ascii").write_text("<code_set_name> ANSI_X3.4-1968\n<comment_char> %\n<escape_char> /\nCHARMAP\n"
                                + "".join("<U%04X> /x%02x\n" % (c, c) for c in range(128)) + "END CHARMAP\n")
    word = {c: "<U%04X>" % ord(c) for c in letters + [c.upper() for c in letters]}
    (home / "ours").write_text("\n".join([
        "LC_NUMERIC", 'decimal_point ","', 'thousands_sep ""', "grouping -1", "END LC_NUMERIC", "LC_CTYPE",
        "upper " + ";".join(word[c.upper()] for c in letters), "lower " + ";".join(word[c] for c in letters),
        "toupper " + ";".join("(%s,%s)" % (word[c], word[c.upper()]) for c in letters if c != "i"),
        "tolower " + ";".join("(%s,%s)" % (word[c.upper()], word[c]) for c in letters if c != "i"), "END LC_CTYPE", ""]))
    (home / "made").mkdir()
    subprocess.run(["localedef", "-c", "-i", home / "ours", "-f", home / "ascii", home / "made/ours"], capture_output=True)  # it warns of what is not there
    assert (home / "made/ours/LC_NUMERIC").exists()
    return home / "made"


def test_a_locale_changes_nothing(locale_of_ours, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def said(*names):
        env = {**os.environ, "LOCPATH": str(locale_of_ours), "PYTHONUTF8": "1"}
        done = subprocess.run([sys.executable, tmp_path / "program.py", *names], env=env, capture_output=True, text=True)
        assert not done.returncode and not done.stderr, done.stderr
        return done.stdout
    plain = said()
    assert "0.125" in plain and "IndexBackward0" in plain and "0.5\t1.25" in plain
    assert said("ours") == plain
