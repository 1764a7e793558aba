#!/usr/bin/env python3
"""Malformed requests at `rushlight serve`: tests/attack.py [--build build-san] [--requests N] [--workers K] [--seed S]

Bytes that are no HTTP, wrong lengths and headers, JSON and binary tensors with something changed in them, paths that lead elsewhere, connections cut
in the middle or left open: what a server on a network gets. Among them are right requests, which have to be answered rightly. At the end the server is asked
to end while it is busy: every request that it has taken must be answered. It prints what the server's memory was on the way; a crash, a report of
the sanitizers (of a build that has them), a leak, a wrong answer or memory that grows without bound ends this with 1.
"""
import argparse
import base64
import gzip
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
INFER, RIGHT = "/v2/models/times/infer", {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]}
ODD = [None, True, -1, 0, 1, 3, 2**31, 2**63 - 1, 2**63, 2**64, -2**63, 1e308, 0.5, "", "x", "FP32", "\ud800", "a" * 5000, [], {}, [[]], [1], [-1, 3], [2**62, 2**62],
       [0, 2**40], {"x": 1}, [None], ["a"], [1, [2, 3]], [1] * 3000]
PATHS = ["/v2/models/../infer", "/v2/models/%2e%2e%2f%2e%2e/infer", "/v2/models//infer", "/v2/models/times/versions/99999999999999999999/infer", "/v2/models/times/versions/-1/infer",
         "/v2/repository/models/%00/load", "/v2/repository/models/../../etc/load", "/v2/models/" + "a" * 9000 + "/infer", "/%", "//", "/v2/models/times/stats/x", "*",
         "http://elsewhere/v2", "/v2/models/times/infer?" + "q=1&" * 500]


