"""`rushlight serve`: the KServe v2 protocol by plain HTTP, and by tritonclient where that is installed."""
import base64
import concurrent.futures
import gzip
import http.client
import json
import multiprocessing.shared_memory
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import zlib

import places
import pytest
import rushlight as torch

SERVER = places.command(allow_module_level=True)
if "without civetweb" in subprocess.run([SERVER], capture_output=True, text=True).stdout:
    pytest.skip("this build has no `rushlight serve`: civetweb is not installed", allow_module_level=True)


def save(path, factor):
    """x -> factor * x, put in place in one step."""
    def times(x):
        return x * factor
    torch.jit.trace(times, torch.ones(2, 3)).save(str(path) + ".new.pt")
    os.replace(str(path) + ".new.pt", path)


class Server:
    def __init__(self, folder, *options, key=None, env={}):
        self.process = subprocess.Popen([SERVER, "serve", str(folder), "--port", "0", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **env, **({"RUSHLIGHT_API_KEY": key} if key else {})})
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def ask(self, method, path, body=None, headers=None, tls=None):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=tls) if tls else http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content, answer.headers

    def infer(self, values, model="times", **more):
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(values) // 3, 3], "data": values}], **more})
        return self.ask("POST", f"/v2/models/{model}/infer", body)

    def raw(self, data):
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as s:
            s.sendall(data)
            return s.recv(65536)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, self.process.stderr.read()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save(folder / "times.pt", 2.)
    made = Server(folder, "--max-mb", "1", "--timeout-ms", "5000", "--delay-us", "200")
    made.folder = folder
    yield made
    made.end()


def test_what_there_is(server):
    assert [server.ask("GET", p)[0] for p in ("/v2/health/live", "/v2/health/ready", "/v2/models/times/ready", "/v2/models/other/ready")] == [200, 200, 200, 400]
    assert json.loads(server.ask("GET", "/v2")[1])["name"] == "rushlight"
    about = json.loads(server.ask("GET", "/v2/models/times")[1])
    assert about["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1]}] and about["versions"] == ["1"]
    assert json.loads(server.ask("GET", "/v2/models/times/versions/1/config")[1])["dynamic_batching"]["max_queue_delay_microseconds"] == 200
    assert json.loads(server.ask("POST", "/v2/repository/index")[1]) == [{"name": "times", "version": "1", "state": "READY", "reason": ""}]
    assert b'rushlight_model_ready{model="times",version="1"} 1' in server.ask("GET", "/metrics")[1]


def test_json_and_binary(server):
    status, content, _ = server.infer([1, 2, 3.5], id="a")
    answer = json.loads(content)
    assert status == 200 and answer["id"] == "a"
    assert answer["outputs"] == [{"name": "OUTPUT__0", "datatype": "FP32", "shape": [1, 3], "data": [2, 4, 7]}]
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}],
                       "outputs": [{"name": "OUTPUT__0", "parameters": {"binary_data": True}}]}).encode()
    status, content, headers = server.ask("POST", "/v2/models/times/infer", head + struct.pack("<2f", 1.5, -1), {"Inference-Header-Content-Length": str(len(head))})
    n = int(headers["Inference-Header-Content-Length"])
    assert status == 200 and json.loads(content[:n])["outputs"][0]["parameters"] == {"binary_data_size": 8}
    assert struct.unpack("<2f", content[n:]) == (3, -2)


@pytest.mark.parametrize("body, why", [
    (b"", "JSON"), (b"{", "JSON"), (b"[]", "JSON"), (b"{}", "inputs"), (b"[" * 5000, "JSON"), (b'{"inputs":[{}]}', "name"),
    (b'{"inputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[1]}]}', "unexpected"),
    (b'{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"data":["a"]}]}', "datatype"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1]}]}', "shape"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[-1],"data":[1]}]}', "sizes"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1000000000000,1000000000000],"data":[1]}]}', "too many"),
    (b'{"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[300]}]}', "fit"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}', "bytes"),
    (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],"outputs":[{"name":"z"}]}', "output"),
])
def test_what_is_wrong_is_said(server, body, why):
    status, content, _ = server.ask("POST", "/v2/models/times/infer", body)
    assert status == 400 and why in json.loads(content)["error"]
    assert server.infer([1, 2, 3])[0] == 200


def test_head_is_get_without_the_body(server):
    for path in ("/v2/models/times", "/v2/health/live", "/", "/v2/models/none"):
        status, body, headers = server.ask("GET", path)
        asked, nothing, same = server.ask("HEAD", path)
        assert (asked, nothing, same["Content-Length"]) == (status, b"", str(len(body)))


