"""Key-value stores of torch.distributed: one table behind all of them, over a socket, in a file, under a prefix."""
import datetime
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import rushlight.distributed as dist

SHORT = datetime.timedelta(milliseconds=50)


def tcp(tmp_path):
    return dist.TCPStore("127.0.0.1", 0, 1, True)


MAKERS = {"tcp": tcp, "hash": lambda tmp_path: dist.HashStore(), "file": lambda tmp_path: dist.FileStore(str(tmp_path / "store"), 1),
          "prefix": lambda tmp_path: dist.PrefixStore("a", dist.PrefixStore("b", dist.HashStore()))}


@pytest.fixture(params=MAKERS)
def store(request, tmp_path):
    return MAKERS[request.param](tmp_path)


def test_what_it_holds(store):
    store.set("a", "x")
    store.set("b", b"\0\xff")
    assert (store.get("a"), store.get("b")) == (b"x", b"\0\xff")
    assert (store.add("n", 3), store.add("n", -1), store.get("n")) == (3, 2, b"2")
    store.append("s", "12")
    store.append("s", "34")
    assert store.get("s") == b"1234" and store.multi_get(["a", "n"]) == [b"x", b"2"]
    assert store.check(["a", "b"]) and not store.check(["a", "z"])
    assert (store.delete_key("a"), store.delete_key("a"), store.check(["a"])) == (True, False, False)
    assert [store.compare_set("c", *v) for v in (("", "1"), ("1", "2"), ("1", "3"))] == [b"1", b"2", b"2"]
    assert store.compare_set("d", "1", "3") == b"1" and not store.check(["d"])
    with pytest.raises(TypeError):
        store.set("a", 3)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(store)


def test_waits(store):
    with pytest.raises(dist.DistStoreError, match="(?i)wait timeout"):
        store.wait(["late"], SHORT)
    threading.Timer(0.05, store.set, ("late", "1")).start()
    store.wait(["late"], datetime.timedelta(seconds=20))
    assert store.get("late") == b"1"
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistStoreError):
        store.get("never")


def test_processes_meet():
    store = dist.TCPStore("127.0.0.1", 0, 2, True, wait_for_workers=False)
    program = ("import rushlight.distributed as d; s = d.TCPStore('127.0.0.1', %d, 2, False); s.wait(['go']); "
               "s.set('said', s.get('go') + b'!'); s.add('n', 5)" % store.port)
    worker = subprocess.Popen([sys.executable, "-c", program])
    store.set("go", "hello")
    store.wait(["said", "n"], datetime.timedelta(seconds=60))
    assert store.get("said") == b"hello!" and store.add("n", 0) == 5 and worker.wait(60) == 0


def test_no_one_there():
    store = tcp(None)
    with pytest.raises(dist.DistNetworkError, match="failed to listen"):
        dist.TCPStore("127.0.0.1", store.port, 1, True)
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=SHORT)
    with pytest.raises(dist.DistNetworkError, match="timed out after 50ms"):
        dist.TCPStore("127.0.0.1", 1, 2, False, timeout=SHORT)


def test_a_server_that_is_stopped():
    """Who waits or asks is told long before its own end."""
    program = "import rushlight.distributed as d, time; s = d.TCPStore('127.0.0.1', 0, 1, True); print(s.port, flush=True); time.sleep(100)"
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        store = dist.TCPStore("127.0.0.1", int(server.stdout.readline()), 1, False)
        server.send_signal(signal.SIGSTOP)
        for ask in (lambda: store.wait(["never"], datetime.timedelta(seconds=60)), lambda: store.add("n", 1)):
            began = time.monotonic()
            with pytest.raises(dist.DistNetworkError, match="its server is silent for 3.5 s: it is stopped"):
                ask()
            assert time.monotonic() - began < 40  # 4.5 s on a machine that has time
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_listens_where_it_was_told_only():
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.1", store.port)) == 0
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.2", store.port)) != 0


def test_one_server_for_several_stores_of_a_process():
    first = dist.TCPStore("127.0.0.1", 0, 1, True, multi_tenant=True)
    second = dist.TCPStore("127.0.0.1", first.port, 1, True, multi_tenant=True)
    first.set("key", "value")
    assert second.get("key") == b"value" and second.port == first.port
    with pytest.raises(dist.DistNetworkError, match="in use"):
        dist.TCPStore("127.0.0.1", first.port, 1, True)
    del first
    assert second.get("key") == b"value"
    port = second.port
    del second
    assert dist.TCPStore("127.0.0.1", port, 1, True).port == port


def test_debians_address_of_the_own_name_means_all_interfaces():
    store = dist.TCPStore("127.0.257", 0, 1, True)  # no address as such are written, so it is looked up, and found: 127.0.1.1
    with socket.socket() as s:
        assert s.connect_ex(("127.0.0.2", store.port)) == 0
