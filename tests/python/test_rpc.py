"""Remote calls: torch.distributed.rpc, references, and gradients over several workers."""
import os
import signal
import subprocess
import sys
import time

import rushlight as torch
import rushlight.distributed as dist
from test_dist import Ranks, port


WORKERS = """
import time
import rushlight.distributed.rpc as rpc
import rushlight.distributed.autograd as dist_autograd
from rushlight.distributed.optim import DistributedOptimizer

def add(a, b): return a + b
def bad(): raise ValueError("no such luck")
def late(): time.sleep(2); return 1
def again(name): return rpc.rpc_sync(name, add, (1, 2)) + 1
def value(ref): return ref.to_here(), ref.is_owner(), ref.owner_name()
def kept(): return len(rpc._agent.agent().values)
def keep(ref): globals()["held"] = ref
def let_go(): del globals()["held"]

class Box:
    def __init__(self, n): self.n = n
    def more(self, k=1): self.n += k; return self.n

def told(f):
    try:
        return f()
    except Exception as error:
        return type(error).__name__, str(error)

def until(f):
    end = time.monotonic() + 20
    while not f() and time.monotonic() < end:
        time.sleep(0.02)
    return f()

def work(main, size=2, **options):
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=size, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=url, **options))
    if rank == 0:
        main()
    rpc.shutdown()
"""


def outputs(n, program):
    with Ranks(n, WORKERS + program) as job:
        return job.outputs()


def test_calls():
    out = outputs(2, """
def main():
    print(rpc.rpc_sync("w1", add, args=(torch.ones(2), 3)).tolist(), rpc.rpc_sync(1, add, (3,), {"b": 5}), rpc.rpc_sync("w0", add, ("a", "b")))
    print(rpc.rpc_sync(rpc.get_worker_info("w1"), torch.add, args=(torch.ones(2), 3)).tolist(), rpc.rpc_sync("w1", again, ("w0",)))
    print(rpc.rpc_sync("w1", rpc.get_worker_info), rpc.get_worker_info())
    futures = [rpc.rpc_async("w1", add, (i, i)) for i in range(100)]
    print(sum(torch.futures.wait_all(futures)))
    big = torch.arange(1 << 20)
    print(torch.equal(rpc.rpc_sync("w1", add, (big, 0)), big))
    for f in (lambda: rpc.rpc_sync("w1", bad), lambda: rpc.rpc_sync("w7", bad), lambda: rpc.rpc_sync(7, bad), lambda: rpc.rpc_sync(None, bad),
              lambda: rpc.rpc_sync("w1", late, timeout=0.1)):
        kind, text = told(f)
        print(kind, text.splitlines()[0])
    print(told(lambda: rpc.rpc_sync("w1", lambda: 1))[0], "line" in told(lambda: rpc.rpc_sync("w1", bad))[1])
print(told(lambda: rpc.rpc_sync("w1", add)))
work(main)
print(told(rpc.get_worker_info))
""")
    none = "('RuntimeError', 'RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.')\n"
    assert out[1] == none * 2
    assert out[0] == none + """[4.0, 4.0] 8 ab
[4.0, 4.0] 4
WorkerInfo(id=1, name=w1) WorkerInfo(id=0, name=w0)
9900
True
ValueError On WorkerInfo(id=1, name=w1):
RuntimeError name:w0,rank:0 could not find destination name w7
RuntimeError name:w0,rank:0 could not find destination id 7
ValueError Cannot get WorkerInfo from name None
RuntimeError RPCErr:1:RPC ran for more than set timeout (100 ms) and will now be marked with an error
AttributeError True
""" + none


def test_references():
    out = outputs(3, """
def main():
    box = rpc.remote("w1", Box, (5,))
    print(box.rpc_sync().more(), box.rpc_sync().more(k=4), box.rpc_async().more().wait(), box.remote().more().to_here(), box.owner(), box.is_owner())
    print(rpc.rpc_sync("w2", value, (box,))[0].n, rpc.rpc_sync("w1", value, (box,))[1:], box.to_here().n)
    print(told(box.local_value)[0], told(rpc.remote("w1", bad).to_here)[0], told(box.rpc_sync().nothing)[0])
    own, made = rpc.RRef(3), rpc.remote("w0", add, (1, 1))
    print(own.to_here(), own.local_value(), own.owner_name(), rpc.rpc_sync("w1", value, (own,)), made.to_here(), rpc.rpc_sync("w1", value, (made,)))
    print(isinstance(own, torch._C._distributed_rpc.PyRRef), isinstance(box, rpc.PyRRef), isinstance(3, rpc.PyRRef), torch._C._distributed_rpc._is_current_rpc_agent_set())
    import pickle
    print(told(lambda: pickle.dumps(own)))
work(main, 3)
""")
    assert out[0] == """6 10 11 12 WorkerInfo(id=1, name=w1) False
12 (True, 'w1') 12
RuntimeError ValueError AttributeError
3 3 w0 (3, False, 'w0') 2 (2, False, 'w0')
True True False True
('RuntimeError', 'Can not pickle rref in python pickler, rref can only be pickled when using RPC')
"""