def test_ipv6(tmp_path):
    """It listens there, or says what it lacks."""
    process = subprocess.Popen([SERVER, "serve", str(tmp_path), "--host", "::1", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if line:
        with socket.create_connection(("::1", int(line.rsplit(":", 1)[1])), timeout=60) as s:
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert line.count("[::1]") == 1 and s.recv(15) == b"HTTP/1.1 200 OK"
    process.terminate()
    assert process.wait(timeout=60) == (0 if line else 1) and ("without IPv6" in process.stderr.read()) == (not line)


def test_hanging_up_is_an_end(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and by what is started, too
    made = Server(tmp_path)
    signal.signal(signal.SIGHUP, before)
    made.process.send_signal(signal.SIGHUP)
    assert made.process.wait(timeout=60) == 0


def test_limits(server):
    assert server.ask("POST", "/v2/models/times/infer", b"x" * (1 << 20 | 1))[0] == 413
    assert server.ask("POST", "/v2/models/none/infer", b"{}")[0] == 404
    assert server.ask("DELETE", "/v2/models/times")[0] == 405
    assert server.ask("POST", "/v2/models/times/infer", b"{}", {"Inference-Header-Content-Length": "-5"})[0] == 400
    for cut in (b"POST /v2/models/times/infer HTTP/1.1\r\nContent-Length: 100\r\n\r\n{", b"\0\xff\r\n\r\n", b"GET " + b"a" * 20000 + b" HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(cut)
    assert server.infer([1, 2, 3])[0] == 200


def test_where_a_body_ends(server):
    """Half a body is none, however well it reads; and a request says once how long it is, or a proxy may see the next one elsewhere."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}).encode()
    whole = b"%x\r\n%s\r\n" % (65536, body.ljust(65536))                                   # as much as the server reads at first

    def ask(rest, headers=b"Transfer-Encoding: chunked\r\n"):
        return server.raw(b"POST /v2/models/times/infer HTTP/1.1\r\nHost: a\r\n" + headers + b"\r\n" + rest)

    assert all(b" 200 OK" in ask(whole + rest) for rest in (b"0\r\n\r\n", b"3\r\n   \r\n0\r\n\r\n", b"0\r\nX-Sum: 1\r\n\r\n"))
    for rest in (b"3;a=b\r\n   \r\n0\r\n\r\n", b"x\r\n\r\n", b"-1\r\n\r\n", b"0;a\r\n\r\n"):
        assert b" 400 " in ask(whole + rest) and b"cut short" in ask(whole + rest)
    length = b"Content-Length: %d\r\n" % len(body)
    assert b" 200 OK" in ask(body, length)
    for headers in (length + length, length + b"Transfer-Encoding: chunked\r\n", length[:-2] + b"x\r\n", length.replace(b": ", b": +"), b"Transfer-Encoding: chunked\r\n" * 2):
        assert b"where the body ends" in ask(body, headers)


def test_a_connection_that_ends_is_said_to_end(server):
    """Else the client's next request goes into it, and is lost."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}]}).encode()
    chunked = [b"Transfer-Encoding: chunked", b""]
    for version, headers, rest, stays in ((b"1.1", [], b"", True), (b"1.0", [], b"", False), (b"1.0", [b"Connection: Keep-Alive"], b"", True), (b"1.1", [b"Connection: close"], b"", False),
                                          (b"1.1", [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAoAAA"], b"", False),     # Java's client begins with it
                                          (b"1.1", [b"Trailer: X-Sum", *chunked], b"0\r\nX-Sum: 1\r\n\r\n", False), (b"1.1", chunked, b"0\r\n\r\n", True)):
        headers, sent = (headers, b"%x\r\n%s\r\n" % (len(body), body)) if rest else ([*headers, b"Content-Length: %d" % len(body), b""], body)
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
            s.sendall(b"\r\n".join([b"POST /v2/models/times/infer HTTP/" + version, b"Host: x", *headers]) + b"\r\n" + sent + rest)
            answer = s.recv(65536)
            assert b" 200 OK" in answer and (b"Connection: keep-alive" in answer) == stays and (b"Connection: close" in answer) != stays
            s.settimeout(60 if not stays else .1)
            try:
                assert s.recv(1) == b"" and not stays
            except TimeoutError:
                assert stays


def test_what_civetweb_would_do_itself(server):
    many = b"".join(b"X-%d: 1\r\n" % k for k in range(70))       # what is behind 64 of them is not read
    assert b" 431 " in server.raw(b"POST /v2/models/times/infer HTTP/1.1\r\n" + many + b"Content-Length: 2\r\n\r\n{}")
    assert b" 405 " in server.raw(b"OPTIONS /v2 HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\nAccess-Control-Request-Method: POST\r\n\r\n")
    assert b" 200 OK" in server.raw(b"GET http://localhost:%d/v2/ HTTP/1.1\r\nHost: x\r\n\r\n" % server.port)


def test_many_at_once_and_a_new_file(server):
    def one(i):
        status, content, _ = server.infer([float(i)] * 3 * (1 + i % 3))
        return status, i, json.loads(content).get("outputs", [{}])[0].get("data")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(one, i) for i in range(150)]
        save(server.folder / "times.pt", 5.)
        answers += [pool.submit(one, i) for i in range(150)]
        for status, i, data in (a.result() for a in answers):
            assert status == 200 and data in ([2. * i] * 3 * (1 + i % 3), [5. * i] * 3 * (1 + i % 3))
    assert server.ask("POST", "/v2/repository/models/times/load", b"{}")[0] == 200
    assert json.loads(server.infer([1, 1, 1])[1])["outputs"][0]["data"] == [5, 5, 5]
    stats = json.loads(server.ask("GET", "/v2/models/times/stats")[1])["model_stats"][0]
    assert stats["inference_stats"]["success"]["count"] >= 300 and stats["execution_count"] <= stats["inference_count"]
    (server.folder / "times.pt").write_bytes(b"no model")       # the one that is there stays
    assert server.ask("POST", "/v2/repository/models/times/load")[0] == 400
    assert json.loads(server.infer([1, 1, 1])[1])["outputs"][0]["data"] == [5, 5, 5]
    assert server.ask("POST", "/v2/repository/models/times/unload")[0] == 200
    assert server.infer([1, 1, 1])[0] == 404
    save(server.folder / "times.pt", 2.)
    assert server.ask("POST", "/v2/repository/models/times/load")[0] == 200


def test_many_reloads_under_load(tmp_path):
    """A model is loaded again and again while others ask for it: each answer is a right one."""
    save(tmp_path / "again.pt", 3.)
    server = Server(tmp_path)
    ended = threading.Event()

    def ask_until_the_end():
        answers = 0
        while not ended.is_set() or not answers:
            status, content, _ = server.infer([1, 2, 3], "again")
            assert status == 200 and json.loads(content)["outputs"][0]["data"] == [3, 6, 9]
            answers += 1
        return answers
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        askers = [pool.submit(ask_until_the_end) for _ in range(4)]
        loads = [server.ask("POST", "/v2/repository/models/again/load")[0] for _ in range(40)]
        ended.set()
        assert loads == [200] * 40 and all(a.result() for a in askers)
    server.end()


@pytest.mark.parametrize("pays", [True, False])
def test_batches_are_as_large_as_it_pays(tmp_path, pays):
    """A model that reads many weights for whatever number of rows, and one whose time grows with the square of it."""
    torch.manual_seed(0)
    weight = torch.randn(2048, 2048)    # milliseconds to read, so that jobs wait meanwhile

    def heavy(x):
        return x * 2 + (x.repeat(1, 683)[:, :2048] @ weight @ weight)[:, :3] * 0 if pays else x * 2 + (x[:, None] * x[None]).unsqueeze(-1).expand(-1, -1, -1, 20000).exp().sum() * 0
    torch.jit.trace(heavy, torch.ones(2, 3)).save(tmp_path / "times.pt")
    server = Server(tmp_path, "--max-batch", "16")
    executed = [0]
    while len(executed) < 2 or ((executed[-1] - executed[-2] < 150) != pays and len(executed) < 6):      # a busy machine's times mislead for a while
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for i, (status, content, _) in enumerate(pool.map(lambda i: server.infer([i / 400, 0, 1]), range(400))):
                assert status == 200 and abs(json.loads(content)["outputs"][0]["data"][0] - i / 200) < 1e-6
        stats = json.loads(server.ask("GET", "/v2/models/times/stats")[1])["model_stats"][0]
        executed.append(stats["execution_count"])
    assert stats["inference_count"] == 400 * (len(executed) - 1) and (executed[-1] - executed[-2] < 150) == pays, executed
    server.end()


class Words(torch.nn.Module):
    """Milliseconds for a few rows, so that the threads of an instance compute some jobs each."""

    def __init__(self):
        super().__init__()
        self.word, self.layers = torch.nn.Embedding(100, 512), torch.nn.Sequential(*(torch.nn.Linear(512, 512), torch.nn.Tanh()) * 3)

    def forward(self, ids):
        return self.layers(self.word(ids)).mean(1)[:, :3]


def test_jobs_of_a_batch_that_are_computed_apart(tmp_path):
    torch.manual_seed(0)
    net, ids = Words().eval(), torch.randint(100, (40, 32))
    n = torch.export.Dim("n", max=1024)
    torch.export.save(torch.export.export(net, (ids[:2],), dynamic_shapes=({0: n},)), tmp_path / "words.pt2")
    with torch.no_grad():
        right = net(ids)
    server = Server(tmp_path, "--max-batch", "16")

    def one(i):
        rows = ids[i % 38:][:1 + i % 3].clone()
        if i % 37 == 36:
            rows[0, 5] = 100                    # no word: this job fails, and none beside it
        body = json.dumps({"inputs": [{"name": "ids", "datatype": "INT64", "shape": list(rows.shape), "data": rows.flatten().tolist()}]})
        status, content, _ = server.ask("POST", "/v2/models/words/infer", body)
        if i % 37 == 36:
            return status == 400 and b"index out of range" in content
        got = torch.tensor(json.loads(content)["outputs"][0]["data"]).view(-1, 3)
        return status == 200 and torch.allclose(got, right[i % 38:][:1 + i % 3], atol=1e-5)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(600)))
    server.end()


def test_a_delay_is_no_longer_than_the_model(tmp_path):
    save(tmp_path / "times.pt", 2.)
    server = Server(tmp_path, "--delay-us", "30000000", "--timeout-ms", "60000")
    begin = time.monotonic()
    assert all(server.infer([1, 2, 3])[0] == 200 for _ in range(10))
    assert time.monotonic() - begin < 30
    server.end()


def families_of(text):
    """{name: (type, samples)} of Prometheus' text format; the lines of a family stand together, below its HELP and TYPE."""
    families, name = {}, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in families and len(line.split()) > 3
            families[name] = [None, {}]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == name
            families[name][0] = line.split()[3]
        else:
            sample, value = line.rsplit(" ", 1)
            assert sample.split("{")[0] in [name + end for end in ("", *(("_bucket", "_sum", "_count") if families[name][0] == "histogram" else ()))]
            assert sample not in families[name][1]
            families[name][1][sample] = float(value)
    return families


def test_metrics(server):
    def now():
        return families_of(server.ask("GET", "/metrics")[1].decode())
    label, before = '{model="times",version="1"}', now()
    assert server.infer([1, 2, 3])[0] == 200 and server.infer([1, 2, 3], "none")[0] == 404 and server.ask("POST", "/v2/models/times/infer", b"{}")[0] == 400
    after = now()

    def more(family, sample):
        return after["rushlight_" + family][1]["rushlight_" + sample] - before["rushlight_" + family][1].get("rushlight_" + sample, 0)
    assert [more("requests_total", f'requests_total{{model="times",version="1",outcome="{o}"}}') for o in ("success", "fail")] == [1, 1]
    assert more("executions_total", "executions_total" + label) == more("rows_total", "rows_total" + label) == 1
    assert more("request_seconds", "request_seconds_count" + label) == 2 and more("request_seconds", "request_seconds_sum" + label) > 0
    assert [more("http_responses_total", f'http_responses_total{{code="{c}"}}') for c in (404, 400)] == [1, 1]
    assert after["process_resident_memory_bytes"][1]["process_resident_memory_bytes"] > 1e6 and after["rushlight_loads_total"][1]["rushlight_loads_total" + label] >= 1
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    assert {f.name for f in parser.text_string_to_metric_families(server.ask("GET", "/metrics")[1].decode())} == {n.removesuffix("_total") for n in after}


def test_the_log_is_json(tmp_path):
    save(tmp_path / "times.pt", 2.)
    (tmp_path / "wrong.pt").write_bytes(b"no model")
    server = Server(tmp_path, "--log")
    server.ask("GET", '/v2/"%ff')
    server.infer([1, 2, 3])
    server.process.send_signal(signal.SIGTERM)
    lines = [json.loads(line) for line in server.process.communicate(timeout=60)[1].splitlines()]
    requests = sorted((line for line in lines if "path" in line), key=lambda r: r["method"]) # a line is written after its answer: two connections' lines come in any order
    assert [(r["method"], r["status"]) for r in requests] == [("GET", 404), ("POST", 200)] and requests[0]["path"].startswith('/v2/"')
    assert {"at", "level", "us", "from"} <= set(requests[0])
    assert any(line["level"] == "warning" and "wrong.pt" in line["message"] for line in lines) and any("times.pt: loaded" in line.get("message", "") for line in lines)


def test_a_library_may_have_large_thread_local_variables(tmp_path):
    """They lie on the stacks of the server's threads: OpenBLAS of the Python index has 143 kB."""
    cc = shutil.which("cc") or pytest.skip("there is no C compiler")
    subprocess.run([cc, "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "large.so"], input=b"__thread char large[200000]; char *at(void) { return large; }", check=True)
    save(tmp_path / "times.pt", 2.)
    before = os.environ.get("LD_PRELOAD")
    server = Server(tmp_path, env={"LD_PRELOAD": f"{before}:{tmp_path}/large.so" if before else f"{tmp_path}/large.so"})
    assert server.infer([1, 2, 3])[0] == 200
    server.end()


def test_tls(tmp_path):
    openssl = shutil.which("openssl") or pytest.skip("the command openssl is not installed")
    subprocess.run([openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-out", tmp_path / "certificate", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    (tmp_path / "both").write_bytes((tmp_path / "certificate").read_bytes() + (tmp_path / "key").read_bytes())
    (tmp_path / "models").mkdir()
    save(tmp_path / "models" / "times.pt", 2.)
    env = {}

    def serve_without_the_key():
        ended = subprocess.run([SERVER, "serve", tmp_path / "models", "--port", "0", "--tls", tmp_path / "certificate"], capture_output=True, text=True, env={**os.environ, **env})
        assert ended.returncode == 1
        return ended.stderr
    if "libssl.so" in serve_without_the_key():      # what docs/serve.md says of civetweb 1.15 with OpenSSL 3
        source = "void *SSL_get1_peer_certificate(const void *); void *SSL_get_peer_certificate(const void *s) { return SSL_get1_peer_certificate(s); }"
        made = subprocess.run(["cc", "-x", "c", "-", "-shared", "-fPIC", "-o", tmp_path / "libssl.so", "-l:libssl.so.3"], input=source, capture_output=True, text=True) if shutil.which("cc") else None
        if not made or made.returncode:
            pytest.skip("civetweb finds no OpenSSL that it knows, and there is no compiler or no libssl.so.3")
        env["LD_LIBRARY_PATH"] = f"{tmp_path}:{os.environ.get('LD_LIBRARY_PATH', '')}"
        if "libssl.so" in serve_without_the_key():
            pytest.skip("civetweb finds no OpenSSL that it knows (libcrypto.so is missing)")
    assert "certificate" in serve_without_the_key()
    server = Server(tmp_path / "models", "--tls", str(tmp_path / "both"), env=env)
    trusting = ssl.create_default_context(cafile=tmp_path / "certificate")
    assert server.ask("GET", "/v2/health/ready", tls=trusting)[0] == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        server.ask("GET", "/v2/health/ready", tls=ssl.create_default_context())
    with pytest.raises((http.client.HTTPException, OSError)):        # nothing is answered in the open
        server.ask("GET", "/v2/health/ready")
    server.end()


def test_bodies_that_are_compressed(server):
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [100, 3], "data": [1] * 300}]}).encode()

    def ask(data, how):
        return server.ask("POST", "/v2/models/times/infer", data, {"Content-Encoding": how})[0]
    if ask(gzip.compress(body), "gzip") == 415:
        pytest.skip("this build has no zlib")
    assert ask(gzip.compress(body), "gzip") == ask(gzip.compress(body), "x-gzip") == ask(zlib.compress(body), "deflate") == ask(body, "identity") == 200
    assert ask(body, "br") == 415
    for damaged in (body, b"", gzip.compress(body)[:-5], gzip.compress(body) + b"more", gzip.compress(body)[:20] + b"\0" * 20):
        assert ask(damaged, "gzip") == 400
    assert ask(gzip.compress(b" " * (1 << 28)), "gzip") == 413       # small as it comes
    assert ask(gzip.compress(body), "gzip") == 200
    until = time.monotonic() + 30       # a body is let go after its answer was sent
    while "\nrushlight_http_held_bytes 0\n" not in server.ask("GET", "/metrics")[1].decode():
        assert time.monotonic() < until


@pytest.fixture(scope="module")
def sharing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save(folder / "times.pt", 2.)
    made = Server(folder, "--shared-memory")
    yield made
    made.end()


def test_shared_memory(sharing):
    x = {"name": "x", "datatype": "FP32", "shape": [2, 3]}

    def place(region, n=24, offset=0):
        return {"parameters": {"shared_memory_region": region, "shared_memory_byte_size": n, "shared_memory_offset": offset}}

    def infer(given, wanted):
        return sharing.ask("POST", "/v2/models/times/infer", json.dumps({"inputs": [{**x, **given}], "outputs": [{"name": "OUTPUT__0", **wanted}]}))[:2]

    def change(name, what, **body):
        return sharing.ask("POST", f"/v2/systemsharedmemory/region/{name}/{what}", json.dumps(body))[0]
    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=64)
    try:
        memory.buf[:32] = struct.pack("<8f", *range(8))
        assert change("a", "register", key="/" + memory.name, offset=8, byte_size=56) == 200
        assert change("a", "register", key="/" + memory.name, offset=8, byte_size=56) == 400       # is there
        assert json.loads(sharing.ask("GET", "/v2/systemsharedmemory/region/a/status")[1]) == [{"name": "a", "key": "/" + memory.name, "offset": 8, "byte_size": 56}]
        status, content = infer(place("a"), place("a", offset=32))
        assert status == 200 and json.loads(content)["outputs"] == [{"name": "OUTPUT__0", "datatype": "FP32", "shape": [2, 3], "parameters":
                                                                     {"shared_memory_region": "a", "shared_memory_offset": 32, "shared_memory_byte_size": 24}}]
        assert struct.unpack("<6f", memory.buf[40:64]) == (4, 6, 8, 10, 12, 14)
        for given, wanted, why in ((place("b"), {}, "no shared memory region"), (place("a", 24, 40), {}, "beyond"), (place("a", 24, 2 ** 62), {}, "beyond"), (place("a", 20), {}, "byte size"),
                                   (place("a", -1), {}, "size in bytes"), (place(7), {}, "size in bytes"), (place("a"), place("a", 20), "takes 24 bytes"), (place("a"), place("b"), "no shared memory region")):
            status, content = infer(given, wanted)
            assert status == 400 and why in json.loads(content)["error"]
        os.truncate(f"/dev/shm/{memory.name}", 16)       # a client may cut what it has registered
        assert infer(place("a"), {})[0] == 400 and sharing.infer([1, 2, 3])[0] == 200
        for key in ("/nowhere", "../etc/passwd", "/a/b", "", "/.."):
            assert change("c", "register", key=key, byte_size=8) == 400
        assert change("a", "unregister") == 200 and infer(place("a"), {})[0] == 400
    finally:
        memory.close()
        memory.unlink()
    assert sharing.ask("GET", "/v2/systemsharedmemory/status")[1] == b"[]"


def test_shared_memory_is_asked_for(server):
    assert server.ask("POST", "/v2/systemsharedmemory/region/a/register", '{"key":"/a","byte_size":4}')[0] == 400
    where = {"parameters": {"shared_memory_region": "a", "shared_memory_byte_size": 12}}
    status, content, _ = server.ask("POST", "/v2/models/times/infer", json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], **where}]}))
    assert status == 400 and "--shared-memory" in json.loads(content)["error"]


