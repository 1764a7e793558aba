#!/usr/bin/env python3
"""Plant faults in the CUDA part, one at a time, and see whether the emulator shows them: tests/cuda_faults.py BUILD [NAME...]

A fault is a change of one place of src/cuda: a barrier left out, an index off by one, a missing synchronisation, memory of a device
that the host reads. The changed file is compiled as BUILD compiles it and linked into a CUDA part of its own; then PROGRAM, which
is right without the change, runs in each order of threads and blocks until one run fails. Exit status 0: all are found.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDERS = ["forward", "reverse", "random:7", "guards"]  # guards: forward, and what is written behind a tensor shows (to look, all streams are waited for)

PROGRAM = """
import rushlight as torch, rushlight.nn.functional as F
def same(name, f, *args, rtol=1e-4, atol=1e-5):
    want, got = f(*args), f(*(a.cuda() for a in args))
    for w, g in zip(*((r if isinstance(r, (tuple, list)) else (r,)) for r in (want, got))):
        torch.testing.assert_close(g.cpu(), w, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: name + ": " + m)
torch.manual_seed(0)
x, big, images = torch.randn(37, 600), torch.randn(3, 70000), torch.randn(2, 3, 9, 10)
for name, f in {"exp": torch.exp, "strided": lambda t: t.t()[::3] + 1, "sum": lambda t: t.sum(1), "max": lambda t: t.max(1), "var": lambda t: t.var(0), "softmax": lambda t: t.softmax(1), "softmax of columns": lambda t: (t.softmax(0), torch._softmax_backward_data(t, t, 0, t.dtype)),
                "batch norm": lambda t: F.batch_norm(t[:, :590].reshape(37, 10, 59), None, None, training=True), "labels": lambda t: F.nll_loss(t.repeat(8, 1), (t[:, 0].abs() * 100).long().repeat(8)),
                "layer_norm": lambda t: F.layer_norm(t, (600,)), "cumsum": lambda t: t[:, 1:].cumsum(1), "cummax": lambda t: t.cummax(1), "nonzero": lambda t: (t > 1).nonzero(),
                "masked": lambda t: t[t > 0], "take": lambda t: t[[3, 1], :5], "gather": lambda t: t.gather(1, (t.abs() * 100).long()), "index_select": lambda t: t.index_select(1, torch.tensor([2, 0], device=t.device)), "sort": lambda t: t.sort(1), "dropout": lambda t: F.dropout(t, 0.0),
                "scatter": lambda t: torch.zeros_like(t).scatter_add(1, (t.abs() * 100).long(), t), "half": lambda t: t.half().float(), "double": lambda t: (t * 9).double().int()}.items():
    same(name, f, x)
same("product", lambda t: t[:, :70] @ t[:, :70].t(), x)
same("distances", lambda t: torch.cdist(t[:, :300], t[:, 300:], p=1), x)
same("points", lambda t: F.grid_sample(t, t[:, :2].permute(0, 2, 3, 1).contiguous(), align_corners=False), images)
same("sorted", lambda t: t.sort(stable=True), x)
same("sorted pieces", lambda t: t.sort(stable=True), big)
same("selected", lambda t: (t.topk(7), t.kthvalue(99))[0], big)
same("sorted columns", lambda t: t[:, :37].sort(0), x)
same("transform", lambda t: torch.fft.fft(t[:, :60]).abs(), x)
same("convolution", lambda t: F.conv2d(t, t[:, :, :3, :3].contiguous(), padding=1), images)
same("up", lambda t: F.conv_transpose2d(t, t[0, :, None, :3, :3].contiguous(), stride=2), images)
same("layer", lambda t: torch.gru(t[:, :4].reshape(37, 1, 4), t[:1, :4].reshape(1, 1, 4), [t[:12, :4], t[:12, :4], t[:12, 0], t[:12, 1]], True, 1, 0.0, False, False, False), x)
def attention(t, *more):
    q, k = (s.detach().requires_grad_() for s in (t[:, :70 * 8].reshape(1, 37, 70, 8)[:, :2], t[3:, :66 * 8].reshape(1, 34, 66, 8)[:, :2]))
    y = F.scaled_dot_product_attention(q, k, k, *more)
    return (y.detach(), *torch.autograd.grad((y * y).sum(), (q, k)))
