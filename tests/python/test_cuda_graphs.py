"""CUDA graphs: recorded on emulated devices, which refuse what the driver refuses, and on real ones. Each test is a process of its own, as in test_cuda.py."""
import pytest

from test_cuda import both, orders, passes, pytestmark  # noqa: F401

WORDS = """
import pytest
def refused(text, f, *args, **options):
    with pytest.raises(RuntimeError, match=text):
        f(*args, **options)
def record(f, **options):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **options):
        made = f()
    return graph, made
"""


@orders
def test_a_graph_is_launched_again(order):
    passes(WORDS + """
x = torch.arange(6., device="cuda")
graph, (y, total, spread) = record(lambda: (x * 2 + 1, x.cumsum(0).sum(), x.reshape(2, 3).softmax(1)))
assert (x + 0).tolist() == [0, 1, 2, 3, 4, 5]
for shift in range(3):
    x.copy_(torch.arange(6.) + shift)
    graph.replay()
    assert y.tolist() == [2 * (i + shift) + 1 for i in range(6)] and total.item() == 35 + 21 * shift
    torch.testing.assert_close(spread.cpu(), (torch.arange(6.) + shift).reshape(2, 3).softmax(1))
side = torch.cuda.Stream()
with torch.cuda.stream(side): # on any stream, and behind the launch before
    x.add_(1)
    graph.replay()
torch.cuda.current_stream().wait_stream(side)
assert total.item() == 98
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_what_a_graph_says_of_itself(order, tmp_path):
    passes(WORDS + f"""
path = {str(tmp_path / "graph.dot")!r}
""" + """
x = torch.ones(4, device="cuda")
side = torch.cuda.Stream()
assert not torch.cuda.is_current_stream_capturing() and not side.is_capturing()
graph = torch.cuda.CUDAGraph(keep_graph=True)
refused("preceding successful capture", graph.pool)
refused("preceding successful capture", graph.replay)
refused("capture_end\\\\(\\\\) must have been called", graph.instantiate)
refused("non-default stream", graph.capture_begin)
with torch.cuda.graph(graph, stream=side):
    assert torch.cuda.is_current_stream_capturing() and side.is_capturing()
    y = x + 1
assert not side.is_capturing() and graph.pool()[0] > 0 and graph.pool()[1] == 0
assert graph.raw_cuda_graph()
refused("until instantiate", graph.raw_cuda_graph_exec)
graph.replay()
assert y.tolist() == [2] * 4 and graph.raw_cuda_graph_exec()
graph.instantiate()
graph.debug_dump(path)
assert open(path).read().startswith("digraph")
refused("already owns a captured graph", graph.capture_begin)
graph.reset()
refused("preceding successful capture", graph.replay)

graph, y = record(lambda: x + 1)
refused("keep_graph=true", graph.raw_cuda_graph)
refused("only when keep_graph=true", graph.instantiate)
with pytest.warns(UserWarning, match="debug not enabled"):
    graph.debug_dump(path)
with pytest.warns(UserWarning, match="Graph is empty"):
    record(lambda: None)
with torch.cuda.stream(side):
    refused("Unknown capture error mode", torch.cuda.CUDAGraph().capture_begin, capture_error_mode="none")
graph = torch.cuda.CUDAGraph()
with torch.cuda.stream(side):
    graph.capture_begin(capture_error_mode="thread_local")
    y = x * 3
refused("Capture must end on the same stream it began on", graph.capture_end)
with torch.cuda.stream(side):
    graph.capture_end()
graph.replay()
assert y.tolist() == [3] * 4
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_what_is_refused_meanwhile(order):
    """The driver's own words; the program goes on after each."""
    passes(WORDS + """
x, side, before = torch.ones(4, device="cuda"), torch.cuda.Stream(), torch.cuda.Event()
before.record()
def inside(f):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x + 1
        f()
    return graph
def fork(join):
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = x + 2
    if join:
        torch.cuda.current_stream().wait_stream(side)
not_now, invalid = "operation not permitted when stream is capturing", "failed due to a previous error during capture"
event = torch.cuda.Event()
for words, f in {"item": (not_now, lambda: x.sum().item()), "to the host": (not_now, x.cpu), "synchronize": (not_now, torch.cuda.synchronize),
                 "stream": (not_now, lambda: torch.cuda.current_stream().synchronize()), "query": (not_now, lambda: torch.cuda.current_stream().query()),
                 "event of the capture": ("last recorded in a capturing stream", lambda: (event.record(), event.query())),
                 "event of before": ("uncaptured work in another stream", lambda: torch.cuda.current_stream().wait_event(before)),
                 "branch": (not_now, lambda: x if x.sum() > 0 else None), "sizes": (not_now, x.nonzero)}.values():
    caught = []
    def once():
        try:
            f()
        except RuntimeError as e:
            caught.append(str(e))
            raise
    refused(invalid, inside, once) # what ended it, then its end
    assert words in caught[0], (words, caught)
    assert not torch.cuda.is_current_stream_capturing() and (x + 1).sum().item() == 8
refused("unless the CPU tensor is pinned", inside, lambda: torch.tensor([1., 2.], device="cuda"))
refused("capturing stream has unjoined work", inside, lambda: fork(False))
assert (x + 1).sum().item() == 8
inside(lambda: fork(True)).replay()
# an error that is not the driver's leaves what was recorded
with pytest.raises(ZeroDivisionError):
    inside(lambda: 1 / 0)
# a graph that is dropped meanwhile ends its capture
with torch.cuda.stream(side):
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    x + 1
    del graph
assert not side.is_capturing()
with torch.cuda.stream(side):
    y = x + 5
side.synchronize()
assert y.sum().item() == 24
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_other_threads_while_a_graph_is_captured(order):
    passes(WORDS + """
import threading
def meanwhile(mode, f):
    said, graph = [], torch.cuda.CUDAGraph()
    def other():
        try:
            f()
        except RuntimeError as e:
            said.append(str(e))
    with torch.cuda.graph(graph, capture_error_mode=mode):
        y = torch.ones(3, device="cuda") + 1
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    graph.replay()
    assert y.tolist() == [2] * 3
    return said
ready, event = torch.ones(3, device="cuda"), torch.cuda.Event()
torch.cuda.synchronize()
assert meanwhile("thread_local", lambda: torch.cuda.Stream().synchronize()) == []
assert meanwhile("relaxed", lambda: torch.cuda.Stream().synchronize()) == []
refused("previous error during capture", meanwhile, "global", lambda: torch.empty(1 << 25, device="cuda"))
assert meanwhile("thread_local", lambda: torch.empty(1 << 25, device="cuda")) == []
""", RUSHLIGHT_CUDA_ORDER=order)


@orders
def test_streams_of_one_capture(order):
    """What waits for nothing of another stream may run before it: only events order them."""
    passes(WORDS + """
x, side = torch.zeros(5000, device="cuda"), torch.cuda.Stream()
def work():
    here = torch.cuda.current_stream()
    a = x + 1
    side.wait_stream(here)
    with torch.cuda.stream(side):
        b = (a * 2).cumsum(0)
        for _ in range(3):
            b = b + 1
    c = a * 3
    here.wait_stream(side)
    return a, b, c, b + c
graph, (a, b, c, d) = record(work)
for value in 0., 4.:
    x.fill_(value)
    graph.replay()
    one = torch.full((5000,), value + 1)
    for got, want in (a, one), (c, one * 3), (b, (one * 2).cumsum(0) + 3), (d, (one * 2).cumsum(0) + 3 + one * 3):
        torch.testing.assert_close(got.cpu(), want)
# a graph within a graph
outer, e = record(lambda: (graph.replay(), d * 2)[1])
x.fill_(0.)
outer.replay()
torch.testing.assert_close(e.cpu(), 2 * ((torch.ones(5000) * 2).cumsum(0) + 6))
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_memory_of_graphs(order):
    passes(WORDS + """
MIB = 1 << 20
def pools():
    return {s["segment_pool_id"] for s in torch.cuda.memory_snapshot()}
x = torch.ones(MIB, device="cuda")
def chain():
    y = x
    for _ in range(20):
        y = y + 1
    return y
graph, y = record(chain)
graph.replay()
assert y[0].item() == 21 and graph.pool() in pools() and (0, 0) in pools()
used = sum(s["total_size"] for s in torch.cuda.memory_snapshot(graph.pool()))
assert used <= 20 * MIB # what is freed meanwhile serves again
# nobody else is given it
others = [torch.full((MIB,), 7., device="cuda") for _ in range(8)]
graph.replay()
assert y[0].item() == 21 and all(t.sum().item() == 7 * MIB for t in others)
# a result that is dropped makes room for the next graph of the pool
torch.cuda.empty_cache() # as what records does
held = torch.cuda.memory_reserved()
del y
second, z = record(lambda: x * 3, pool=graph.pool())
assert torch.cuda.memory_reserved() == held and second.pool() == graph.pool()
second.replay()
assert z[0].item() == 3
del graph
second.replay()
assert z[0].item() == 3 and second.pool() in pools()
handle = torch.cuda.graph_pool_handle()
assert handle[0] == 0 and handle[1] > 0 and handle != torch.cuda.graph_pool_handle()
third, w = record(lambda: x * 5, pool=handle)
assert third.pool() == handle
third.replay()
# launches that have not run yet, of a graph that is gone
several = torch.zeros(3, device="cuda")
fourth, _ = record(lambda: several.add_(1))
for _ in range(4):
    fourth.replay()
del fourth
assert several.tolist() == [4] * 3
pool = second.pool()
del second, z
torch.cuda.empty_cache()
assert pool not in pools() and third.pool() in pools() and w[0].item() == 5
third.reset()
del w
torch.cuda.empty_cache()
assert pools() == {(0, 0)}
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_pools_of_a_program(order):
    passes(WORDS + """
MIB = 1 << 20
pool = torch.cuda.MemPool()
assert pool.id[0] == 0 and pool.use_count() == 1 and pool.snapshot() == []
with torch.cuda.use_mem_pool(pool):
    assert pool.use_count() == 2
    a = torch.ones(MIB, device="cuda")
    inner = torch.cuda.MemPool(no_split=True)
    with torch.cuda.use_mem_pool(inner):
        b = torch.ones(100, device="cuda")
b2 = torch.ones(100, device="cuda")
assert pool.use_count() == 1 and len(pool.snapshot()) == 1 and len(inner.snapshot()[0]["blocks"]) == 1
assert a.data_ptr() in [block["address"] for block in pool.snapshot()[0]["blocks"]]
assert pool.snapshot()[0]["active_size"] == 4 * MIB and inner.snapshot()[0]["segment_type"] == "small"
id, address = pool.id, a.data_ptr()
del a
c = torch.ones(MIB, device="cuda")
assert c.data_ptr() != address
graph, d = record(lambda: c + 1, pool=id)
graph.replay()
assert d[0].item() == 2 and d.data_ptr() in [block["address"] for s in torch.cuda.memory_snapshot(id) for block in s["blocks"]]
del pool
torch.cuda.empty_cache()
assert d[0].item() == 2
with pytest.raises(NotImplementedError):
    torch.cuda.MemPool(allocator=1)
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_lack_of_memory_while_a_graph_is_captured(order):
    passes(WORDS + """
x = torch.ones(1 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 42, device="cuda")
    z = y * 2
graph.replay()
assert z[0].item() == 4
torch.empty(1 << 20, device="cuda")
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_random_numbers_of_graphs(order):
    """Each launch draws what an eager call would."""
    passes(WORDS + """
x, own = torch.ones(1001, device="cuda"), torch.Generator("cuda")
def draw():
    return F.dropout(x, 0.4), torch.rand(7, device="cuda"), torch.randperm(50, device="cuda"), torch.randn(3, 5, device="cuda", generator=own).double().bernoulli_(0.5), x.clone().uniform_(-1, 1)
def eager(times):
    return [[t.cpu() for t in draw()] for _ in range(times)]
torch.cuda.manual_seed(5)
own.manual_seed(9)
eager(1)
want = eager(4)
torch.cuda.manual_seed(5)
own.manual_seed(9)
eager(1)
state = torch.cuda.get_rng_state()
graph = torch.cuda.CUDAGraph()
graph.register_generator_state(own)
with torch.cuda.graph(graph):
    made = draw()
assert torch.equal(torch.cuda.get_rng_state(), state) # what is recorded draws nothing yet
def replay():
    graph.replay()
    return [t.cpu() for t in made]
got = [replay(), replay(), *eager(1), replay()]
for w, g in zip(want, got):
    for a, b in zip(w, g):
        assert torch.equal(a, b), (a, b)
torch.cuda.manual_seed(5)
first = torch.cuda.get_rng_state()
a = replay()
torch.cuda.manual_seed(5)
assert torch.equal(replay()[0], a[0])
assert own.get_offset() % 4 == 0 and own.get_offset() > 0 and own.set_offset(8).get_offset() == 8
refused("multiple of 4", own.set_offset, 6)
torch.cuda.set_rng_state(first)
assert torch.equal(replay()[0], a[0]) and not torch.equal(replay()[0], a[0])
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_numbers_of_the_host_in_graphs(order):
    """Tables that operations make on the host are kept; page-locked tensors are read at each launch."""
    passes(WORDS + """
image, host = torch.randn(2, 3, 8, 8), torch.ones(4).pin_memory()
there, target = image.cuda(), torch.zeros(4, device="cuda")
def work():
    target.copy_(host, non_blocking=True)
    return (F.max_pool2d(there, 2), F.adaptive_avg_pool2d(there, (3, 5)), F.interpolate(there, (5, 7), mode="bilinear"), F.pad(there, (1, 2, 0, 1), mode="reflect"),
            F.interpolate(there, (4, 9)), torch.linspace(0, 1, 9, device="cuda"), torch.arange(5, device="cuda"), there.triu())
def eager(image):
    return (F.max_pool2d(image, 2), F.adaptive_avg_pool2d(image, (3, 5)), F.interpolate(image, (5, 7), mode="bilinear"), F.pad(image, (1, 2, 0, 1), mode="reflect"),
            F.interpolate(image, (4, 9)), torch.linspace(0, 1, 9), torch.arange(5), image.triu())
graph, made = record(work)
for scale in 1., -3.:
    there.copy_(image * scale)
    host.fill_(scale)
    graph.replay()
    assert target.tolist() == [scale] * 4
    for got, want in zip(made, eager(image * scale)):
        torch.testing.assert_close(got.cpu(), want)
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_questions_that_a_device_answers(order):
    """What is looked at only to find errors, and single numbers of the host, stop no capture."""
    passes(WORDS + """
x, p = torch.randn(4, 6, device="cuda"), torch.rand(3, 5, device="cuda")
def work():
    y, z = x.clone(), x.clone()
    y[x > 0] = 0.5
    z[torch.arange(2, device="cuda")] = 7
    return y, z, torch.multinomial(p, 1), torch.multinomial(p, 3), F.binary_cross_entropy(p, p)
torch.cuda.manual_seed(2)
want = work()
torch.cuda.manual_seed(2)
graph, made = record(work)
graph.replay()
for a, b in zip(want, made):
    assert torch.equal(a.cpu(), b.cpu())
p.fill_(2.)
graph.replay()
refused("device-side assert triggered", torch.cuda.synchronize)
torch.cuda.synchronize()
assert (x * 0).sum().item() == 0
""", RUSHLIGHT_CUDA_ORDER=order)


NETWORK = """
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
                               torch.nn.Dropout(0.3), torch.nn.Linear(36, 5)).cuda()
torch.manual_seed(1)
batches = [(torch.randn(6, 1, 8, 8).cuda(), torch.randint(0, 5, (6,)).cuda()) for _ in range(5)]
torch.backends.cudnn.deterministic = True
def train(model, optimizer, captured, step=None):
    "The losses of the batches, and the parameters at the end."
    x, y = torch.zeros(6, 1, 8, 8, device="cuda"), torch.zeros(6, dtype=torch.long, device="cuda")
    def plain(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()
    step, losses, side = step or plain, [], torch.cuda.Stream()
    torch.cuda.manual_seed(3)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for a, b in batches[:2]:
            x.copy_(a), y.copy_(b)
            optimizer.zero_grad()
            losses.append(step(x, y))
    torch.cuda.current_stream().wait_stream(side)
    losses = [loss.item() for loss in losses]
    if captured:
        optimizer.zero_grad()
        graph, loss = record(lambda: step(x, y))
    for a, b in batches * 2:
        x.copy_(a), y.copy_(b)
        if captured:
            graph.replay()
        else:
            optimizer.zero_grad()
            loss = step(x, y)
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()] + [b.cpu() for b in model.buffers()]
def same_bits(a, b):
    assert a[0] == b[0], (a[0], b[0])
    for p, q in zip(a[1], b[1]):
        assert torch.equal(p, q)
"""


@both
def test_a_training_step_as_a_graph(order):
    """Forward, back and the optimizer's step, with dropout: the losses of eager steps to the bit."""
    passes(WORDS + NETWORK + """
for make in (lambda p: torch.optim.Adam(p, lr=0.01, capturable=True), lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)):
    results = []
    for captured in False, True:
        model = network()
        results.append(train(model, make(model.parameters()), captured))
    same_bits(*results)
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_optimizers_in_graphs(order):
    passes(WORDS + """
def run(make, captured):
    torch.manual_seed(0)
    p = [torch.randn(5, 3).cuda().requires_grad_(), torch.randn(7).cuda().requires_grad_()]
    optimizer, scale = make(p), torch.ones((), device="cuda")
    def step():
        loss = sum((scale * q * q).sum() for q in p)
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    step()
    if captured:
        optimizer.zero_grad()
        graph, _ = record(step)
    for k in range(4):
        scale.fill_(k + 0.5)
        if captured:
            graph.replay()
        else:
            optimizer.zero_grad()
            step()
    return [q.detach().cpu() for q in p], [v.cpu() for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
for name in "Adam AdamW Adadelta Adamax ASGD NAdam RAdam RMSprop Rprop".split():
    kind = getattr(torch.optim, name)
    with pytest.raises(RuntimeError, match=f"Attempting CUDA graph capture of step\\\\(\\\\) for an instance of {name} but param_groups' capturable is False"):
        run(lambda p: kind(p), True)
    for options in ({}, {"lr": torch.tensor(0.02, device="cuda")}, *({"fused": True, "amsgrad": True} for _ in [0] if name == "Adam"), *({"momentum": 0.9, "lr": torch.tensor(0.02, device="cuda")} for _ in [0] if name == "RMSprop")):
        make = lambda p: kind(p, capturable=True, **options)
        for want, got in zip(run(make, False), run(make, True)):
            assert all(torch.equal(a, b) for a, b in zip(want, got)), (name, options)
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_a_scaler_in_graphs(order):
    """unscale_() and update() in a graph; and the whole step, of optimizers that skip it by themselves."""
    passes(WORDS + """
def run(make, captured):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).cuda()
    optimizer, scaler = make(model.parameters()), torch.amp.GradScaler("cuda", init_scale=64., growth_interval=2)
    x = torch.zeros(2, 4, device="cuda")
    def step():
        with torch.autocast("cuda", cache_enabled=False):
            loss = model(x).float().square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    x.fill_(0.1)
    step()
    optimizer.zero_grad()
    if captured:
        graph, _ = record(step)
    scales = []
    for value in 0.5, 1., float("inf"), 1., 0.3, 0.2:
        x.fill_(value)
        if captured:
            graph.replay()
        else:
            optimizer.zero_grad()
            step()
        scales.append(scaler.get_scale())
    return scales, [p.detach().cpu() for p in model.parameters()], [v.cpu() for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
for make in (lambda p: torch.optim.Adam(p, fused=True, capturable=True), lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, fused=True)):
    want, got = run(make, False), run(make, True)
    assert want[0] == got[0] == [128, 128, 64, 64, 128, 128], (want[0], got[0])
    for a, b in zip(want[1] + want[2], got[1] + got[2]):
        torch.testing.assert_close(b, a, rtol=1e-6, atol=1e-7)
""", RUSHLIGHT_CUDA_ORDER=order)


@both
def test_graphed_callables(order):
    passes(WORDS + NETWORK + """
results = []
for graphed in False, True:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    used = model
    if graphed:
        state = {k: v.clone() for k, v in model.state_dict().items()}
        used = torch.cuda.make_graphed_callables(model, (torch.randn(6, 1, 8, 8, device="cuda", requires_grad=True),))
        model.load_state_dict(state) # warming up counted in the batch norm
    def step(x, y):
        x = x.detach().requires_grad_()
        loss = F.cross_entropy(used(x), y)
        loss.backward()
        assert x.grad is not None
        optimizer.step()
        return loss.detach()
    results.append(train(model, optimizer, False, step))
    model.eval()
    with torch.no_grad():
        results[-1][1].append(model(batches[0][0][:3]).cpu()) # of another size: not the graph
same_bits(*results)

# functions, several, with results of any shape, and some without gradient
a, b, c = (torch.randn(3, device="cuda", requires_grad=True) for _ in range(3))
f, g = torch.cuda.make_graphed_callables((lambda u, v: {"sum": u + v, "rest": (u * v, v.detach() > 0)}, lambda u: u.exp()), ((a, b), (c,)))
u, v = (torch.tensor(t, device="cuda", requires_grad=True) for t in ([1., 2., 3.], [4., -5., 6.]))
out = f(u, v)
assert out["rest"][1].tolist() == [True, False, True] and not out["rest"][1].requires_grad
(g(out["sum"]) .sum() + out["rest"][0].sum()).backward()
total = torch.tensor([5., -3., 9.]).exp()
torch.testing.assert_close(u.grad.cpu(), total + torch.tensor([4., -5., 6.]))
torch.testing.assert_close(v.grad.cpu(), total + torch.tensor([1., 2., 3.]))
with pytest.raises(AssertionError, match="must contain only Tensors"):
    torch.cuda.make_graphed_callables(lambda u, k: u * k, (a, 3))
hooked = torch.nn.Linear(2, 2).cuda()
hooked.register_forward_hook(lambda *_: None)
with pytest.raises(AssertionError, match="must not have hooks"):
    torch.cuda.make_graphed_callables(hooked, (torch.ones(1, 2, device="cuda"),))
with torch.autocast("cuda"), pytest.raises(RuntimeError, match="autocast caching"):
    torch.cuda.make_graphed_callables(lambda u: u, (a,))
""", RUSHLIGHT_CUDA_ORDER=order)
