#!/usr/bin/env python3
"""Call every operation with arguments drawn from its schema, under the sanitizers, and print each call that breaks something.

    tests/fuzz/operations.py --package build-san/package [--calls N | --seconds N] [--seed S] [--first I] [NAME...]
    tests/fuzz/operations.py --package build-san/package --line 'op("add.Tensor")(t((2,), "float32", 1), 2)'

A call is one line of Python, made of the helpers below (op, t, backward, ...), so that what was found is repeated with --line.
Its forms: plain, out=, in place, on meta tensors, on sparse ones, with a backward pass (and a second one through it). Arguments
are drawn freshly, or are those of a call that succeeded with one of them changed; the first of these are the lines of
operations.txt. An error is the expected end of most calls. A finding is a crash, a report of a sanitizer, a failed assertion
inside, an error without a reason, words on the terminal, or a call that takes more than LIMIT seconds of a processor. The same seed makes the same calls.

BLOCK calls in a row are of one operation. Children of one warm process make CHUNK calls each; the parent sees in shared memory which call a child is at.
"""
import argparse
import collections
import functools
import math
import mmap
import os
import pathlib
import random
import re
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
LIMIT, BLOCK, CHUNK, ROOM = 20, 200, 2000, 1 << 16
PATIENCE = 600  # seconds of the clock after which a call hangs, on a machine with other things to do
ENOUGH = 3  # findings of one operation, after which it is left out

# ---- what lines are made of ----