def request(method, path, body=b"", headers=(), length=True):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *([f"Content-Length: {len(body)}"] if length else []), *headers]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def damaged(data, rng):
    """Some bytes dropped, doubled, changed or exchanged."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            del data[at:at + rng.choice([1, 2, 10, 100])]
        elif kind == 1:
            data[at:at] = data[at:at + rng.choice([1, 5, 50])] * rng.choice([1, 3, 20])
        elif kind == 2:
            data[at:at + 1] = bytes([rng.randrange(256)])
        else:
            data[at:at] = rng.choice([b"\0", b"\xff\xfe", b"\\u0000", b"\\ud800", b"1e999", b"-", b"[" * 3000, b"{\"a\":" * 1500, b"\"", b"9" * 400, b"\r\n", b"\r\n\r\n"])
    return bytes(data)


def changed(rng):
    """A right request with odd values in it, as JSON."""
    whole = json.loads(json.dumps(RIGHT))
    given = whole["inputs"][0]
    for _ in range(rng.choice([1, 1, 2])):
        where = rng.choice([whole, given, given, given])
        where[rng.choice(["inputs", "outputs", "id", "parameters"] if where is whole else ["name", "datatype", "shape", "data", "parameters"])] = rng.choice(ODD)
    if rng.random() < .2:
        whole["outputs"] = [{"name": rng.choice(["OUTPUT__0", "z", 7]), "parameters": {"binary_data": rng.choice(ODD)}}]
    if rng.random() < .1:
        whole["inputs"] = whole["inputs"] * rng.choice([2, 100]) if isinstance(whole["inputs"], list) else 1
    return json.dumps(whole).encode()


def binary(rng):
    tensor = os.urandom(rng.choice([0, 1, 4, 23, 24, 25, 4000]))
    given = {"name": "x", "datatype": rng.choice(["FP32", "FP16", "BOOL", "UINT64", "BYTES", "BF16", "x"]), "shape": rng.choice([[2, 3], [6], [], [0], [2**40, 0], [-2, -3]]),
             "parameters": {"binary_data_size": rng.choice([len(tensor), 24, 0, -1, 2**63 - 1, 2**64, 1.5])}}
    head = json.dumps({"inputs": [given]}).encode()
    told = rng.choice([len(head), len(head), 0, -1, len(head) + len(tensor), len(head) + len(tensor) + 1, 2**64, "x"])
    return request("POST", INFER, head + tensor, [f"Inference-Header-Content-Length: {told}"])


def text(rng):
    """What a language model is asked, with odd values in it."""
    chat, message = rng.random() < .5, {"role": "user", "content": "The"}
    whole = {"model": "gpt2", "max_tokens": 4, **({"messages": [message]} if chat else {"prompt": "The"})}
    for _ in range(rng.choice([0, 1, 2])):
        place = message if rng.random() < .2 else whole
        place[rng.choice(["role", "content"] if place is message else
                         ["model", "prompt", "messages", "max_tokens", "temperature", "top_p", "top_k", "n", "stop", "stream", "stream_options", "echo", "seed", "best_of", "logprobs", "top_logprobs", "frequency_penalty",
                          "presence_penalty", "logit_bias"])] = rng.choice(ODD + [{"5": 1}, {"-1": 1}, {"99999": -100}, 20])
    whole.setdefault("stream", rng.random() < .5)
    body = json.dumps(whole).encode()
    return request("POST", "/v1/chat/completions" if chat else "/v1/completions", damaged(body, rng) if rng.random() < .3 else body)


PNG = bytes.fromhex("89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f80000000b49444154789c636000010000060001fe8c67c80000000049454e44ae426082")      # 2 x 2, grey


def files(rng):
    """What a model that begins with pictures is asked: the file as the body, or as BYTES, with something changed."""
    picture = damaged(PNG, rng) if rng.random() < .8 else PNG
    if rng.random() < .5:
        return request("POST", "/v2/models/cats/infer", picture, [rng.choice(["Content-Type: image/png", "Content-Type: text/plain", "Inference-Header-Content-Length: 0"])])
    n = rng.choice([0, 1, 1, 2, 5])
    texts = b"".join(struct.pack("<I", rng.choice([len(picture)] * 9 + [0, 1, 2**32 - 1, 2**31])) + picture for _ in range(n))
    given = {"name": "picture", "datatype": "BYTES", "shape": rng.choice([[n], [n], [n], [1, n], [n + 1], [2**40], []]), "parameters": {"binary_data_size": len(texts)}}
    head = json.dumps({"inputs": [given], "outputs": [{"name": rng.choice(["labels", "scores", "z"]), "parameters": {"binary_data": rng.choice([True, False, 1])}}]}).encode()
    return request("POST", "/v2/models/cats/infer", head + (damaged(texts, rng) if texts and rng.random() < .3 else texts), [f"Inference-Header-Content-Length: {len(head)}"])


def compressed(rng):
    """Bodies that say they are compressed: whole, cut, damaged, or a thousand times as large as they come."""
    body = json.dumps(RIGHT).encode() if rng.random() < .9 else b" " * rng.choice([1 << 16, 5 << 20])
    body = rng.choice([gzip.compress, zlib.compress])(body, 1)
    if rng.random() < .6:
        body = damaged(body, rng)
    return request("POST", INFER, body, [f"Content-Encoding: {rng.choice(['gzip', 'deflate', 'gzip', 'br', 'gzip, gzip', ''])}"])


def beside(rng):
    """Regions of shared memory, classes, settings (of traces, too), and models that come with the request, with odd values in them."""
    odd, region = rng.choice(ODD), {"shared_memory_region": "a", "shared_memory_byte_size": 24, "shared_memory_offset": 8}
    kind = rng.randrange(6)
    if kind == 0:
        how = {"key": "/attack", "byte_size": 56, "offset": 8}
        how[rng.choice(list(how))] = odd
        return request("POST", f"/v2/systemsharedmemory/{rng.choice(['region/a/', 'region/b/', 'region/' + 'a' * 300 + '/', ''])}{rng.choice(['register', 'register', 'unregister', 'status'])}", json.dumps(how).encode())
    if kind == 1:
        region[rng.choice(list(region))] = odd
        whole = json.loads(json.dumps(RIGHT))
        if rng.random() < .5:
            del whole["inputs"][0]["data"]
            whole["inputs"][0]["parameters"] = region
        else:
            whole["outputs"] = [{"name": "OUTPUT__0", "parameters": region}]
        return request("POST", INFER, json.dumps(whole).encode())
    if kind == 2:
        return request("POST", INFER, json.dumps({**RIGHT, "outputs": [{"name": "OUTPUT__0", "parameters": {"classification": odd, "binary_data": rng.random() < .5}}] * rng.choice([1, 3])}).encode())
    if kind == 3 and rng.random() < .5:
        path = rng.choice(["/v2/trace/setting", "/v2/models/times/trace/setting", "/v2/models/none/trace/setting", "/v2/models/times/trace"])
        return request("POST", path, json.dumps({rng.choice(["trace_level", "trace_rate", "trace_count", "log_frequency", "trace_file", "x"]): rng.choice([odd, ["TIMESTAMPS"], ["OFF"], "7", 2])}).encode())
    if kind == 3:
        return request("POST", "/v2/logging", json.dumps({rng.choice(["log_error", "log_verbose_level", "log_file", "log_format", "x"]): odd}).encode())
    parameters = {"config": rng.choice([odd, "{}", '{"max_batch_size": -1}', "[" * 2000])}
    if kind == 5:
        parameters[rng.choice(["file:1/model.pt", "file:2/model.pt2", "file:1/model.gguf", "file:1/model.onnx", "file:../model.pt", "file:"])] = rng.choice([odd, base64.b64encode(os.urandom(300)).decode(), "===="])
    return request("POST", f"/v2/repository/models/{rng.choice(['sent', 'sent', 'none', '..', 'a' * 200])}/load", json.dumps({"parameters": parameters}).encode())


def malformed(rng):
    kind = rng.randrange(13)
    body = json.dumps(RIGHT).encode()
    if kind == 0:
        return os.urandom(rng.choice([1, 16, 500])) + rng.choice([b"", b"\r\n\r\n"])
    if kind == 1:
        return request(rng.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "PATCH", "CONNECT", "X" * 300]), rng.choice(PATHS), rng.choice([b"", body]))
    if kind == 2:
        headers = [rng.choice(["no colon", ": x", "A: " + "b" * 15000, "\0: \0", "Transfer-Encoding: chunked", "Expect: 100-continue", "Connection: upgrade", "Host: a\r\n b"])
                   for _ in range(rng.choice([1, 3, 90]))]
        return request("POST", INFER, body, headers)
    if kind == 3:
        length = rng.choice([0, 1, len(body) - 1, len(body) + 1, -1, 2**31, 2**63, 2**64, "x", "1, 2", "0x10", " 5 "])
        return request("POST", INFER, body, [f"Content-Length: {length}"] * rng.choice([1, 2]), length=False)
    if kind == 4:
        return request("POST", INFER, rng.choice([b"5\r\nabcde\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"zz\r\n", b"5\r\nab", b"10000000\r\n" + b"a" * 5000]),
                       ["Transfer-Encoding: chunked"], length=False)
    if kind == 5:
        return request("POST", INFER, damaged(body, rng))
    if kind == 6:
        return request("POST", INFER, changed(rng))
    if kind == 7:
        return binary(rng)
    if kind == 8:
        return text(rng)
    if kind == 9:
        return files(rng)
    if kind == 10:
        return compressed(rng)
    if kind == 11:
        return beside(rng)
    return damaged(request("POST", INFER, body), rng)


def ask(port, data, cut=None):
    """What is answered; of a request that is cut after so many bytes, nothing."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        try:
            if cut is not None:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.sendall(data[:cut])
                return b""
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            found = []
            while part := s.recv(65536):
                found.append(part)
            return b"".join(found)
        except OSError:  # the other side has closed it
            return b""


