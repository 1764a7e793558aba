"""The allocator of CUDA devices: segments that grow, and what PYTORCH_ALLOC_CONF asks of it. Each test is a process of its own, as in test_cuda.py."""
import os

import pytest

from test_cuda import emulated, orders, passes, pytestmark  # noqa: F401

WORDS = """
import pytest
MIB = 1 << 20
def mib(n):
    return torch.empty(n * MIB, dtype=torch.uint8, device="cuda")
def layout(small=False):
    return [[(b["size"] // MIB, b["state"] == "active_allocated") for b in s["blocks"]] for s in torch.cuda.memory_snapshot() if small == (s["segment_type"] == "small")]
def reserved():
    assert torch.cuda.memory_reserved() == sum(s["total_size"] for s in torch.cuda.memory_snapshot())
    return torch.cuda.memory_reserved() // MIB
"""
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def test_segments_grow_emulated():
    """What is free lies side by side, whatever it was cut for, and goes back in pieces of 20 MiB, wherever these lie."""
    passes(WORDS + """
a, b, c = mib(30), mib(30), mib(5)
assert layout() == [[(30, True), (30, True), (5, True), (15, False)]] and reserved() == 80
assert all(s["is_expandable"] for s in torch.cuda.memory_snapshot()) and b.data_ptr() == a.data_ptr() + 30 * MIB
b.fill_(7)
first = a.data_ptr()
del a
d = mib(70) # what lies behind c is part of it
assert layout() == [[(30, False), (30, True), (5, True), (70, True), (5, False)]] and reserved() == 140 and torch.cuda.memory_allocated() == 105 * MIB
tiny = torch.ones(100, device="cuda")
assert layout(small=True) == [[(0, True), (1, False)]] and reserved() == 142
with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 160.00 MiB"):
    mib(160)
assert layout() == [[(10, False), (30, True), (5, True), (70, True), (5, False)]] and reserved() == 122 # the first piece has lost its memory
a = mib(25) # and gets it again, where a was: with the 10 MiB behind it
assert a.data_ptr() == first and layout() == [[(25, True), (5, False), (30, True), (5, True), (70, True), (5, False)]] and reserved() == 142
a.fill_(3)
assert b.max() == b.min() == 7 and a.max() == a.min() == 3
del d
e = mib(100)
assert layout() == [[(25, True), (5, False), (30, True), (5, True), (100, True), (15, False)]]
del a, b, c, e, tiny
torch.cuda.empty_cache()
assert reserved() == 0 and torch.cuda.memory_snapshot() == [] and torch.cuda.mem_get_info() == (192 * MIB, 192 * MIB) and torch.cuda.memory_stats()["segment.all.current"] == 0
x = mib(180)
assert x.fill_(1).max() == 1 and reserved() == 182
""", RUSHLIGHT_CUDA_MEMORY=str(192 << 20), **EXPANDABLE)


def test_what_segments_that_grow_are_for_emulated():
    """A plain segment of which a part is used cannot become larger, nor go back."""
    code = WORDS + """
mib(150)
a = mib(30)
try:
    print(mib(160).fill_(1).max().item(), reserved())
except torch.OutOfMemoryError as e:
    print("no", reserved(), torch.cuda.memory_stats()["num_ooms"], torch.cuda.memory_stats()["num_alloc_retries"])
"""
    done = {name: emulated(code, RUSHLIGHT_CUDA_MEMORY=str(204 << 20), PYTORCH_ALLOC_CONF=f"expandable_segments:{name}") for name in ("True", "False")}
    assert done["True"].stdout.split() == ["1", "202"], done["True"].stderr + done["True"].stdout
    assert done["False"].stdout.split() == ["no", "150", "1", "1"], done["False"].stderr + done["False"].stdout


@orders
def test_networks_in_segments_that_grow(order):
    """Streams and pools have segments of their own; graphs keep theirs."""
    passes(WORDS + """
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(300, 400), torch.nn.ReLU(), torch.nn.Linear(400, 3)).cuda()
x, y = torch.randn(50, 300), torch.randint(3, (50,))
losses = []
for device in "cpu", "cuda":
    net = net.to(device)
    loss = F.cross_entropy(net(x.to(device)), y.to(device))
    losses.append((loss.item(), *(g.norm().item() for g in torch.autograd.grad(loss, net.parameters()))))
torch.testing.assert_close(losses[1], losses[0])
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    z = torch.ones(9, device="cuda")
side.synchronize()
assert len({s["stream"] for s in torch.cuda.memory_snapshot()}) == 2
graph, a = torch.cuda.CUDAGraph(), torch.ones(9 * MIB, device="cuda")
with torch.cuda.graph(graph):
    b = a * 2
    c = b + 1
del b
torch.cuda.empty_cache()
assert {s["is_expandable"] for s in torch.cuda.memory_snapshot(graph.pool())} == {True}
for k in range(3):
    a.fill_(k)
    others = [torch.full((3 * MIB,), 9.0, device="cuda") for _ in range(3)]
    graph.replay()
    assert c.max() == c.min() == 2 * k + 1 and others[0].min() == 9
pool = graph.pool()
graph.reset()
del graph, c
torch.cuda.empty_cache()
assert torch.cuda.memory_snapshot(pool) == []
""", RUSHLIGHT_CUDA_ORDER=order, **EXPANDABLE)


