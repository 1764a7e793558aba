#!/usr/bin/env python3
"""Random small programs under PyTorch and under rushlight: tests/parity/programs.py ORACLE [--programs N] [--seed S] [--show K]

A program makes a few tensors and calls, slices, views and changes them in place, with gradients on and off, and goes backward. After it
every tensor is compared: dtype, shape, strides, values, gradient, whether it is a leaf, and which statements failed. ORACLE is a Python that
has PyTorch. What differs is shown in groups, the largest first, each by its shortest program; differences by rounding are none.
Among them are what PyTorch refuses and rushlight computes: dtypes, memory that overlaps itself.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHAPES = [(3, 4), (2, 3, 4), (4,), (4, 4), (1, 4), (2, 1, 4), (0, 4), (), (2, 2, 3)]
DTYPES = ["float32"] * 6 + ["float64"] * 2 + ["complex64", "int64", "bool", "float16", "bfloat16", "int32", "uint8"]
# A statement's right side: a, b, c are tensors, d a dimension, s a number.
ONE = """a.exp() | a.sin() | a.relu() | a*2 | a+1 | a.sum() | a.mean(d) | a.sum(d,keepdim=True) | a.t() | a.mT | a.reshape(-1) | a.view(-1) | a.flatten()
    | a.squeeze() | a.unsqueeze(d) | a[0] | a[...,1:] | a[...,::2] | a[:,None] | a.detach() | a.clone() | a.contiguous() | a.transpose(0,-1) | a.movedim(0,-1)
    | a.expand(2,*a.shape) | a.expand_as(b) | a.narrow(-1,0,2) | a.select(d,0) | a.diagonal() | a.unfold(-1,2,1) | a.softmax(d) | a.cumsum(d) | a.sort(d)[0]
    | a.max(d)[0] | a.argmax(d) | a.topk(2,d)[0] | a.abs() | a.sigmoid() | a.tanh() | a.pow(2) | a.pow(s) | a.sqrt() | a.clamp(-1,1) | a.clamp(min=s)
    | a.to(torch.float64) | a.to(torch.float32) | a.to(torch.complex64) | a.int() | a.bool() | a.half() | a.data | a.real | a.imag | a.conj()
    | torch.view_as_real(a) | a.flip(d) | a.roll(1,d) | a.tril() | a.norm() | a.var(d) | a.std() | a.prod(d) | a.logsumexp(d) | a.unbind(d)[0]
    | a.split(2,d)[0] | a.chunk(2,d)[-1] | a.permute(*reversed(range(a.dim()))) | a.as_strided((2,2),(1,1)) | a.masked_fill(a>0,s) | a.nan_to_num() | a.round()
    | a.sign() | -a | a==0 | ~a | a.any(d) | a.all() | a.nonzero() | a.median(d)[0] | a.index_select(d,torch.tensor([0,1])) | a[a>0] | a[torch.tensor([1,0])]
    | a[...,torch.tensor([1,0])] | a.gather(d,torch.zeros_like(a,dtype=torch.int64)) | a.diff() | a.cummax(d)[0] | F.gelu(a) | F.silu(a)
    | F.layer_norm(a,a.shape[-1:]) | F.pad(a,(1,1)) | F.normalize(a,dim=d) | F.one_hot(a) | a.tile(2) | a.ravel() | a.frac() | a.erf() | a.log1p() | a.lgamma()
    | a.count_nonzero(d) | a.aminmax(dim=d)[1] | a.kthvalue(1,d)[0] | a.renorm(2,0,1.) | a.fmod(s) | a.remainder(s) | a//s | a/s | s/a | s-a | a**s | 2**a"""
TWO = """a+b | a*b | a-b | a/b | a@b | torch.where(a>0,a,b) | torch.cat([a,b]) | torch.stack([a,b]) | torch.maximum(a,b) | a.matmul(b.mT) | torch.atan2(a,b)
    | torch.einsum('...i,...i->...',a,b) | a.lerp(b,.3) | torch.hypot(a,b) | a.dot(b) | a>b | torch.outer(a,b) | torch.kron(a,b) | torch.addcmul(a,b,c)
    | torch.lerp(a,b,c) | F.mse_loss(a,b) | F.smooth_l1_loss(a,b) | torch.cdist(a,b) | torch.bmm(a,b) | torch.add(a,b,alpha=s) | torch.float_power(a,b)
    | torch.logaddexp(a,b) | torch.tensordot(a,b,1) | F.cosine_similarity(a,b,dim=-1) | a.masked_select(b>0) | torch.fmax(a,b) | torch.copysign(a,b) | a&b | a|b
    | a//b | a%b | a**b | torch.searchsorted(a.sort()[0],b) | torch.isin(a,b) | torch.dist(a,b) | torch.cross(a,b,dim=-1) | F.linear(a,b)
    | a.scatter(d,torch.zeros_like(b,dtype=torch.int64),b) | a.index_add(0,torch.zeros(b.shape[0],dtype=torch.int64),b)"""