same("attention", attention, x)
same("attention of halves", lambda t: attention(t.bfloat16()), x, rtol=0.05, atol=0.05)
same("attention with a mask", attention, x, (torch.arange(70)[:, None] * 7 + torch.arange(66)) % 3 > 0)
same("bags", lambda t: F.embedding_bag(torch.arange(6, device=t.device), t[:, :6].contiguous(), torch.tensor([0, 2, 2], device=t.device), mode="sum"), x)
same("pieces", lambda t: (t.double().cumsum(1), t[0].cummax(0)[0], t.sum(), t.sum(1), t.argmax(1)), big)
for name, f in {"max_pool": lambda t: F.max_pool2d(t, 3, 2, 1), "avg_pool": lambda t: F.avg_pool2d(t, 3, 2, 1, count_include_pad=False), "adaptive": lambda t: F.adaptive_avg_pool2d(t, (4, 3)), "pad": lambda t: F.pad(t, (2, 1, 1, 0), mode="reflect"),
                "bilinear": lambda t: F.interpolate(t, (13, 7), mode="bilinear"), "nearest": lambda t: F.interpolate(t, (13, 7))}.items():
    same(name, f, images)
s, a = torch.cuda.Stream(), torch.zeros(5000, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(s):
    for _ in range(3):
        a.add_(1)
    done = s.record_event()
torch.cuda.current_stream().wait_event(done)
assert (a * 2).sum().item() == 30000, "streams: what an event orders was not there"
b = torch.arange(6.)
with torch.cuda.stream(s):
    c = b.cuda() + 1
s.synchronize()
assert c.tolist() == [1, 2, 3, 4, 5, 6] and (c + 0).to("cuda:1").add(1).tolist() == [2, 3, 4, 5, 6, 7], "streams: synchronize() did not wait"
graph, drawn, picture = torch.cuda.CUDAGraph(), torch.ones(999, device="cuda"), images.cuda()
torch.cuda.manual_seed(1)
drops = [F.dropout(drawn, 0.5).tolist() for _ in range(3)]
torch.cuda.manual_seed(1)
with torch.cuda.graph(graph):
    d, up = F.dropout(drawn, 0.5), F.interpolate(picture, (13, 7))
    for _ in range(5):
        d = d + 1
with torch.cuda.stream(torch.cuda.graph.default_capture_stream):
    kept = [torch.full((999,), 7., device="cuda") for _ in range(40)]
for size in range(1, 60): # the host uses its memory for other numbers
    F.interpolate(images, (size, 60 - size))
torch.cuda.synchronize()
for want in drops:
    graph.replay()
    assert d.tolist() == [w + 5 for w in want], "graphs: a launch draws other numbers than a call"
assert all(k.tolist() == [7] * 999 for k in kept), "graphs: a launch wrote into memory of others"
assert up.tolist() == F.interpolate(images, (13, 7)).tolist(), "graphs: numbers of the host are gone"
torch._C._accelerator_setAllocatorSettings("expandable_segments:True")
kept, gone = torch.full((5 << 18,), 7., device="cuda"), torch.empty(40 << 18, device="cuda")
gone.fill_(1)
del gone
torch.cuda.empty_cache()
assert kept.min().item() == kept.max().item() == 7, "segments that grow: memory in use is gone"
"""

# (what, file, text, what it becomes); the text may stand in several places: `nth`, from 0, says which one is meant
BARRIER = "__syncthreads();"
FAULTS = [
    ("barrier after fold's threads have put their accumulators down", "fold.cu", BARRIER, "", 0),
    ("barrier between the steps of fold's tree", "fold.cu", BARRIER, "", 1),
    ("barrier after the threads of columns have put their sums down", "norm.cu", BARRIER, "", 0),
    ("barrier between the steps of columns' tree", "norm.cu", BARRIER, "", 1),
    ("barrier before columns' memory is used again", "norm.cu", BARRIER, "", 2),
    ("barrier after the warps of a row have put their sums down", "norm.cu", BARRIER, "", 3),
    ("barrier before a row's memory is used again", "norm.cu", BARRIER, "", 4),
    ("barrier after the sums of a channel are put down", "batch.cu", BARRIER, "", 0),
    ("barrier after the losses of labels are put down", "label.cu", BARRIER, "", 0),
    ("barrier after a scan's warps have put their sums down", "scan.cu", BARRIER, "", 0),
    ("barrier that only some threads reach", "norm.cu", BARRIER, "if (threadIdx.x & 1) __syncthreads();", 1),
    ("barrier after a product's slices are read", "product.cu", BARRIER, "", 0),
    ("barrier before a product's slices are written again", "product.cu", BARRIER, "", 1),
    ("barrier after a tile is filled", "sort.cu", BARRIER, "", 0),
    ("barrier between the steps of a tile's network", "sort.cu", BARRIER, "", 1),
    ("barrier after slices of rows are read for distances", "distance.cu", BARRIER, "", 0),
    ("barrier before those slices are written again", "distance.cu", BARRIER, "", 1),
    ("a point's rightmost neighbour is not inside", "grid.cu", "row >= 0 && column >= 0) f(", "row >= 0 && column >= 0 && column + 1 < g.space[2]) f(", 0),
    ("product leaves the last column out", "product.cu", "column + x + c >= p.n) continue", "column + x + c >= p.n - 1) continue", 0),
    ("a piece's elements go before those of the piece before it", "sort.cu", "q < piece; q++) next +=", "q < piece - 1; q++) next +=", 0),
    ("barrier after a row's elements are put by their digits", "sort.cu", BARRIER, "", 7),
    ("barrier before attention's tiles are filled again", "attention.cu", BARRIER, "", 0),
    ("barrier after attention's tiles are filled", "attention.cu", BARRIER, "", 2),
    ("barrier between a warp's weights and their use", "attention.cu", "__syncwarp();", "", 1),
    ("attention sees the key behind the last one", "attention.cu", "from + BN <= keys &&", "from < keys &&", 0),
    ("attention takes the mask of the next key", "attention.cu", "GROUPS, false>(s, p, b, h, first + row, from + column);", "GROUPS, false>(s, p, b, h, first + row, from + column + 1);", 0),
    ("tensor cores begin before their keys are there", "attention_mma.cu", "copies_wait<0>();", "", 0),
    ("barrier before values are fetched again", "attention_mma.cu", BARRIER, "", 0),
    ("barrier before keys are fetched again", "attention_mma.cu", BARRIER, "", 1),
    ("barrier of the way back's tiles", "attention_mma.cu", BARRIER, "", 3),
    ("matrices of a product are exchanged", "attention_mma.cu", "multiply_add<T>(to[m][2 * n], w[m][k], y[0], y[1]);", "multiply_add<T>(to[m][2 * n], w[m][k], y[1], y[0]);", 0),
    ("tensor cores see one key less", "attention_mma.cu", "smaller(p.keys, row + 1) : p.keys) - from : 0;", "smaller(p.keys, row + 1) : p.keys) - from - 1 : 0;", 0),
    ("window of a convolution begins one element late", "window.cu", "p.stride[d] - p.before[d] + k[d]", "p.stride[d] - p.before[d] + 1 + k[d]", 0),
    ("image takes what lies beside its columns", "window.cu", "place < p.result[d];\n                far", "place <= p.result[d];\n                far", 0),
    ("step of a transform turns the other way", "fft.cu", "p.radix, p.sign);", "p.radix, -p.sign);", 0),
    ("cell weighs the wrong product", "cell.cu", "r * product[2 * h]", "z * product[2 * h]", 0),
    ("bag takes the first row of the next one", "look.cu", "j < end; j++", "j <= end; j++", 0),
    ("scan writes one element too many", "scan.cu", "have[j] = i + V <= limit ?", "have[j] = i + V <= limit + 1 ?", 0),
    ("conversion writes one element too many", "misc.cu", "i < w.n; i += ALL", "i <= w.n; i += ALL", 0),
    ("fold leaves the last element out", "fold.cu", "i < end; i += step", "i < end - 1; i += step", 0),
    ("softmax reads one element too many", "norm.cu", "i < n; i += at.team)", "i <= n; i += at.team)", 0),
    ("a sum has what is held behind a row", "norm.cu", "all += place_of(j) < n ? v[j] : 0;", "all += v[j];", 0),
    ("window begins one element early", "window.cu", "p.begin[d][k], end", "p.begin[d][k] - (k > 0), end", 0),
    ("padding shows the neighbour", "window.cu", "p.begin[2][s.at[2]];", "p.begin[2][s.at[2]] + 1;", 0),
    ("waiting for an event does nothing", "device.c", "cuda_check(cuda_driver->stream_wait(s, e, 0), \"cuStreamWaitEvent\")", "0", 0),
    ("copies to the host are not waited for", "device.c", "return captured ? 0 : cuda_check(cuda_driver->stream_synchronize(s), \"cuStreamSynchronize\") ? -1 : cuda_fault_check(d);", "return 0;", 0),
    ("copies between devices do not wait for the first one", "device.c", "if (cuda_synchronize(fd) || !(device", "if (!(device", 0),
    ("what is captured takes memory that everybody has", "memory.c", "graph ? cuda_graph_memory(graph) : pool_chosen(d)", "pool_chosen(d)", 0),
    ("a segment that grows gives back a piece of which a part is used", "memory.c", "first = (from + piece - 1) / piece * piece", "first = from / piece * piece", 0),
    ("memory goes back before what is queued is done", "memory.c", "if (cuda_captures() || cuda_driver->context_synchronize()) return;\n    for (block *b", "if (cuda_captures()) return;\n    for (block *b", 0),
    ("a graph draws the same numbers each time", "graph.c", "cuda_random_take(own->generator, own->by, ", "cuda_random_take(own->generator, 0, ", 0),
    ("a graph reads numbers that the host has no more", "graph.c", "memcpy(kept, numbers, bytes), bytes", "numbers, bytes", 0),
    ("the host reads a tensor's element", "norm.c", "    if (!launch(out, g ?", "    if (*(volatile float *)rush_ptr(xc) == 7) return;\n    if (!launch(out, g ?", 0),
    ("the host reads the index", "index.c", "    if (!out[0].t->numel || !self || along(&w, out[0].t, self, rush_dim_wrap(in[1].i, self->ndim), wide_index(in[2].t), false)) return;",
     "    if (!out[0].t->numel || *(volatile int64_t *)rush_ptr(in[2].t) < 0) return;", 0),
    ("the host writes a result", "walk.c", "int cuda_fill(rush_tensor *t, rush_value number)\n{", "int cuda_fill(rush_tensor *t, rush_value number)\n{\n    if (t->numel) *(volatile char *)rush_ptr(t) = 0;", 0),
]


def changed(text, old, new, nth):
    parts = text.split(old)
    assert len(parts) > nth + 1, f"not there: {old}"
    return old.join(parts[:nth + 1]) + new + old.join(parts[nth + 1:])


class Build:
    """The CUDA part of a build folder, with a file exchanged."""
    def __init__(self, build, work):
        self.build, self.work = build.resolve(), pathlib.Path(work)
        self.lib = self.work / "lib"
        (self.work / "cuda").mkdir()
        self.lib.mkdir()
        for so in self.build.glob("librushlight.so*"):
            if not so.is_dir():
                (self.lib / so.name).symlink_to(so)
        commands = json.loads((self.build / "compile_commands.json").read_text())
        part = [c for c in commands if re.match(r"librushlight_cuda\.so\.p|libcuda_emulated\.a\.p", c["output"])]
        self.commands = {re.sub(r".*(emulated_|src_cuda_)(\w+)\.(cc|c)\.o", lambda m: m[2] + (".cu" if m[1] == "emulated_" else "." + m[3]), c["output"]): c for c in part}
        assert "fold.cu" in self.commands and "norm.c" in self.commands, "the CUDA part was not built (a C++ compiler, x86-64)"

    def link(self, name, text):
        command = self.commands[name]
        (self.work / "cuda" / name).write_text(text)
        new, args = self.work / "new.o", [a for a in shlex.split(command["command"]) if a != "ccache"]
        at = args.index("-o")
        args[at:at + 2] = ["-o", str(new)]
        args[1:1] = ["-I" + str(self.work), "-w"]
        if name.endswith(".c"):
            args[-1] = str(self.work / "cuda" / name)
        subprocess.run(args, cwd=command["directory"], check=True)
        objects = [str(new) if c is command else str(self.build / c["output"]) for c in self.commands.values()]
        subprocess.run(["c++", "-shared", "-o", self.lib / "librushlight_cuda.so", *objects, self.lib / "librushlight.so", "-Wl,-rpath,$ORIGIN", "-lpthread", "-ldl"], check=True)

    def run(self, order):
        """What the program says last; None: it says nothing, and ends well."""
        env = {**os.environ, "LD_LIBRARY_PATH": str(self.lib), "PYTHONPATH": str(ROOT / "python"), "RUSHLIGHT_CUDA": "emulated", "OMP_NUM_THREADS": "1",
               **({"RUSHLIGHT_CUDA_GUARD": "1"} if order == "guards" else {"RUSHLIGHT_CUDA_ORDER": order})}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300)
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = [line for line in lines if "cuda (emulated)" in line or re.match(r"\w*(Error|Exception)\b", line)] or lines[-1:] or [f"ends by {done.returncode}"]
        return said[0] if done.returncode else None


def main():
    build, names = pathlib.Path(sys.argv[1]), sys.argv[2:]
    faults = [f for f in FAULTS if not names or any(n in f[0] for n in names)]
    found = 0
    with tempfile.TemporaryDirectory() as work:
        part = Build(build, work)
        (part.lib / "librushlight_cuda.so").symlink_to(part.build / "librushlight_cuda.so")
        for order in ORDERS:
            said = part.run(order)
            assert said is None, f"without a fault, {order}: {said}"
        (part.lib / "librushlight_cuda.so").unlink()
        for what, name, old, new, nth in faults:
            part.link(name, changed((ROOT / "src" / "cuda" / name).read_text(), old, new, nth))
            (part.work / "cuda" / name).unlink()
            shown = next(((o, said) for o in ORDERS if (said := part.run(o))), None)
            found += shown is not None
            print(f"{'found' if shown else 'NOT FOUND':<10} {what} ({name}){': ' + shown[0] + ': ' + shown[1][:150] if shown else ''}", flush=True)
    print(f"{found} of {len(faults)} planted faults are found")
    return found < len(faults)


if __name__ == "__main__":
    sys.exit(main())