def test_memory_that_is_gone_cannot_be_used_emulated():
    """A kernel that has an address of memory that went back ends the program."""
    done = emulated(WORDS + """
a = mib(64)
late = a.data_ptr()
del a
torch.cuda.empty_cache()
import ctypes
print(ctypes.c_char.from_address(late).value)
""", ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0", **EXPANDABLE)
    assert done.returncode < 0, done


def test_settings_that_cannot_be():
    """As PyTorch says it, whether there is a device or not."""
    passes(WORDS + """
import warnings
for text, error, said in [
        ("max_split_size_mb:10", ValueError, "CachingAllocator option max_split_size_mb too small, must be >= 20"), ("foo:1", ValueError, "Unrecognized key 'foo' in Accelerator allocator config."),
        ("expandable_segments:yes", ValueError, "Expected 'True' or 'False' at index 2 in ConfigTokenizer but got 'yes'"), ("expandable_segments", RuntimeError, "Index out of bounds in ConfigTokenizer"),
        ("garbage_collection_threshold:2", ValueError, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"), ("roundup_power2_divisions:3", ValueError, "the divisions has to be power of 2"),
        ("backend:x", ValueError, "Unknown allocator backend, options are native and cudaMallocAsync"), ("max_split_size_mb:a", ValueError, "a number was expected"),
        ("roundup_power2_divisions:[256:3]", ValueError, "has to be power of 2 or 0 to disable"), ("roundup_power2_divisions:[300:2]", ValueError, "the intervals have to be power of 2"),
        ("roundup_power2_divisions:[256:1", RuntimeError, "Index out of bounds"), ("large_segment_size_mb:3", ValueError, "must be > 10 MB"),
        ("pinned_num_register_threads:3", ValueError, "Number of register threads has to be power of 2, got 3"), ("per_process_memory_fraction:2", ValueError, "set it in [0.0, 1.0]"),
        ("backend:cudaMallocAsync", NotImplementedError, "cudaMallocAsync is not there"), ("expandable_segments:True:False", ValueError, "Unrecognized key 'False'"), ("x" * 300, ValueError, "")]:
    with pytest.raises(error) as e:
        torch._C._accelerator_setAllocatorSettings(text)
    assert said in str(e.value), (text, str(e.value))
for text in ("", " expandable_segments : True ", "expandable_segments:True,", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]", "roundup_power2_divisions:[]", "backend:native",
             "garbage_collection_threshold:0.5,pinned_use_background_threads:True,release_lock_on_cudamalloc:False,pinned_num_register_threads:4", "max_split_size_mb:30,expandable_segments:False"):
    torch._C._accelerator_setAllocatorSettings(text)
with pytest.warns(FutureWarning, match="_accelerator_setAllocatorSettings"):
    torch.cuda.memory._set_allocator_settings("expandable_segments:False")
""", RUSHLIGHT_CUDA="off")
    done = emulated("torch.ones(1, device='cuda')", PYTORCH_CUDA_ALLOC_CONF="foo:1")
    assert "ValueError: " in done.stderr and "Unrecognized key 'foo' in Accelerator allocator config." in done.stderr, done.stderr


def test_settings_emulated():
    passes(WORDS + """
set = torch._C._accelerator_setAllocatorSettings
mib(100) # of which what is left is used for smaller requests
assert mib(10).numel() and reserved() == 100
torch.cuda.empty_cache()
set("max_split_size_mb:50") # what is larger is not cut, and serves what is at most 20 MiB smaller
big = mib(100); del big
small = mib(10)
assert reserved() == 110
big = mib(90)
assert reserved() == 110 and torch.cuda.memory_allocated() == 110 * MIB
del big
big = mib(70)
assert reserved() == 180
del big, small
torch.cuda.empty_cache()
set("max_split_size_mb:100000,roundup_power2_divisions:[64:4,>:2]")
for n, taken in (700, 1024), (3 * MIB + 1, 3.5 * MIB), (33 * MIB, 40 * MIB), (129 * MIB, 192 * MIB):
    x = torch.empty(n, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == taken and torch.cuda.memory_stats()["requested_bytes.all.current"] == n, (n, torch.cuda.memory_allocated() / MIB)
    del x
torch.cuda.empty_cache()
set("roundup_power2_divisions:1,garbage_collection_threshold:0.5,per_process_memory_fraction:0.5")
assert torch.cuda.get_per_process_memory_fraction() == 0.5
held = [mib(n) for n in (20, 30, 26)]
held[2] = held[1] = None # freed in this order
x = mib(60) # 76 of 256 MiB: enough
assert reserved() == 136
del x
x = mib(61) # 136 are more than half of what may be taken: the 26 MiB that have been free for longest go
assert reserved() == 20 + 30 + 60 + 62
""", RUSHLIGHT_CUDA_MEMORY=str(512 << 20))