FLOATS = ["float32", "float64", "float16", "bfloat16"]
COMPLEX = ["complex64", "complex128", "complex32"]
INTS = ["int64", "int32", "uint8", "int8", "int16"]
RARE = ["bool", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
SPARSE = ["coo", "csr", "csc", "bsr", "bsc"]
ODD_NUMBERS = [math.nan, math.inf, -math.inf, 1e308, -0.0, 5e-324]
ODD_INTS = [-1, 2**31 - 1, 2**31, -2**31, 2**40, 2**62, 2**63 - 1, -2**63, 2**63, 2**70]


class T(collections.namedtuple("T", "size dtype seed how")):
    """A tensor of a line: t(size, dtype, seed of its values, how it lies)."""
    def __repr__(self):
        return f"t({self.size}, {self.dtype!r}, {self.seed}{', ' + repr(self.how) if self.how else ''})"


class Code(str):
    __repr__ = str.__str__


@functools.lru_cache(None)
def table(kind, low=0, high=0):
    """Two thousand numbers of a kind, from which tensors take theirs."""
    rng = random.Random(f"{kind} {low} {high}")
    draw = {"odd": lambda: rng.choice(ODD_NUMBERS), "share": rng.random, "whole": lambda: float(rng.randint(-3, 3)), "zero": lambda: 0.0, "gauss": lambda: rng.gauss(0, 1),
            "bool": lambda: rng.random() < 0.5, "integer": lambda: rng.randint(low, high), "edge": lambda: rng.choice([low, high, -1 if low else 0])}[kind]
    return [draw() for _ in range(2000)]


def values(size, dtype, seed):
    """A flat list of numbers; the last decimal digit of the seed says of what kind."""
    n, digit = math.prod(size), seed % 10
    if dtype == "bool":
        numbers = table("bool")
    elif "int" in dtype:
        low, high = {0: (-3, 3), 1: (0, 1), 2: (0, 8), 9: (-100, 100)}.get(digit, (0, max(min(size, default=1) - 1, 0)))
        numbers = table("integer", 0 if dtype[0] == "u" else low, high)
        if digit == 8:
            bits = int(re.sub(r"\D", "", dtype))
            numbers = table("edge", *((0, 2**bits - 1) if dtype[0] == "u" else (-2**(bits - 1), 2**(bits - 1) - 1)))
    else:
        numbers = table({0: "odd", 1: "share", 2: "whole", 3: "zero"}.get(digit, "gauss"))
    at = seed // 10 * 7 % 1000  # seeds are below 1000
    if dtype in COMPLEX:
        numbers = [complex(a, b) for a, b in zip(numbers[at:at + min(n, 999)], numbers[at + 1:])]
    else:
        numbers = numbers[at:at + min(n, 999)]
    return numbers if n < 1000 else (numbers * (n // 999 + 1))[:n]


def t(size, dtype, seed, how=""):
    words = how.split()
    size, kind = tuple(size), getattr(torch, dtype)
    if "meta" in words:
        x = torch.empty(size, dtype=kind, device="meta")
    else:
        x = torch.tensor(values(size, dtype, seed), dtype=torch.complex64 if dtype == "complex32" else kind).to(kind).view(size)
    for w in words:
        if w == "turned" and x.dim() > 1:
            x = x.transpose(0, -1).contiguous().transpose(0, -1)
        elif w == "stepped" and x.dim():
            x = torch.cat([x, x], -1)[..., ::2]
        elif w == "expanded" and x.dim() and x.size(0):
            x = x[:1].expand(size)
        elif w == "overlapping" and x.numel():
            x = x.as_strided(size, [1] * x.dim())
        elif w == "conj" and x.is_complex():
            x = x.conj()
        elif w == "coo":
            x = x.to_sparse()
        elif w == "uncoalesced":
            x = torch.sparse_coo_tensor(*(lambda y: (torch.cat([y._indices()] * 2, 1), torch.cat([y._values()] * 2)))(x.to_sparse()), size)
        elif w == "hybrid":
            x = x.to_sparse(1)
        elif w in ("csr", "csc"):
            x = getattr(x, "to_sparse_" + w)()
        elif w in ("bsr", "bsc"):
            x = getattr(x, "to_sparse_" + w)((1, 1))
        elif w == "grad":
            x = x.detach().requires_grad_()
        elif w == "inner":
            x = x.detach().requires_grad_() * 1
    return x


class Changing:
    """An item whose __index__ and __float__ change the list that it is in."""
    def __init__(self, target, value, how):
        self.target, self.value, self.how = target, value, how

    def __index__(self):
        if self.how == "clear":
            self.target.clear()
        elif self.how == "grow":
            self.target.extend([1] * 1000)
        elif self.how == "replace":
            self.target[:] = [object() for _ in self.target]
        return self.value

    def __float__(self):
        return float(self.__index__())


def changing(how, n):
    items = []
    items.extend(Changing(items, 1, how) for _ in range(n))
    return items


def op(name, inplace=False):
    base, _, overload = name.partition(".")
    try:
        found = torch._C._get_operation_overload("aten::" + base + ("_" if inplace else ""), overload)
    except RuntimeError:  # "No such operator"
        found = None
    return found and found[0]


def tensors(x):
    return [x] if isinstance(x, torch.Tensor) else [y for z in x for y in tensors(z)] if isinstance(x, (tuple, list)) else []


def backward(result, how=""):
    """Backward from all results that want it; "twice": a second one through the first; "sparse", "expanded": of the first's gradient."""
    roots = [r for r in tensors(result) if r.requires_grad]
    if not roots:
        return result
    grads = [torch.ones_like(r) for r in roots]
    if how == "expanded":
        grads = [torch.ones((), dtype=r.dtype).expand(r.shape) for r in roots]
    elif how == "sparse":
        grads = [g.to_sparse() for g in grads]
    elif how == "odd":
        grads = [g * math.nan for g in grads]
    if how != "twice":
        return torch.autograd.backward(roots, grads)
    leaves = [leaf for leaf in seen if leaf.requires_grad]
    first = torch.autograd.grad(roots, leaves, grads, create_graph=True, allow_unused=True)
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        torch.autograd.backward(again, [torch.ones_like(g) for g in again])
    return result


seen = []  # the tensors of the line that is running, for backward


def run(line):
    seen.clear()
    space = {"t": lambda *a: seen.append(t(*a)) or seen[-1], "op": op, "backward": backward, "changing": changing, "torch": torch, "nan": math.nan, "inf": math.inf}
    return eval(line, space)


# ---- drawing calls ----

Arg = collections.namedtuple("Arg", "type list optional name kwonly default")


def arguments(schema):
    """The arguments of a schema, as Arg."""
    inside, depth = "", 0
    for c in schema[schema.index("(") + 1:]:
        depth += (c in "([") - (c in ")]")
        if depth < 0:
            break
        inside += c
    args, kwonly = [], False
    for part in re.split(r", (?![^\[(]*[\])])", inside) if inside else []:
        if part == "*":
            kwonly = True
            continue
        head, _, default = part.partition("=")
        kind, name = head.rsplit(" ", 1)
        kind = re.sub(r"\([^)]*\)", "", kind)
        word = re.match(r"\w+", kind).group()
        args.append(Arg(word, "[" in kind, kind.endswith("?"), name, kwonly, "=" in part))
    return args


class Draw:
    """Arguments of one call: sizes that have to do with each other, most of the time."""
    def __init__(self, rng, form):
        self.rng, self.form = rng, form
        self.size = tuple(rng.choice([1, 2, 2, 3, 3, 4, 5, 0, 17] if rng.random() < 0.2 else [2, 3, 4, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5])))
        if rng.random() < 0.3 and len(self.size) > 1:
            self.size = self.size[:-1] + self.size[-2:-1]
        self.dtype = rng.choice(rng.choice([FLOATS[:2], FLOATS[:2], FLOATS, COMPLEX, INTS, RARE]))
        if form.startswith("backward") and self.dtype not in FLOATS + COMPLEX:
            self.dtype = "float32"

    def some_size(self):
        rng, s = self.rng, self.size
        how = rng.random()
        if how < 0.6:
            return s
        if how < 0.7:
            return tuple(1 if rng.random() < 0.4 else n for n in s)[rng.choice([0, 0, 1]):]
        if how < 0.85:
            return rng.choice([s[-1:], s[:1], s[:-1], s[1:2], s[1:], s[::-1], s[:2], s[:-1] + s[-1:] * 2, s + s[-1:], s[-2:][::-1], ()])
        return tuple(rng.choice([0, 1, 2, 3, 4, 5, 7]) for _ in range(rng.choice([0, 1, 2, 3, 4, 5, 7])))

    def tensor(self, name=""):
        rng = self.rng
        dtype, seed = self.dtype, rng.randrange(1000)
        if re.search(r"ind(ex|ices)|target|offset|bucket|batch_sizes|length|labels|pivots|(col|row|crow|ccol)_", name) and rng.random() < 0.85:
            dtype = rng.choice(["int64", "int64", "int64", "int32", "uint8"])
        elif re.search(r"mask|condition", name) and rng.random() < 0.8:
            dtype = "bool"
        elif rng.random() < 0.1:
            dtype = rng.choice(FLOATS + COMPLEX + INTS + RARE)
        how = []
        if rng.random() < 0.2:
            how.append(rng.choice(["turned", "stepped", "expanded", "overlapping", "conj"]))
        if self.form.startswith("sparse") and rng.random() < 0.6:
            how.append(rng.choice(SPARSE + ["coo", "uncoalesced", "hybrid"]))
        if self.form == "meta" and rng.random() < 0.9:
            how = ["meta"]
        if (self.form.startswith("backward") or self.form.endswith("backward")) and dtype in FLOATS + COMPLEX and rng.random() < 0.8:
            how.append("inner" if self.form.endswith("inplace") else "grad")
        return T(self.some_size(), dtype, seed, " ".join(how))

    def integer(self, name=""):
        rng = self.rng
        if rng.random() < 0.04:
            return rng.choice(ODD_INTS)
        if "dim" in name or "axis" in name:
            return rng.randint(-len(self.size) - 1, len(self.size)) if rng.random() < 0.3 else rng.randrange(max(len(self.size), 1))
        return rng.choice([0, 1, 1, 1, 2, 2, 3, 4, -1, -2, 7] + list(self.size))

    def number(self):
        rng = self.rng
        return rng.choice([rng.choice([0, 1, 2, 3, -1]), rng.choice([0.5, 1.0, 2.5, -0.5, 0.0, 0.1]), rng.choice([0.5, 1.0]), rng.choice(ODD_NUMBERS + [True, 2**63 - 1, -2**63])
                           if rng.random() < 0.2 else 1, 1.5 + 2j if rng.random() < 0.2 else 2])

    def one(self, a):
        """A value for the argument as the schema has it, mostly."""
        rng = self.rng
        if a.optional and rng.random() < 0.4:
            return None
        if rng.random() < 0.01:
            return rng.choice([None, "text", 1.5, [], (), {}, -1, [[1]], True, [None], Code("object()"), Code("torch.float32"), Code("changing('clear', 4)")])
        if a.list:
            if a.type in ("int", "SymInt", "bool"):
                if rng.random() < 0.03:
                    return Code(f"changing({rng.choice(['clear', 'grow', 'replace'])!r}, {rng.choice([1, 2, 8])})")
                if re.search("size|shape", a.name) and "kernel" not in a.name and rng.random() < 0.7:
                    return list(self.some_size())
                if a.type == "bool":
                    return [rng.random() < 0.5 for _ in range(rng.choice([1, 2, 3, 3, 4]))]
                return [self.integer(a.name) for _ in range(rng.choice([0, 1, 2, 2, 3, 1, 2, 2, 3, 4, 6, 8]))]
            n = rng.choice([0, 1, 2, 2, 3, 4])
            item = a._replace(list=False, optional=False)
            if a.type in ("Scalar", "float") and rng.random() < 0.03:
                return Code(f"changing({rng.choice(['clear', 'grow', 'replace'])!r}, 4)")
            return [self.one(item) for _ in range(n)]
        return {
            "Tensor": lambda: self.tensor(a.name),
            "int": lambda: self.integer(a.name), "SymInt": lambda: self.integer(a.name),
            "float": lambda: rng.choice([0.5, 1.0, 0.0, 2.0, 1e-5, rng.choice(ODD_NUMBERS)]),
            "Scalar": self.number,
            "bool": lambda: rng.random() < 0.5,
            "str": lambda: rng.choice(["mean", "sum", "none", "linear", "reflect", "ij", "reduced", "L", "", "amax", "prod", "tanh", "left", "nonsense", "complete", "fro", "floor", "trunc", "right"]),
            "ScalarType": lambda: Code("torch." + rng.choice(FLOATS + COMPLEX[:2] + INTS + RARE)),
            "Device": lambda: rng.choice(["cpu", "cpu", "meta"]),
            "Layout": lambda: Code("torch." + rng.choice(["strided", "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])),
            "MemoryFormat": lambda: Code("torch." + rng.choice(["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"])),
            "Generator": lambda: None,
        }.get(a.type, lambda: None)()

    def all(self, args):
        rng = self.rng
        return {a.name: self.one(a) for a in args if not a.default or rng.random() < 0.4}


def changed(rng, draw, args, given):
    """The same call with one or two arguments drawn anew or, of tensors, with another size, dtype or layout."""
    given = dict(given)
    if not args:
        return given
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        a = rng.choice(args)
        old = given.get(a.name)
        at = None
        if isinstance(old, list) and old and isinstance(old[0], T) and rng.random() < 0.8:
            at = rng.randrange(len(old))
            old = old[at]
        if isinstance(old, T) and rng.random() < 0.8:
            size, how = list(old.size), rng.random()
            if how < 0.5 and size:
                i = rng.randrange(len(size))
                size[i] = rng.choice([0, 1, size[i] + 1, max(size[i] - 1, 0), size[i] * 2, 7])
            elif how < 0.6 and size:
                del size[rng.randrange(len(size))]
            elif how < 0.7:
                size.insert(rng.randint(0, len(size)), rng.choice([0, 1, 2, 3]))
            new = old._replace(size=tuple(size))
            if how > 0.9:
                new = new._replace(dtype=rng.choice(FLOATS + COMPLEX + INTS + RARE))
            elif how > 0.8:
                new = new._replace(seed=rng.randrange(1000))
            elif how > 0.7:
                new = new._replace(how=draw.tensor().how)
        elif at is not None:
            continue
        else:
            new = draw.one(a)
        if at is not None:
            new = [*given[a.name][:at], new, *given[a.name][at + 1:]]
        given[a.name] = new
    return given


def rehow(given, draw):
    """Tensors as the form wants them: on meta, sparse, with gradients."""
    def one(x):
        if isinstance(x, T):
            how = draw.tensor()
            return x._replace(how=how.how) if how.how or "grad" in x.how or "meta" in x.how else x
        return [one(y) for y in x] if isinstance(x, list) else x
    return {k: one(v) for k, v in given.items()}


FORMS = ["plain"] * 6 + ["out"] * 4 + ["inplace"] * 3 + ["sparse"] * 4 + ["sparse out", "sparse inplace", "sparse backward"] + ["meta"] * 2 + ["backward"] * 5 + ["backward inplace"] * 2


class Caller:
    def __init__(self, names, seed):
        self.seed, self.turn = seed, None
        schemas = {s.split("(")[0]: s for base in {n.split(".")[0] for n in torch._C._dispatch_get_all_op_names()} for s in torch._C._schemas(base)}
        self.args = {n: arguments(s) for n, s in sorted(schemas.items())}
        self.names = [n for n in self.args if not names or any(w in n for w in names)]
        self.good = collections.defaultdict(list)  # name -> arguments with which it succeeded
        for line in (HERE / "operations.txt").read_text().splitlines():
            if line and line[0] != "#":
                name = re.match(r'op\("([^"]*)"\)', line).group(1)
                given = eval(line, {"t": lambda *a: T(*a, *[""] * (4 - len(a))), "op": lambda n: lambda *a, **k: {**{x.name: v for x, v in zip(self.args[n], a)}, **k}, "torch": Names("torch")})
                self.good[name].append(given)

    def draw(self, i, out):
        """The line of call i, and what is remembered if it succeeds."""
        rng = random.Random(self.seed << 40 | i)
        turn, place = divmod(i // BLOCK, len(self.names))
        if turn != self.turn:
            self.turn, self.order = turn, random.Random(self.seed << 20 | turn).sample(self.names, len(self.names))
        name = self.order[place]
        if name in out:
            return None
        form, args = rng.choice(FORMS), self.args[name]
        if "inplace" in form and not op(name, True):
            form = form.replace("inplace", "").strip() or "plain"
        draw = Draw(rng, form)
        known = self.good[name]
        if known and rng.random() < 0.6:
            given = dict(rng.choice(known))
            if form != "plain":
                given = rehow(given, draw)
            if rng.random() < 0.85:
                given = changed(rng, draw, args, given)
        else:
            given = draw.all(args)
        words, broken = [], False
        for a in args:
            if a.name not in given:
                broken = True
            else:
                words.append(f"{a.name}={given[a.name]!r}" if broken or a.kwonly else repr(given[a.name]))
        if "out" in form:
            draw.form = form.split()[0] if "sparse" in form else "plain"
            outs = [draw.tensor() for _ in range(rng.choice([1, 1, 1, 2, 3]))]
            words.append(f"out={outs[0] if len(outs) == 1 else tuple(outs)!r}")
        line = f"op({name!r}{', True' if 'inplace' in form else ''})({', '.join(words)})".replace("'", '"')
        if "backward" in form:
            how = rng.choice(["", "", "twice", "twice", "expanded", "sparse", "odd"])
            line = f"backward({line}, {how!r})".replace("'", '"')
        return name, line, given

    def remember(self, i, name, given):
        known = self.good[name]
        if len(known) < 12:
            known.append(given)
        else:
            known[random.Random(i).randrange(12)] = given


class Names:
    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return Code(f"{self.path}.{name}")


# ---- children ----

EXPECTED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError, MemoryError, AttributeError, KeyError, ZeroDivisionError, OSError)


def child(caller, first, last, board, out, told):
    """Makes the calls; a finding that does not kill it is written to `told`."""
    said = os.open(REPORTS / f"said.{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    told_so_far = 0
    os.makedirs(REPORTS / "files", exist_ok=True)
    os.chdir(REPORTS / "files")  # what operations write comes here
    for i in range(first, last):
        drawn = caller.draw(i, out)
        if not drawn:
            continue
        name, line, given = drawn
        text = line.encode()[:ROOM - 64]
        board[16:16 + len(text)] = text
        board[8:16] = len(text).to_bytes(8, "little")
        board[0:8] = (i + 1).to_bytes(8, "little")
        began = time.process_time()
        try:
            torch.manual_seed(i)
            run(line)
            caller.remember(i, name, given)
            board[ROOM - 8:ROOM] = (int.from_bytes(board[ROOM - 8:ROOM], "little") + 1).to_bytes(8, "little")
        except EXPECTED as error:
            if "INTERNAL ASSERT" in str(error) or not str(error):
                print(f"{name}\t{line}\t{type(error).__name__}: {error}", file=told, flush=True)
        except BaseException as error:
            if str(error) == "Torch not compiled with CUDA enabled":  # PyTorch's AssertionError
                continue
            print(f"{name}\t{line}\t{type(error).__name__}: {error}", file=told, flush=True)
        size = os.fstat(said).st_size
        if size > told_so_far:  # LAPACK's words, say
            print(f"{name}\t{line}\tprinted: {os.pread(said, 300, told_so_far).decode(errors='replace')!r}", file=told, flush=True)
            told_so_far = size
        if time.process_time() - began > LIMIT / 2:
            print(f"{name}\t{line}\tslow: {time.process_time() - began:.1f} s", file=told, flush=True)
    os._exit(0)


def processor(pid):
    """Seconds of a processor that the child has used; 0 where that is not told."""
    try:
        words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def reason(pid, reports):
    """What the sanitizers wrote about a process that died: the first line and the frames inside the library."""
    text = ""
    for path in (reports / f"report.{pid}", reports / f"said.{pid}"):
        text += path.read_text(errors="replace") if path.exists() else ""
        path.unlink(missing_ok=True)
    head = re.search(r".*(?:ERROR: |runtime error: |a bug in the library: ).*", text)
    frames = re.findall(r"#\d+ \S+ in (\S+) (\S*/(?:src|python/_C)/\S+)", text)[:6]
    return (head.group().strip() if head else "no report") + "".join(f"\n      {f} {w[w.find('/src/') if '/src/' in w else w.find('/python/'):]}" for f, w in frames)


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--package", type=pathlib.Path, required=True)
    cli.add_argument("--calls", type=int, default=0)
    cli.add_argument("--seconds", type=float, default=0)
    cli.add_argument("--seed", type=int, default=1)
    cli.add_argument("--first", type=int, default=0)
    cli.add_argument("--line")
    cli.add_argument("--reports", type=pathlib.Path)
    cli.add_argument("names", nargs="*")
    args = cli.parse_args()
    reports = (args.reports or args.package.parent / "fuzz-reports").resolve()
    if "RUSHLIGHT_FUZZED" not in os.environ:  # once more, with the sanitizers loaded first
        import sanitizers
        env = sanitizers.environment(reports)
        env["ASAN_OPTIONS"] += ":handle_abort=1:max_allocation_size_mb=1500:soft_rss_limit_mb=3000:quarantine_size_mb=32:fast_unwind_on_malloc=1"
        env["UBSAN_OPTIONS"] += ":halt_on_error=1"
        if args.line:
            for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
                env[key] = re.sub(r":?log_path=[^:]*", "", env[key])
        env.update(RUSHLIGHT_FUZZED="1", PYTHONPATH=str(args.package.resolve()), OMP_NUM_THREADS="1", PYTHONHASHSEED="0")
        os.execve(sys.executable, [sys.executable, *sys.argv], env)
    global torch, REPORTS
    REPORTS = reports
    import rushlight as torch
    import warnings
    warnings.simplefilter("ignore")
    if args.line:
        print(run(args.line))
        return 0
    caller = Caller(args.names, args.seed)
    board = mmap.mmap(-1, ROOM)
    told = open(reports / "told.txt", "w+")
    out, findings, count, at, began = set(), [], collections.Counter(), args.first, time.time()
    read = slowest = 0

    def note(name, line, why):
        findings.append((name, line, why))
        count[name] += 1
        if count[name] >= ENOUGH:
            out.add(name)
        print(f"FINDING {line}\n    {why}", flush=True)

    while (not args.calls or at - args.first < args.calls) and (not args.seconds or time.time() - began < args.seconds):
        last = (at // CHUNK + 1) * CHUNK
        if args.calls:
            last = min(last, args.first + args.calls)
        board[0:8] = at.to_bytes(8, "little")
        pid = os.fork()
        if not pid:
            child(caller, at, last, board, out, told)
        seen_at, since, spent, status = None, time.time(), 0, None
        while status is None:
            done, code = os.waitpid(pid, os.WNOHANG)
            now = int.from_bytes(board[0:8], "little")
            if now != seen_at:
                seen_at, since, spent = now, time.time(), processor(pid)
            slowest = max(slowest, processor(pid) - spent)
            if done:
                status = code
            elif processor(pid) - spent > LIMIT or time.time() - since > PATIENCE:
                os.kill(pid, signal.SIGABRT)
                since = time.time() + 30
            else:
                time.sleep(0.02)
        told.seek(read)
        for row in told.read().splitlines():
            name, line, why = row.split("\t", 2)
            note(name, line, why)
        read = told.tell()
        now = int.from_bytes(board[0:8], "little")
        if not status:
            (reports / f"said.{pid}").unlink(missing_ok=True)
        else:
            line = bytes(board[16:16 + int.from_bytes(board[8:16], "little")]).decode()
            name = re.search(r'op\("([^"]*)"', line).group(1)
            note(name, line, f"ended by {'signal %d' % (status & 127) if status & 127 else 'exit %d' % (status >> 8)}: {reason(pid, reports)}")
        at = now
        if at // CHUNK % 10 == 0 and at % CHUNK == 0:
            print(f"{at - args.first} calls, {time.time() - began:.0f} s, {len(findings)} findings", flush=True)
    succeeded = int.from_bytes(board[ROOM - 8:ROOM], "little")
    print(f"{at - args.first} calls over {len(caller.names)} operations, {succeeded} of them without an error, {time.time() - began:.0f} s; slowest {slowest:.1f} s; {len(findings)} findings"
          + (f"; left out after {ENOUGH}: {', '.join(sorted(out))}" if out else ""))
    return len(findings) > 0


if __name__ == "__main__":
    sys.exit(main())