def right(port):
    answer = ask(port, request("POST", INFER, json.dumps(RIGHT).encode(), ["Connection: close"]))
    return answer.startswith(b"HTTP/1.1 200") and json.loads(answer.partition(b"\r\n\r\n")[2])["outputs"][0]["data"] == [2, 4, 6, 8, 10, 12]


def worker(port, n, seed, done, wrong):
    rng, held = random.Random(seed), []
    for i in range(n):
        draw = rng.random()
        if draw < .01:
            if not right(port):
                with wrong.get_lock():
                    wrong.value += 1
        elif draw < .1:
            data = malformed(rng)
            ask(port, data, rng.randrange(len(data) + 1))
        elif draw < .102:  # somebody who says nothing more for a while
            held.append(socket.create_connection(("127.0.0.1", port), timeout=60))
            held[-1].sendall(request("POST", INFER, b"{", ["Content-Length: 100"], length=False))
            if len(held) > 3:
                held.pop(0).close()
        else:
            ask(port, malformed(rng))
        with done.get_lock():
            done.value += 1
    for s in held:
        s.close()


def save_cats(command, torch, folder):
    """A model from pictures to names."""
    class Pixels(torch.nn.Module):
        def forward(self, x):
            return x.mean((2, 3))
    program = torch.export.export(Pixels(), (torch.rand(2, 3, 4, 4),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},))
    torch.export.save(program, folder / "plain.pt2")
    (folder / "labels.txt").write_text("red\ngreen\nblue\n")
    subprocess.run([command, "archive", folder / "plain.pt2", "-o", folder / "cats.pt2", "--picture", "--resize", "5", "--softmax", "--top", "2", "--labels", folder / "labels.txt"], check=True)