CHANGE = """a.mul_(2) | a.add_(b) | a.mul_(b) | a.zero_() | a.fill_(s) | a[0]=s | a[...,0]=b[...,0] | a.copy_(b) | a.exp_() | a.sin_() | a.relu_() | a.clamp_(-1,1) | a.t_()
    | a.transpose_(0,-1) | a.unsqueeze_(0) | a.squeeze_() | a.detach_() | a.requires_grad_() | a.requires_grad_(False) | a.masked_fill_(a>0,s) | a[a>0]=s
    | a[torch.tensor([0,1])]=b[0] | a.index_fill_(d,torch.tensor([0]),s) | a.resize_(min(a.numel(),2)) | a.data=b | a.data.mul_(2) | a.sub_(b,alpha=2) | a.div_(b) | a.pow_(2)
    | a.lerp_(b,.5) | a+=b | a*=b | a-=1 | a/=2 | a.grad=None | a.retain_grad() | a.register_hook(lambda g: g*2) | a.add_(1).mul_(b)
    | a.scatter_(d,torch.zeros_like(a,dtype=torch.int64),s) | a.diagonal().add_(1) | a.view(-1)[0:2].mul_(3) | a.t().zero_() | a.cumsum_(d) | a.tril_()
    | a.addcmul_(b,c) | a.sigmoid_() | a.index_put_((torch.tensor([0,0]),),b[0],accumulate=True) | a.round_() | a.neg_() | a.conj_physical_() | a.real.mul_(2)
    | a.imag.zero_() | a.logical_not_() | a.gt_(0) | a.eq_(b) | a.copysign_(b) | F.relu(a,inplace=True) | torch.add(b,c,out=a) | torch.exp(b,out=a)
    | a.index_add_(0,torch.tensor([0]),b[:1]) | a.masked_scatter_(a>0,b) | a.fill_diagonal_(s)"""
ONE, TWO, CHANGE = ([t.strip() for t in re.split(r"\n?\s+\| ", texts)] for texts in (ONE, TWO, CHANGE))
CLOSE = {"torch.float16": 4e-3, "torch.bfloat16": 3e-2}


def first(r, name):
    """A statement that makes a tensor without random numbers."""
    shape, dtype = r.choice(SHAPES), r.choice(DTYPES)
    n = math.prod(shape)
    if dtype == "bool":
        return f"{name}=torch.arange({n}).reshape({shape})%3==0"
    if dtype in ("int64", "int32", "uint8"):
        return f"{name}=torch.arange({n}).reshape({shape}).to(torch.{dtype})"
    return f"{name}=torch.linspace(-2,2,{n}).reshape({shape}).to(torch.{dtype}).clone()" + r.choice(["", ".requires_grad_()", ".requires_grad_()"])


def program(r):
    lines, names = [], []

    def put(text):
        names.append(f"t{len(names) + 1}")
        lines.append(f"{names[-1]}={text}")

    for k in range(r.randint(2, 4)):
        names.append(f"t{k + 1}")
        lines.append(first(r, names[-1]))
    for _ in range(r.randint(4, 11)):
        words = {"a": r.choice(names), "b": r.choice(names), "c": r.choice(names), "d": str(r.choice([0, -1, -1, 1])), "s": str(r.choice([0, 1, 2, -1, .5, 2.5]))}

        def filled(choices):
            return re.sub(r"(?<![\w.'])[abcds](?![\w'])", lambda m: words[m.group()], r.choice(choices))

        kind = r.random()
        if kind < .62:
            put(filled(ONE if kind < .45 else TWO))
        elif kind < .9:
            lines.append(r.choice(["", "", "with torch.no_grad(): "]) + filled(CHANGE))
        elif kind < .95:
            lines.append(f"{words['a']}.sum().backward(retain_graph={r.choice([True, False])})")
        else:
            put(f"torch.autograd.grad({words['a']}.sum(),{words['b']},create_graph=True,allow_unused=True)[0]")
    lines.append(f"sum(t.abs().sum() if t.is_complex() else t.float().sum() for t in [{','.join(names[-3:])}] if t is not None).backward()")
    return lines


