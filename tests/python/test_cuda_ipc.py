"""Tensors and events of CUDA devices in several processes: emulated, where devices lend files of their memory. Each test is a program of its own, as in test_cuda.py."""
import pytest

from test_cuda import run

from test_cuda import pytestmark  # noqa: F401

PROGRAM = """
import gc, os, signal, time
import rushlight as torch
import rushlight.multiprocessing as mp

def held():
    torch.cuda.ipc_collect()
    return torch.cuda.memory_allocated()

def eventually(f, seconds=60):
    end = time.time() + seconds
    while not f():
        assert time.time() < end, "it did not come to that"
        time.sleep(0.02)

class Peer:
    '''A process that runs f(received, answers).'''
    def __init__(self, f, *args):
        context = mp.get_context("spawn")
        self.to, self.back = context.Queue(), context.Queue()
        self.process = context.Process(target=f, args=(self.to, self.back, *args), daemon=True)
        self.process.start()
    def ask(self, x):
        self.to.put(x)
        return self.back.get(timeout=60)
    def end(self):
        self.to.put(None)
        self.process.join(60)
        assert self.process.exitcode == 0, self.process.exitcode
"""

TESTS = {
    "a queue of tensors": """
def work(received, answers):
    for x in iter(received.get, None):
        assert x.is_cuda and x.is_shared()
        answers.put((x.sum().item(), tuple(x.shape), x.dtype, x.requires_grad, type(x).__name__))
        x.detach().mul_(2) # the other side sees it
        del x
        torch.cuda.synchronize()
        answers.put("done")

def main():
    peer = Peer(work)
    for x in (torch.arange(6., device="cuda").reshape(2, 3), torch.ones(3 << 20, device="cuda"), torch.arange(5, device="cuda", dtype=torch.int16), torch.ones(7, device="cuda:1").requires_grad_(),
              torch.nn.Parameter(torch.ones(2, device="cuda")), torch.ones(0, 3, device="cuda")):
        with torch.no_grad():
            want = x.sum().item(), tuple(x.shape), x.dtype, x.requires_grad, type(x).__name__
            double = (x.detach() * 2).cpu()
            assert peer.ask(x) == want and peer.back.get(timeout=60) == "done"
            assert torch.equal(x.detach().cpu(), double), x
    del x, double
    peer.end()
    gc.collect()
    assert held() == 0, held()
""",
    "views of one storage": """
def work(received, answers):
    a, b, c = received.get()
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() == c.untyped_storage().data_ptr() and b.storage_offset() == 4 and c.stride() == (1, 4)
    a.fill_(5)
    assert b.unique().tolist() == [5] and c.shape == (4, 3)
    again, = received.get() # what was sent before and is still here
    assert again.data_ptr() == b.data_ptr()
    torch.cuda.synchronize()
    answers.put("seen")
    received.get()

def main():
    x = torch.zeros(3, 4, device="cuda")
    other = torch.ones(3, 4, device="cuda") # of the same segment
    peer = Peer(work)
    peer.to.put((x, x[1], x.t()))
    assert peer.ask((x[1],)) == "seen"
    assert x.unique().tolist() == [5] and other.unique().tolist() == [1]
    before = held()
    del x
    assert held() == before # it is lent
    peer.end()
    assert held() == before - 512
""",
    "the sender keeps memory until the receiver is done": """
def work(received, answers):
    x = received.get()
    answers.put("have it")
    received.get()
    answers.put(x.unique().tolist())
    del x
    answers.put("gone")
    received.get()

def main():
    peer = Peer(work)
    x = torch.full((1 << 20,), 3., device="cuda")
    first = x.data_ptr()
    assert peer.ask(x) == "have it"
    del x
    others = [torch.full((1 << 20,), 9., device="cuda") for _ in range(4)]
    assert first not in [o.data_ptr() for o in others] and held() == 5 * (4 << 20)
    assert peer.ask("what is in it?") == [3.] and peer.back.get(timeout=60) == "gone"
    assert torch.full((1 << 20,), 9., device="cuda").data_ptr() == first # without being collected: it is looked for when there is none
    peer.end()
""",
    "what a stream still has to do": """
def work(received, answers):
    answers.put(torch.ones(1, device="cuda").item())
    x, event = received.get()
    answers.put((x[-1] * 1).item())
    event.wait()
    answers.put((x[0] * 1).item())
    event.synchronize()
    assert event.query()
    received.get()

def main():
    peer, side = Peer(work), torch.cuda.Stream()
    event = torch.cuda.Event(interprocess=True)
    assert peer.back.get(timeout=60) == 1 # it is ready
    x = torch.zeros(100000, device="cuda")
    for _ in range(300):
        x += 1
    event.record(side)
    peer.to.put((x, event)) # nobody waits for the stream here
    assert peer.back.get(timeout=60) == 300. and peer.back.get(timeout=60) == 300.
    peer.end()
""",
    "a receiver that is killed": """
def work(received, answers):
    x, unread = received.get(), None
    answers.put(x.sum().item())
    time.sleep(600)

def main():
    peer = Peer(work)
    x = torch.ones(1 << 20, device="cuda")
    assert peer.ask(x) == 1 << 20
    del x
    assert held() == 4 << 20
    os.kill(peer.process.pid, signal.SIGKILL)
    peer.process.join()
    eventually(lambda: held() == 0)
""",
    "a sender that ends": """
def work(received, answers):
    x = torch.arange(1000., device="cuda")
    answers.put(x)
    received.get() # it is open there
    del x

def main():
    peer = Peer(work)
    x = peer.back.get(timeout=60)
    assert x.sum().item() == 499500
    peer.end()
    assert x.sum().item() == 499500 and (x + 1).sum().item() == 500500 # emulated: files stay as long as they are open
    x.add_(1)
    assert x.sum().item() == 500500
""",
    "events": """
def work(received, answers):
    handle, device = received.get()
    event = torch.cuda.Event.from_ipc_handle(device, handle)
    assert event.query() # it was not recorded
    answers.put("ready")
    received.get()
    event.synchronize()
    answers.put(event.query())
    event.record()
    event.synchronize()
    received.get()

def main():
    peer = Peer(work)
    for what in (lambda: torch.cuda.Event().ipc_handle(), lambda: torch.cuda.Event(interprocess=True, enable_timing=True)):
        try: what()
        except RuntimeError as e: assert "invalid argument" in str(e)
        else: assert False
    event = torch.cuda.Event(interprocess=True)
    assert len(event.ipc_handle()) == 64 and peer.ask((event.ipc_handle(), torch.device("cuda:0"))) == "ready"
    x = torch.zeros(100000, device="cuda")
    for _ in range(100):
        x += 1
    event.record()
    peer.to.put("recorded")
    assert peer.back.get(timeout=60) is True and event.query()
    peer.end()
""",
    "what cannot be sent": """
def work(received, answers):
    x = received.get()
    try: x.untyped_storage()._share_cuda_()
    except RuntimeError as e: answers.put(str(e))
    answers.put(x.clone())
    received.get()

def main():
    peer = Peer(work)
    x = torch.ones(3, device="cuda")
    assert "Consider cloning before sending" in peer.ask(x)
    y = peer.back.get(timeout=60)
    assert y.tolist() == [1, 1, 1]
    del y
    from rushlight.multiprocessing import reductions
    device, handle, size, offset, counter, slot, event, waits = reductions.share_cuda_storage(storage := x.untyped_storage())
    assert (device, size, waits, len(event)) == (0, 12, True, 64)
    back = reductions.rebuild_cuda_storage(device, handle, size, offset, counter, slot, event, waits)
    assert back.data_ptr() == x.data_ptr() # in this process it is this storage
    for broken in (handle[:-1], b"x" + handle[1:]):
        try: torch.UntypedStorage._new_shared_cuda(device, broken, size, offset, counter, slot, b"", False)
        except RuntimeError as e: assert "not a handle of CUDA memory" in str(e), e
        else: assert False
    peer.end()
""",
}


@pytest.mark.parametrize("segments", [False, True], ids=["emulated", "emulated expandable"])
@pytest.mark.parametrize("name", TESTS)
def test_processes(tmp_path, name, segments):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + TESTS[name] + '\nif __name__ == "__main__":\n    main()\n')
    done = run([str(program)], PYTORCH_ALLOC_CONF=f"expandable_segments:{segments}")
    assert done.returncode == 0, done.stderr[-3000:]
