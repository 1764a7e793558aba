"""Drawing calls for the fuzzer of operations: arguments from schemas, calls that succeeded with something changed, their forms."""
import collections
import math
import pathlib
import random
import re

import rushlight as torch
from lines import COMPLEX, FLOATS, INTS, ODD_INTS, ODD_NUMBERS, PYTHON, RARE, SPARSE, VIEWS, WORDS, Again, Code, T, op

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 200  # calls of one operation in a row
HUGE = [2**18, 2**31, 2**32, 2**40, 2**62, 2**63 - 1]  # the first: what makes a tensor of each row ends in time even under the sanitizers
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
    def __init__(self, rng, form, words=()):
        self.rng, self.form, self.words = rng, form, words
        self.size = tuple(rng.choice([1, 2, 2, 3, 3, 4, 5, 0, 17] if rng.random() < 0.2 else [2, 3, 4, 5]) for _ in range(rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5])))
        if rng.random() < 0.3 and len(self.size) > 1:
            self.size = self.size[:-1] + self.size[-2:-1]
        if rng.random() < 0.01:
            self.size = self.size[:2] + (rng.choice([64, 257, 1024]),)
        if rng.random() < (0.1 if form == "meta" else 0.015):  # without elements, or without memory
            self.size = tuple(rng.choice(HUGE) if rng.random() < 0.6 else n for n in self.size)
            if form != "meta" or rng.random() < 0.5:
                at = rng.randint(0, len(self.size))
                self.size = self.size[:at] + (0,) + self.size[at:]
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
        if rng.random() < 0.04:
            return self.again()
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

    def again(self):
        return Again(self.rng.randrange(3), self.rng.choice(["same"] * 3 + [*VIEWS]))

    def index(self, deep=0):
        """What stands in brackets."""
        rng = self.rng
        few = lambda draw: [draw() for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))]
        return rng.choice([
            lambda: self.integer("dim"), lambda: slice(*[rng.choice([None, 0, 1, 2, -1, -2, self.integer()]) for _ in range(3)]), lambda: rng.choice([None, ..., True, False]),
            lambda: T(self.some_size(), rng.choice(["int64", "int64", "bool", "uint8", "int32", "float32"]), rng.randrange(1000), ""), lambda: T(self.size, "bool", rng.randrange(1000), ""),
            lambda: few(lambda: self.integer("dim")), lambda: few(lambda: rng.random() < 0.5), lambda: Code(f"changing({rng.choice(['clear', 'grow', 'replace'])!r}, {rng.choice([1, 2, 8])})"),
            lambda: tuple(few(lambda: self.index(deep + 1))) if deep < 2 else 0, lambda: few(lambda: self.index(deep + 1)) if deep < 2 else 1, self.anything if not deep else lambda: 0])()

    def nested(self, deep=0):
        """Lists in lists, mostly of one shape."""
        rng = self.rng
        if deep == 0 and rng.random() < 0.05:
            return Code(rng.choice(["itself()", "range(5)", "b'bytes'", "changing('clear', 3)", "[changing('grow', 2), [1, 1]]", "[[[]]] * 3", "iter([1])", "{1: 2}", "bytearray(7)"]))
        size = self.size[:4] if 0 not in self.size and max(self.size, default=0) < 100 else (2, 3)
        if deep < len(size) and rng.random() < 0.95:
            n = rng.randint(0, 4) if rng.random() < 0.03 else size[deep]
            kind = tuple if rng.random() < 0.2 else list
            return kind(self.nested(deep + 1) for _ in range(n))
        return rng.choice([self.number, lambda: rng.randint(-3, 3), lambda: rng.randint(0, 1), lambda: self.tensor() if rng.random() < 0.1 else T((), "float32", 4, ""), lambda: rng.choice([None, "x", True, 2**70, 1j])
                           if rng.random() < 0.1 else 1.5])()

    def anything(self):
        rng = self.rng
        return rng.choice([self.tensor, self.tensor, self.number, self.integer, self.nested, lambda: rng.choice([None, "cpu", "meta", "float32", "torch.LongTensor", (), [], True, Code("object()"), Code("torch.strided")]),
                           lambda: Code("torch." + rng.choice(FLOATS + COMPLEX + INTS + RARE)), lambda: Code(f"bytearray({rng.choice([0, 7, 40])})"), lambda: self.index(1)])()

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
                           if rng.random() < 0.2 else 1, 1.5 + 2j if rng.random() < 0.2 else 2,
                           T(rng.choice([(), (), (1,)]), self.dtype, rng.randrange(1000), "") if rng.random() < 0.1 else 1])

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
            "Index": self.index, "Nested": self.nested, "Any": self.anything,
            "Function": lambda: Code(rng.choice(["lambda *x: 1.0", "lambda *x: x[0]", "lambda *x: None", "lambda *x: 1 / 0", "lambda *x: again(0, 'same').resize_(0) and 1", "'text'", "lambda *x: again(0, 'same')"])),
            "Storage": lambda: Code(f"{self.tensor()!r}.untyped_storage()"),
            "str": lambda: rng.choice(self.words or ["mean", "sum", "none", "linear", "reflect", "ij", "reduced", "L", "", "amax", "prod", "tanh", "left", "nonsense", "complete", "fro", "floor", "trunc", "right"]),
            "ScalarType": lambda: Code("torch." + rng.choice(FLOATS + COMPLEX[:2] + INTS + RARE)),
            "Device": lambda: rng.choice(["cpu", "cpu", "meta"]),
            "Layout": lambda: Code("torch." + rng.choice(["strided", "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])),
            "MemoryFormat": lambda: Code("torch." + rng.choice(["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"])),
            "Generator": lambda: rng.choice([None, Code("torch.Generator()")]),
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


def oddly(rng, args, given, meta):
    """The same call with one of its numbers at an end of its range, or a tensor with a huge size or with integers that overflow."""
    def one(x):
        if isinstance(x, bool) or x is None or isinstance(x, str):
            return x
        if isinstance(x, int):
            return rng.choice(ODD_INTS + HUGE)
        if isinstance(x, float):
            return rng.choice(ODD_NUMBERS)
        if isinstance(x, (list, tuple)) and not isinstance(x, T) and x:
            at = rng.randrange(len(x))
            return [*x[:at], one(x[at]), *x[at + 1:]]
        if not isinstance(x, T):
            return x
        if rng.random() < 0.4:
            return x._replace(dtype=rng.choice(INTS), seed=8 + x.seed // 10 * 10)
        size = list(x.size)
        for at in rng.sample(range(len(size)), min(len(size), rng.choice([1, 1, 2]))):
            size[at] = rng.choice(HUGE + [0, 0])
        if 0 not in size and not meta:
            size.insert(rng.randint(0, len(size)), 0)
            if len(size) > len(x.size) > 0 and rng.random() < 0.8:
                del size[rng.choice([i for i, n in enumerate(size) if n])]
        return x._replace(size=tuple(size))

    given = dict(given)
    for a in rng.sample(args, min(len(args), rng.choice([1, 1, 2]))):
        given[a.name] = one(given.get(a.name, 1 if a.type in ("int", "SymInt") and not a.list else None))
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
    def __init__(self, names, seed, odd=False):
        self.seed, self.turn, self.odd = seed, None, odd
        schemas = {s.split("(")[0]: s for base in {n.split(".")[0] for n in torch._C._op_names()} for s in torch._C._schemas(base)}
        schemas.update({name: schema for name, (schema, _) in PYTHON.items()})
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
        for word in ["inplace"] * (name in PYTHON or not op(name, True)) + ["out"] * (name in PYTHON):
            form = form.replace(word, "").strip() or "plain"
        draw = Draw(rng, form, WORDS.get(name, ()))
        known = self.good[name]
        if known and rng.random() < 0.6:
            given = dict(rng.choice(known))
            if form != "plain":
                given = rehow(given, draw)
            if rng.random() < 0.85:
                given = changed(rng, draw, args, given)
        else:
            given = draw.all(args)
        odd = self.odd and rng.random() < 0.7
        if odd:
            given = oddly(rng, args, given, form == "meta")
        words, broken = [], False
        for a in args:
            if a.name not in given:
                broken = True
            else:
                words.append(f"{a.name}={given[a.name]!r}" if broken or a.kwonly else repr(given[a.name]))
        if "out" in form:
            draw.form = form.split()[0] if "sparse" in form else "plain"
            outs = [draw.again() if rng.random() < 0.3 else draw.tensor() for _ in range(rng.choice([1, 1, 1, 2, 3]))]
            words.append(f"out={outs[0] if len(outs) == 1 else tuple(outs)!r}")
        base, inplace = name.split(".")[0], "inplace" in form
        callee = f"op({name!r}{', True' if inplace else ''})"
        if name not in PYTHON and "::" not in name and rng.random() < 0.3:  # by its base name, so that the overload is found from the arguments
            callee = f"call({base + '_' * inplace!r}, {rng.choice(['method', 'function'])!r})"
        line = f"{callee}({', '.join(words)})".replace("'", '"')
        if "backward" in form:
            how = rng.choice(["", "", "twice", "twice", "expanded", "sparse", "odd"])
            line = f"backward({line}, {how!r})".replace("'", '"')
        return name, line, None if odd else given

    def remember(self, i, name, given):
        known = self.good[name]
        if given is None:
            return
        if len(known) < 12:
            known.append(given)
        else:
            known[random.Random(i).randrange(12)] = given


class Names:
    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        return Code(f"{self.path}.{name}")