def test_a_value_lives_as_long_as_its_references():
    out = outputs(3, """
def main():
    box = rpc.remote("w1", Box, (5,))
    for _ in range(4):  # more copies than a batch of weight can be halved
        rpc.rpc_sync("w2", keep, (box,))
        for told in [rpc.rpc_async("w1", value, (box,)) for _ in range(50)]:
            told.wait()
    del box
    time.sleep(0.6)
    print(rpc.rpc_sync("w1", kept))
    rpc.rpc_sync("w2", let_go)
    print(until(lambda: rpc.rpc_sync("w1", kept) == 0))
    own = rpc.RRef(1)
    rpc.rpc_sync("w2", keep, (own,))
    print(kept())
    rpc.rpc_sync("w2", let_go)
    print(until(lambda: kept() == 0))
work(main, 3)
""")
    assert out[0] == "1\nTrue\n1\nTrue\n"


def test_workers_that_meet():
    out = outputs(3, """
def bring(names=None): return rpc.api._all_gather(rank * 10, names)
rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=url))
time.sleep(0.2 * rank)
print(sorted(bring().items()), sorted(bring({"w2", "w1"}).items()) if rank else told(lambda: bring({"w1"}))[0], len(bring()))
rpc.api._barrier({"w0", "w1", "w2"})
with rpc.api._wait_all():
    futures = [rpc.rpc_async((rank + 1) % 3, add, (i, 1), timeout=rpc.constants.UNSET_RPC_TIMEOUT) for i in range(5)]
print([f.done() for f in futures], len(rpc._agent.agent().meetings))
rpc.shutdown()
""")
    for i, text in enumerate(out):
        assert text == f"[('w0', 0), ('w1', 10), ('w2', 20)] {[('w1', 10), ('w2', 20)] if i else 'ValueError'} 3\n{[True] * 5} 0\n"


def test_a_result_that_comes_later():
    out = outputs(3, """
waiting = torch.futures.Future()
@rpc.functions.async_execution
def meet(me):
    global waiting
    if me == 2:
        waiting.set_result(7)
    return waiting.then(lambda f: f.wait() + me)
def go(me): return rpc.rpc_sync("w1", meet, (me,))
def main():
    print(torch.futures.wait_all([rpc.rpc_async("w0", go, (1,)), rpc.rpc_async("w2", go, (2,))]))
    print(told(lambda: rpc.rpc_sync("w1", nothing))[1].splitlines()[1])
@rpc.functions.async_execution
def nothing(): return 1
work(main, 3)
""")
    assert out[0].startswith("[8, 9]\nRuntimeError(") and "must return a torch.futures.Future object" in out[0]


def test_gradients_go_through_workers():
    """A chain over three workers, with a tensor that is sent twice; then steps of an optimizer, as in one process."""
    out = outputs(3, """
def tenfold(x): return x * 10
def through(x): return rpc.rpc_sync("w2", tenfold, (x,)) + x
class Layer:
    def __init__(self):
        self.w = torch.nn.Parameter(torch.arange(1., 4.))
    def forward(self, x): return self.w * x
    def parameters(self): return [rpc.RRef(self.w)]
    def now(self): return self.w.tolist(), self.w.grad
def main():
    with dist_autograd.context() as c:
        x, y = torch.ones(3, requires_grad=True), torch.full((3,), 2., requires_grad=True)
        z = rpc.rpc_sync("w1", through, (x * y,)) * rpc.rpc_sync("w1", add, (x, 1))
        print(z.requires_grad, z.is_leaf)
        dist_autograd.backward(c, [z.sum()])
        found = dist_autograd.get_gradients(c)
        print(found[x].tolist(), found[y].tolist(), x.grad, len(found))
    print(told(lambda: dist_autograd.get_gradients(-1)), told(lambda: dist_autograd.backward(-1, [z.sum()]))[0])
    layer, mine = rpc.remote("w1", Layer), torch.nn.Parameter(torch.ones(3))
    optimizer = DistributedOptimizer(torch.optim.SGD, layer.rpc_sync().parameters() + [rpc.RRef(mine)], lr=0.1)
    for _ in range(3):
        with dist_autograd.context() as c:
            loss = (layer.rpc_sync().forward(mine) ** 2).sum()
            dist_autograd.backward(c, [loss])
            optimizer.step(c)
    print([round(v, 5) for v in mine.tolist()], [round(v, 5) for v in layer.rpc_sync().now()[0]], layer.rpc_sync().now()[1], mine.grad)
    with dist_autograd.context() as c:
        print([told(lambda: dist_autograd.backward(c, roots))[1] for roots in ([], [torch.ones(1)], [x])])
    print(until(lambda: rpc.rpc_sync("w1", contexts) == 0))
def contexts(): return len(dist_autograd._contexts)
work(main, 3)
""")
    w, v = torch.arange(1.0, 4.0, requires_grad=True), torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w, v], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        ((w * v) ** 2).sum().backward()
        optimizer.step()
    # z = 11 x y (x + 1): dz/dx = 11 y (2 x + 1) = 66, dz/dy = 11 x (x + 1) = 22
    assert out[0] == f"""True False
[66.0, 66.0, 66.0] [22.0, 22.0, 22.0] None 2
('RuntimeError', 'Could not find autograd context with id: -1') RuntimeError
{[round(x, 5) for x in v.tolist()]} {[round(x, 5) for x in w.tolist()]} None None
['No tensors provided for gradient computation.', 'requires_grad not set on root', ' is not a scalar, all roots need to be scalar']
True
"""