def test_classification(server):
    def classes(n, values=(1, 3, 2, 9, 8, 10)):
        return server.infer(list(values), outputs=[{"name": "OUTPUT__0", "parameters": {"classification": n}}])
    answer = json.loads(classes(2)[1])["outputs"][0]
    assert answer == {"name": "OUTPUT__0", "datatype": "BYTES", "shape": [2, 2], "data": ["6.000000:1", "4.000000:2", "20.000000:2", "18.000000:0"]}
    assert json.loads(classes(9)[1])["outputs"][0]["shape"] == [2, 3]
    assert json.loads(classes(3, (1, 1, 1))[1])["outputs"][0]["data"] == ["2.000000:0", "2.000000:1", "2.000000:2"]
    assert classes(0)[0] == 200 and {classes(n)[0] for n in (-1, 10 ** 9, "2", 1.5)} == {400}
    head = json.dumps({"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 2], "data": [5, 7]}], "outputs": [{"name": "OUTPUT__0", "parameters": {"classification": 1, "binary_data": True}}]})
    assert server.ask("POST", "/v2/models/times/infer", head)[1].endswith(struct.pack("<I", 11) + b"14.000000:1")


def test_logging_is_changed(tmp_path):
    save(tmp_path / "times.pt", 2.)
    server = Server(tmp_path)

    def settings(**changes):
        status, content, _ = server.ask("POST", "/v2/logging", json.dumps(changes)) if changes else server.ask("GET", "/v2/logging")
        return status, json.loads(content)
    assert settings() == (200, {"log_file": "", "log_info": False, "log_warning": True, "log_error": True, "log_verbose_level": 0, "log_format": "default"})
    assert settings(log_info=True, log_verbose_level=1)[1]["log_info"] and settings()[1]["log_verbose_level"] == 1
    assert settings(log_info=False, log_file="/tmp/a")[0] == settings(log_info=1)[0] == settings(log_verbose_level=-1)[0] == 400
    assert server.infer([1, 2, 3])[0] == 200
    assert not settings(log_info=False)[1]["log_info"] and server.infer([1, 2, 3])[0] == 200
    server.end()
    lines = [json.loads(line) for line in server.process.stderr.read().splitlines()]
    assert sum(line.get("path") == "/v2/models/times/infer" for line in lines) == 1


def test_traces(tmp_path, server):
    (tmp_path / "models").mkdir()
    for name in "times", "other":
        save(tmp_path / "models" / f"{name}.pt", 2.)
    made, file = Server(tmp_path / "models", "--trace", str(tmp_path / "traces")), tmp_path / "traces"

    def settings(model=None, at=made, **changes):
        status, content, _ = at.ask(*("POST", "GET")[not changes:][:1], f"/v2/models/{model}/trace/setting" if model else "/v2/trace/setting", json.dumps(changes) if changes else None)
        return json.loads(content) if status == 200 else (status, json.loads(content)["error"])

    def traced(want, path=file):
        """A trace is written when its answer has been sent."""
        for _ in range(100):
            found = [t["request_id"] for t in json.loads(path.read_text()) if "model_name" in t] if path.exists() else []
            if found == want:
                return True
            time.sleep(0.05)
        return False

    def ask(*ids, model="times"):
        assert all(made.infer([1, 2, 3], model, id=i)[0] == 200 for i in ids)
    first = {"trace_level": ["OFF"], "trace_rate": "1000", "trace_count": "-1", "log_frequency": "0", "trace_file": str(file)}
    assert settings() == settings("times") == first
    ask("a")
    assert settings("times", trace_level=["TIMESTAMPS"], trace_rate="2", trace_count=2) == {**first, "trace_level": ["TIMESTAMPS"], "trace_rate": "2", "trace_count": "2"}
    assert settings() == settings("other") == first
    ask("b", model="other")
    ask("c", "d")
    assert traced(["c"])                                                # one of two, two in all; nothing from before
    ask("e", "f", "g")
    assert traced(["c", "e"])
    times = [(t["name"], t["ns"]) for t in json.loads(file.read_text())[1]["timestamps"]]
    assert [name for name, _ in times] == ["HTTP_RECV_START", "HTTP_RECV_END", "REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_END", "REQUEST_END", "HTTP_SEND_START", "HTTP_SEND_END"]
    assert sorted(ns for _, ns in times) == [ns for _, ns in times] and times[-1][1] - times[0][1] < 60e9
    assert settings("times", trace_level=None, trace_rate=None, trace_count=None) == first
    assert settings(trace_level=["TIMESTAMPS"], trace_rate=1, log_frequency=1)["trace_level"] == settings("times")["trace_level"] == ["TIMESTAMPS"]
    for number, name in enumerate("hi"):
        ask(name)
        assert traced([name], tmp_path / f"traces.{number}")
    for wrong in {"trace_level": ["TENSORS"]}, {"trace_level": "OFF"}, {"trace_rate": 0}, {"trace_rate": "x"}, {"trace_rate": "5x"}, {"trace_count": -2}, {"log_frequency": 1.5}, {"trace_file": "/tmp/a"}, {"x": 1}:
        assert settings(**wrong)[0] == 400 and "'" in settings(**wrong)[1]
    assert settings("none")[0] == settings("none", trace_rate=1)[0] == made.ask("GET", "/v2/models/times/trace")[0] == 404
    assert settings(trace_level=None)["trace_level"] == ["OFF"]
    ask("j")
    made.end()
    assert traced(["c", "e"]) and not (tmp_path / "traces.2").exists()
    assert settings(at=server, trace_level=["OFF"])["trace_file"] == "" and "--trace" in settings(at=server, trace_level=["TIMESTAMPS"])[1]


def test_a_model_comes_with_a_request(tmp_path):
    save(tmp_path / "times.pt", 2.)
    save(tmp_path / "other.pt", 5.)
    sent = base64.b64encode((tmp_path / "other.pt").read_bytes()).decode()
    os.remove(tmp_path / "other.pt")
    server = Server(tmp_path)

    def load(name="times", **parameters):
        status, content, _ = server.ask("POST", f"/v2/repository/models/{name}/load", json.dumps({"parameters": parameters}))
        return content.decode() if status == 400 else status

    def value(model="times"):
        status, content, _ = server.infer([1, 2, 3], model)
        return json.loads(content)["outputs"][0]["data"][0] if status == 200 else status
    assert load(config='{"max_batch_size": 4, "dynamic_batching": {"max_queue_delay_microseconds": 70}}') == 200
    assert json.loads(server.ask("GET", "/v2/models/times/config")[1])["dynamic_batching"] == {"preferred_batch_size": [4], "max_queue_delay_microseconds": 70}
    assert load(config="{}", **{"file:3/model.pt": sent}) == 200 and value() == 5
    assert json.loads(server.ask("GET", "/v2/models/times")[1])["versions"] == ["3"]
    time.sleep(1.5)       # the folder has been looked at again
    assert value() == 5
    for name in ("file:x/model.pt", "file:1/../model.pt", "file:1/model.py", "file:1", "file:/model.pt"):
        assert "file:" in load(config="{}", **{name: sent})
    assert "base64" in load(config="{}", **{"file:3/model.pt": "?"}) and "config" in load(config="[")
    assert load(config="{}", **{"file:3/model.pt": base64.b64encode(b"no model").decode()}) != 200 and value() == 5
    assert load("broken", config="{}", **{"file:1/model.pt": base64.b64encode(b"no model").decode()}) != 200 and server.ask("GET", "/v2/health/ready")[0] == 200
    save(tmp_path / "times.pt", 7.)       # not looked at: another was sent
    assert load("new", config="{}", **{"file:1/model.pt": sent}) == 200 and value("new") == 5
    assert load("..", config="{}", **{"file:1/model.pt": sent}) != 200
    assert load() == 200 and value() == 7       # what is in the folder
    assert server.ask("POST", "/v2/repository/models/new/unload", "{}")[0] == 200 and value("new") == 404
    server.end()


def test_tritonclient(server):
    client_module = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    numpy = pytest.importorskip("numpy")
    client = client_module.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("times")
    assert client.get_server_metadata()["name"] == "rushlight" and client.get_model_metadata("times")["name"] == "times"
    assert client.get_model_config("times")["name"] == "times" and client.get_model_repository_index()[0]["state"] == "READY"
    client.unload_model("times")
    assert not client.is_model_ready("times")
    client.load_model("times")
    for dtype in ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64"):
        x = numpy.ones((2, 3), client_module.triton_to_np_dtype(dtype) if hasattr(client_module, "triton_to_np_dtype") else __import__("tritonclient.utils", fromlist=["x"]).triton_to_np_dtype(dtype))
        for binary in (True, False):
            if dtype == "FP16" and not binary:
                continue        # the client refuses it
            given = client_module.InferInput("x", x.shape, dtype)
            given.set_data_from_numpy(x, binary_data=binary)
            result = client.infer("times", [given], outputs=[client_module.InferRequestedOutput("OUTPUT__0", binary_data=binary)], request_id="7")
            assert (result.as_numpy("OUTPUT__0") == 2).all() and result.get_response()["id"] == "7"
    assert client.async_infer("times", [given]).get_result().as_numpy("OUTPUT__0").shape == (2, 3)
    assert client.get_inference_statistics("times")["model_stats"][0]["name"] == "times"
    assert client.get_system_shared_memory_status() == [] and client.get_cuda_shared_memory_status() == []
    assert client.get_log_settings() and client.get_trace_settings() and client.update_log_settings({"log_error": True})["log_error"]
    assert client.update_trace_settings("times", {"trace_level": ["OFF"], "trace_rate": "5"})["trace_rate"] == "5" == client.get_trace_settings("times")["trace_rate"]
    assert (client.infer("times", [given], request_compression_algorithm="gzip", response_compression_algorithm="gzip").as_numpy("OUTPUT__0") == 2).all()
    classes = client.infer("times", [given], outputs=[client_module.InferRequestedOutput("OUTPUT__0", class_count=1)])
    assert classes.as_numpy("OUTPUT__0").tolist() == [[b"2.000000:0"]] * 2


def test_key_and_end(tmp_path):
    save(tmp_path / "times.pt", 2.)
    server = Server(tmp_path, key="secret")
    caught = next(line for line in open(f"/proc/{server.process.pid}/status") if line.startswith("SigCgt"))
    assert int(caught.split()[1], 16) >> signal.SIGTERM - 1 & 1      # no thread that a library made may die of it
    assert {server.ask("GET", path)[0] for path in ("/", "/metrics", "/v2", "/v2/health/live")} == {401}
    assert server.ask("OPTIONS", "/v2", headers={"Origin": "http://y", "Access-Control-Request-Method": "POST"})[0] == 401
    assert server.ask("GET", "/v2/health/live", headers={"Authorization": "Bearer secre"})[0] == 401
    assert server.ask("GET", "/v2/health/live", headers={"Authorization": "Bearer secret"})[0] == 200
    assert server.ask("GET", "/v2/health/live", headers={"X-API-Key": "secret"})[0] == 200
    for password, status in ((b"any:secret", 200), (b":secret", 200), (b"secret", 401), (b"any:secre", 401), (b"any:", 401), (b"a" * 1000 + b":secret", 401)):
        assert server.ask("GET", "/", headers={"Authorization": "Basic " + base64.b64encode(password).decode()})[0] == status
    assert server.ask("GET", "/")[2]["WWW-Authenticate"].startswith("Basic") and server.ask("GET", "/v2")[2]["WWW-Authenticate"] == "Bearer"
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1]}]})
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:     # half of a request is read when the end is asked for
        s.sendall(f"POST /v2/models/times/infer HTTP/1.1\r\nX-API-Key: secret\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n{body[:20]}".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 100 Continue")    # sent when the body is asked for: a busy machine may take long to get there
        server.process.send_signal(signal.SIGTERM)
        s.sendall(body[20:].encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 200 OK")
    assert server.process.wait(timeout=60) == 0


def test_weights_of_convolutions_are_kept_in_the_engine_s_layout(tmp_path):
    """The same answers at each size and at each call, whichever size was first."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3, 2), torch.nn.Conv2d(64, 16, 1), torch.nn.ReLU()).eval()
    torch.export.save(torch.export.export(net, (torch.randn(2, 16, 9, 9),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},)), tmp_path / "net.pt2")
    server = Server(tmp_path)
    try:
        def one(seed):
            x = torch.randn(1 + seed % 5, 16, 9, 9, generator=torch.Generator().manual_seed(seed))
            body = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": list(x.shape), "data": x.flatten().tolist()}]})
            status, answer, _ = server.ask("POST", "/v2/models/net/infer", body)
            assert status == 200, answer
            with torch.no_grad():
                want = net(x)
            assert (torch.tensor(json.loads(answer)["outputs"][0]["data"]).view(want.shape) - want).abs().max() < 1e-5
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(one, range(20)))
    finally:
        server.end()