def memory(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def ending(port, process, n=8):
    """Every request that was taken while the server ends is answered: how many were, how many not."""
    counts = {"answered": 0, "refused": 0, "lost": 0}
    lock = threading.Lock()

    def client():
        body = request("POST", INFER, json.dumps(RIGHT).encode())
        while True:
            try:
                s = socket.create_connection(("127.0.0.1", port), timeout=60)
            except OSError:
                return
            with s:
                try:
                    s.sendall(body)
                    answer = s.recv(65536)
                except ConnectionError:
                    answer = b""
            with lock:  # a connection that ends without a byte was never taken: the client may ask elsewhere
                counts["answered" if answer.startswith(b"HTTP/1.1 200") and b'"data"' in answer else "refused" if not answer or answer[9:12] == b"503" else "lost"] += 1
            if not answer:
                return
    threads = [threading.Thread(target=client) for _ in range(n)]
    for t in threads:
        t.start()
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    for t in threads:
        t.join()
    return counts


def served(command, folder, *options, **how):
    """A server of three models, which it puts in the folder, and its port."""
    sys.path.insert(0, str(ROOT / "python"))
    import rushlight as torch
    torch.jit.trace(lambda x: x * 2., torch.ones(2, 3)).save(f"{folder}/times.pt")
    shutil.copy(ROOT / "tests/data/gguf/gpt2.gguf", folder)
    save_cats(command, torch, pathlib.Path(folder))
    process = subprocess.Popen([command, "serve", folder, "--port", "0", *options], stdout=subprocess.PIPE, text=True, **how)
    port = int(process.stdout.readline().rsplit(":", 1)[1])
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return process, port


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--build", type=pathlib.Path, default=ROOT / "build-san")
    cli.add_argument("--requests", type=int, default=1_000_000)
    cli.add_argument("--workers", type=int, default=4)
    cli.add_argument("--seed", type=int, default=1)
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        reports = f"{folder}/reports"
        env = {**os.environ, "ASAN_OPTIONS": f"detect_leaks=1:quarantine_size_mb=16:log_path={reports}", "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}"}
        process, port = served(args.build / "rushlight", folder, "--max-mb", "4", "--timeout-ms", "3000", "--shared-memory", "--trace", f"{folder}/traces", stderr=subprocess.DEVNULL, env=env)
        assert right(port)
        pathlib.Path("/dev/shm/attack").write_bytes(bytes(64))
        done, wrong = multiprocessing.Value("q", 0), multiprocessing.Value("q", 0)
        workers = [multiprocessing.Process(target=worker, args=(port, args.requests // args.workers, args.seed * 1000 + k, done, wrong)) for k in range(args.workers)]
        for w in workers:
            w.start()
        sizes, began = [], time.time()
        while any(w.is_alive() for w in workers) and process.poll() is None:
            sizes.append((done.value, memory(process.pid)))
            time.sleep(2)
            if len(sizes) % 30 == 0:
                print(f"{done.value} requests, {time.time() - began:.0f} s, {sizes[-1][1]} MB", flush=True)
        alive = process.poll() is None
        broken = sum(w.exitcode != 0 for w in workers) if alive else 0
        for w in workers:
            w.terminate()
        fine = alive and right(port)
        counts = ending(port, process) if alive else {}
        code = process.wait(timeout=120)
        os.remove("/dev/shm/attack")
        found = "".join(p.read_text(errors="replace") for p in pathlib.Path(folder).glob("reports*"))
    early = max([m for n, m in sizes if n <= args.requests // 4] or [0])
    most = max(m for _, m in sizes)
    print(found[:6000])
    print(f"{done.value} requests in {time.time() - began:.0f} s; right ones answered wrongly: {wrong.value}; memory {early} MB in the first quarter, {most} MB at most; "
          f"at the end {counts}, exit {code}; reports: {found.count('ERROR') + found.count('runtime error')}")
    return not (alive and fine and not broken and not wrong.value and code == 0 and not found and counts["lost"] == 0 and most <= early + 64)


if __name__ == "__main__":
    sys.exit(main())