def test_modules_at_other_workers():
    out = outputs(3, """
from rushlight.distributed.nn import RemoteModule
class Scaled(torch.nn.Module):
    def __init__(self, n, bias=True):
        super().__init__()
        self.own, self.drop = torch.nn.Linear(n, 3, bias=bias), torch.nn.Dropout(0.5)
        torch.nn.init.ones_(self.own.weight)
    def forward(self, x, scale=1.): return self.own(x) * scale
def used(m, x): return type(m).__name__, m.on, m.device, m.forward(x).tolist()
def mode(ref): return ref.local_value().training
class Holder(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
def main():
    m, x = RemoteModule("w1/cpu", Scaled, (2,), {"bias": False}), torch.ones(1, 2)
    print(m.forward(x).tolist(), m(x, scale=3.).tolist(), m.forward_async(x).wait().tolist(), m.on, m.device, m.get_module_rref() is m.module_rref)
    print([p.to_here().shape for p in m.remote_parameters()], m.remote_parameters(recurse=False))
    print(rpc.rpc_sync("w2", used, (m, x)), rpc.rpc_sync("w1", used, (m, x)))
    print(RemoteModule.init_from_module_rref("rank:1", m.module_rref).forward(x).tolist(), RemoteModule("w0", torch.nn.Identity).forward(x).tolist())
    print(type(m.eval()).__name__, rpc.rpc_sync("w1", mode, (m.module_rref,)), Holder(m).train() is not None and rpc.rpc_sync("w1", mode, (m.module_rref,)))
    import pickle
    for f in (m.cuda, m.parameters, m.state_dict, lambda: pickle.dumps(m), RemoteModule("w1", dict).forward, lambda: RemoteModule("a/b/c", Scaled)):
        kind, text = told(f)
        print(kind, text.splitlines()[0], "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>" in text)
    with dist_autograd.context() as c:
        dist_autograd.backward(c, [m.forward(x).sum()])
        print(rpc.rpc_sync("w1", gradients, (c,)))
def gradients(c): return [g.tolist() for g in dist_autograd.get_gradients(c).values()]
try:
    RemoteModule("w1", Scaled)
except AssertionError as error:
    print(error)
work(main, 3)
""")
    assert out[0] == """RemoteModule only works in RPC.
[[2.0, 2.0, 2.0]] [[6.0, 6.0, 6.0]] [[2.0, 2.0, 2.0]] w1 cpu True
[torch.Size([3, 2])] []
('RemoteModule', 'w1', 'cpu', [[2.0, 2.0, 2.0]]) ('RemoteModule', 'w1', 'cpu', [[2.0, 2.0, 2.0]])
[[2.0, 2.0, 2.0]] [[1.0, 1.0]]
Scaled False True
ValueError Method ``cuda`` not supported for RemoteModule False
ValueError Method ``parameters`` not supported for RemoteModule. Please use ``remote_parameters`` instead. False
ValueError Method ``state_dict`` not supported for RemoteModule False
RuntimeError Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC False
ValueError On WorkerInfo(id=1, name=w1): True
ValueError Could not parse remote_device: a/b/c. The valid format is '<workername>/<device>' or 'rank:<rank>/<device>' or '<device>' False
[[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]]
"""