def described(torch, t):
    if t is None:
        return None
    x = torch.view_as_real(t.detach().resolve_conj().contiguous()) if t.is_complex() else t.detach()
    return {"dtype": str(t.dtype), "shape": list(t.shape), "strides": list(t.stride()) if t.numel() else 0, "requires_grad": t.requires_grad,
            "is_leaf": t.is_leaf, "values": x.to(torch.float64).reshape(-1).tolist()[:64]}


def outcomes(torch, lines):
    """Per statement None or its error, and every tensor as it is at the end."""
    names, errors = {"torch": torch, "F": torch.nn.functional}, []
    for line in lines:
        try:
            exec(line, names)
            errors.append(None)
        except Exception as error:
            errors.append([type(error).__name__, str(error).split("\n")[0][:200]])
    end = {}
    for name, t in names.items():
        if re.fullmatch(r"t\d+", name) and (t is None or isinstance(t, torch.Tensor)):
            try:
                end[name] = described(torch, t)
                if t is not None and t.is_leaf:
                    end[name + ".grad"] = described(torch, t.grad)
            except RuntimeError as error:   # a view that may not be looked at any more
                end[name] = {"error": str(error)[:100]}
    return errors, end


def child(which, given, to):
    import importlib
    import warnings
    warnings.simplefilter("ignore")
    torch = importlib.import_module(which)
    torch.set_num_threads(1)
    pathlib.Path(to).write_text(json.dumps([outcomes(torch, lines) for lines in json.loads(pathlib.Path(given).read_text())]))


def near(x, y, close):
    return x == y or (x != x and y != y) or (math.isfinite(x) and math.isfinite(y) and abs(x - y) <= close * (1 + max(abs(x), abs(y))))


def difference(lines, theirs, ours):
    """In words, or None."""
    for line, x, y in zip(lines, theirs[0], ours[0]):
        if bool(x) != bool(y):
            return f"{line}\n    PyTorch:   {x or 'runs'}\n    rushlight: {y or 'runs'}"
    for name, x in theirs[1].items():
        y = ours[1].get(name)
        if (x is None) != (y is None):
            return f"{name}: {x} | {y}"
        for what in x or ():
            close = CLOSE.get(x.get("dtype"), 2e-5)
            same = x[what] == y.get(what) or what == "values" and what in y and all(near(*v, close) for v in zip(x[what], y[what]))
            if not same:
                return f"{name} {what}: {x[what]} | {y.get(what)}"
    return None


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("oracle")
    args.add_argument("--programs", type=int, default=2000)
    args.add_argument("--seed", type=int, default=1)
    args.add_argument("--show", type=int, default=20)
    given = args.parse_args()
    r = random.Random(given.seed)
    programs = [program(r) for _ in range(given.programs)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "programs").write_text(json.dumps(programs))
        sides = [("torch", given.oracle, None), ("rushlight", sys.executable, {**os.environ, "PYTHONPATH": str(ROOT / "python")})]
        running = [subprocess.Popen([python, __file__, "--child", which, path / "programs", path / which], env=env) for which, python, env in sides]
        if any([p.wait() for p in running]):
            return 1
        theirs, ours = (json.loads((path / which).read_text()) for which, *_ in sides)
    groups = collections.defaultdict(list)
    for lines, a, b in zip(programs, theirs, ours):
        words = difference(lines, a, b)
        if words:
            groups[re.sub(r"t\d+", "t", re.sub(r"(?<!t)-?\d[\d.e-]*", "#", words))[:160]].append((lines, words))
    for group in sorted(groups.values(), key=len, reverse=True)[:given.show]:
        lines, words = min(group, key=lambda g: len(g[0]))
        print(f"---- {len(group)}\n" + "\n".join("  " + line for line in lines) + "\n" + words)
    differ = sum(map(len, groups.values()))
    print(f"{given.programs} programs, {given.programs - differ} the same, {differ} differ in {len(groups)} ways")
    return 0


if __name__ == "__main__":
    sys.exit(child(*sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main())