def test_gradients_are_averaged_within_a_context():
    """Two trainers, a table at the third worker: the parameters under DistributedDataParallel get the mean of both, the table the sum of both contexts."""
    out = outputs(3, """
from rushlight.distributed.nn import RemoteModule
from rushlight.nn.parallel import DistributedDataParallel as DDP
class Half(torch.nn.Module):  # one layer has no part
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 1, bias=False), torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.ones_(self.a.weight)
    def forward(self, x): return self.a(x) if rank or x.sum() > 100 else self.a(x) + 0 * self.b(x)
def train(table, k):
    model = DDP(Half(), find_unused_parameters=True)
    model.module.a.weight.grad = torch.full((1, 2), 7.)
    mine = torch.ones(2, requires_grad=True)
    optimizer = DistributedOptimizer(torch.optim.SGD, [rpc.RRef(p) for p in model.parameters()], lr=1.)
    with dist_autograd.context() as c:
        loss = model(table.forward(torch.tensor([k])) * (k + 1) * mine).sum()
        dist_autograd.backward(c, [loss])
        found = dist_autograd.get_gradients(c)
        print([found[p].tolist() for p in model.parameters()], found[mine].tolist(), model.module.a.weight.grad.tolist())
        print(rpc.rpc_sync("w2", gradients, (c,)))
        optimizer.step(c)
    print(model.module.a.weight.tolist(), model.module.a.weight.grad.tolist())
    with dist_autograd.context() as c, model.no_sync():
        dist_autograd.backward(c, [model(torch.ones(1, 2) * (k + 1) * 100).sum()])
        print(dist_autograd.get_gradients(c)[model.module.a.weight].tolist())
def gradients(c): return [g.tolist() for g in dist_autograd.get_gradients(c).values()]
if rank < 2:
    dist.init_process_group("gloo", store=dist.PrefixStore("trainers", dist.TCPStore(url.split("/")[2].split(":")[0], other, is_master=rank == 0)), rank=rank, world_size=2)
def main():
    table = RemoteModule("w2", torch.nn.Embedding.from_pretrained, (torch.ones(2, 2),), {"freeze": False})
    torch.futures.wait_all([rpc.rpc_async(f"w{k}", train, (table, k)) for k in range(2)])
work(main, 3)
""".replace("other", str(port())))
    for k in range(2):
        assert out[k] == f"""[[[1.5, 1.5]], [[0.0, 0.0]]] {[float(k + 1)] * 2} [[7.0, 7.0]]
[{[[k + 1.0] * 2 if i == k else [0.0, 0.0] for i in range(2)]}]
[[-0.5, -0.5]] [[7.0, 7.0]]
[[{100.0 * (k + 1)}, {100.0 * (k + 1)}]]
"""


def test_nobody_leaves_while_another_has_something_to_say():
    """Twenty sessions on a busy machine. The end of a context goes from worker to worker, in messages that nobody waits for and that arrive late."""
    program = """
import random
deliver = rpc._agent.Agent.deliver
def late_notes(self, source, kind, number, body):
    if kind == rpc._agent.NOTE:
        time.sleep(random.random() * 0.1)
    deliver(self, source, kind, number, body)
rpc._agent.Agent.deliver = late_notes
random.seed(rank)
host, number = url.split("/")[2].split(":")
server = dist.TCPStore(host, int(number), is_master=rank == 0)  # outlives the sessions' own, which are connections to the same server
def on(x, to): return rpc.rpc_sync(to, add, (x, 1))
def main():
    with dist_autograd.context() as c:
        x = torch.ones(3, requires_grad=True)
        dist_autograd.backward(c, [sum(rpc.rpc_sync(f"w{k}", on, (x, f"w{3 - k}")) for k in (1, 2)).sum()])
        kept = rpc.remote("w1", on, (x, "w2"))
        rpc.rpc_sync("w2", value, (kept,))
for _ in range(20):
    work(main, 3)
    time.sleep(random.random() * 0.02)
print("done")
"""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        assert outputs(3, program) == ["done\n"] * 3
    finally:
        for p in busy:
            p.kill()
            p.wait()


def test_a_worker_that_dies_is_told():
    with Ranks(3, WORKERS + """
def main():
    print("ready", flush=True)
    kind, text = told(lambda: rpc.rpc_sync("w1", time.sleep, (60,), timeout=0))
    print(kind, "rank 1" in text, told(lambda: rpc.rpc_sync("w2", add, (1, 1)))[0])
rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=rpc.TensorPipeRpcBackendOptions(init_method=url))
if rank == 0:
    main()
print(told(rpc.shutdown)[0])
""") as job:
        assert job.line(0) == "ready"
        time.sleep(0.3)
        begun = time.monotonic()
        os.kill(job.processes[1].pid, signal.SIGKILL)
        outs = [job.processes[i].communicate(timeout=60)[0] for i in (0, 2)]
    assert outs == ["DistBackendError True DistBackendError\nDistBackendError\n", "DistBackendError\n"]
    assert time.monotonic() - begun < 40    # 2 s on a machine that has time; nobody waits for the minute of the call
