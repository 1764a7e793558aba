"""Models served over HTTP: `rushlight serve` with and without batches, with one instance or one for each processor, beside LitServe with PyTorch and onnxruntime behind the least of servers.

    python bench/serving.py build/rushlight [--seconds 8] [--clients 16] [--only gpt2] [--rounds 1]

for a Python with torch, litserve, onnxruntime, uvicorn and numpy; wrk asks. All serve the same weights, get the same tensor as bytes (LitServe in base64, since it takes JSON), and must give PyTorch's
answer before they are timed. Servers take turns, on all processors, which wrk shares.
"""
import argparse
import base64
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import litserve
import numpy as np
import onnxruntime
import torch
import uvicorn
from models import gpt2, mlp, resnet18
from starlette.responses import Response
from torch import nn


class Next(nn.Module):
    """What a language model says of the next token only."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, ids):
        net = self.net
        return net.head(net.layers(net.word(ids) + net.place(torch.arange(ids.shape[1])))[:, -1])


MODELS = {
    "digits": lambda: (mlp(64, 128, 10), torch.randn(2, 64)),
    "resnet18": lambda: (resnet18(1000, True), torch.randn(2, 3, 224, 224)),
    "gpt2": lambda: (Next(gpt2()), torch.randint(50257, (2, 16))),
}
BATCH, DELAY_US = 16, 2000


def prepare(name, folder, rushlight):
    """The model in each server's format; an input of one row and PyTorch's answer."""
    torch.manual_seed(0)
    net, x = MODELS[name]()
    net.eval()
    with torch.no_grad():
        torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("n", max=1024)},)), folder / f"{name}.pt2")
        (folder / "onnx").mkdir()
        subprocess.run([rushlight, "convert", folder / f"{name}.pt2", folder / "onnx" / f"{name}.onnx"], check=True)
        return x[:1].numpy(), net(x[:1]).numpy()


# ---- servers: each is this program again, but for rushlight's own

class Api(litserve.LitAPI):
    def __init__(self, name, **batches):
        super().__init__(**batches)
        self.name = name

    def setup(self, device):
        torch.set_grad_enabled(False)
        torch.manual_seed(0)
        self.net, x = MODELS[self.name]()
        self.net.eval()
        self.shape, self.dtype = (-1, *x.shape[1:]), x.numpy().dtype

    def decode_request(self, request):
        return torch.from_numpy(np.frombuffer(base64.b64decode(request["x"]), self.dtype).reshape(self.shape).copy())

    def batch(self, inputs):
        return torch.cat(inputs)

    def predict(self, x):
        return self.net(x)

    def unbatch(self, output):
        return output.split(1)

    def encode_response(self, output):
        return Response(output.numpy().tobytes())


def serve_litserve(folder, name, port, batch):
    api = Api(name, max_batch_size=batch, batch_timeout=DELAY_US * 1e-6) if batch > 1 else Api(name)
    litserve.LitServer(api, accelerator="cpu", workers_per_device=1).run(port=port, host="127.0.0.1", log_level="error", generate_client_file=False)


def serve_onnxruntime(folder, name, port, _):
    session = onnxruntime.InferenceSession(str(pathlib.Path(folder) / "onnx" / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    x = MODELS[name]()[1].numpy()
    shape, dtype = (-1, *x.shape[1:]), x.dtype

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body")
        y = session.run(None, {given.name: np.frombuffer(body, dtype).reshape(shape)})[0].tobytes()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(y))]})
        await send({"type": "http.response.body", "body": y})
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


SERVERS = {
    "rushlight, one by one": ("rushlight", 1), "rushlight, batches": ("rushlight", BATCH), "rushlight, batches, an instance a processor": ("instances", BATCH), "LitServe + PyTorch, one by one": ("litserve", 1),
    "LitServe + PyTorch, batches": ("litserve", BATCH), "onnxruntime, minimal server": ("onnxruntime", 1),
}


def command(kind, batch, rushlight, folder, name, port):
    if kind not in ("rushlight", "instances"):
        return [sys.executable, __file__, "--role", kind, str(folder), name, str(port), str(batch)]
    return [rushlight, "serve", folder, "--port", str(port), "--max-batch", str(batch), *(["--delay-us", str(DELAY_US)] if batch > 1 else []),
            *(["--instances", str(len(os.sched_getaffinity(0)))] if kind == "instances" else [])]


def request(kind, name, x, port):
    """URL, headers and body."""
    if kind == "litserve":      # it takes JSON or forms
        return f"http://127.0.0.1:{port}/predict", {"Content-Type": "application/json"}, json.dumps({"x": base64.b64encode(x.tobytes()).decode()}).encode()
    if kind == "onnxruntime":
        return f"http://127.0.0.1:{port}/predict", {}, x.tobytes()
    url = f"http://127.0.0.1:{port}/v2/models/{name}"
    about = json.load(urllib.request.urlopen(url))
    head = json.dumps({"inputs": [{"name": about["inputs"][0]["name"], "datatype": about["inputs"][0]["datatype"], "shape": x.shape, "parameters": {"binary_data_size": x.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return url + "/infer", {"Inference-Header-Content-Length": str(len(head))}, head + x.tobytes()


def ask(url, headers, body):
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/octet-stream", **headers}), timeout=60) as answer:
        skip = int(answer.headers.get("Inference-Header-Content-Length", 0))
        return np.frombuffer(answer.read()[skip:], np.float32)


def wait_for(process, port):
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"a server ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)


def load(folder, url, headers, body, clients, seconds):
    """Requests per second and the 50th and 99th percentile."""
    (folder / "body").write_bytes(body)
    (folder / "load.lua").write_text(f'wrk.method = "POST"\nwrk.body = io.open("{folder}/body", "rb"):read("*a")\n'
                                     + "".join(f'wrk.headers["{k}"] = "{v}"\n' for k, v in headers.items()))
    out = subprocess.run(["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "60s", "--latency", "-s", folder / "load.lua", url], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out or re.search(r"^\s+0 requests", out, re.M):
        raise SystemExit(out)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), *(re.search(rf"^\s+{p}%\s+(\S+)", out, re.M)[1] for p in (50, 99))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rushlight")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--only")
    o = parser.parse_args()
    print(f"| model | server | requests/s, best of {o.rounds} | p50 | p99 |\n| --- | --- | --- | --- | --- |")
    for name in MODELS if o.only is None else [o.only]:
        with tempfile.TemporaryDirectory() as t:
            folder = pathlib.Path(t)
            x, want = prepare(name, folder, o.rushlight)
            best = {}
            for server, (kind, batch) in list(SERVERS.items()) * o.rounds:
                port = free_port()
                process = subprocess.Popen(command(kind, batch, o.rushlight, folder, name, port), stdout=subprocess.DEVNULL, start_new_session=True)
                try:
                    wait_for(process, port)
                    asked = request(kind, name, x, port)
                    np.testing.assert_allclose(ask(*asked), want.ravel(), rtol=1e-3, atol=1e-3)
                    load(folder, *asked, o.clients, 4)   # LitServe answers nothing in the first seconds
                    best[server] = max(best.get(server, (0,)), load(folder, *asked, o.clients, o.seconds))
                finally:
                    os.killpg(process.pid, signal.SIGKILL)      # LitServe's workers outlive it
                    process.wait()
            for server, (rate, p50, p99) in best.items():
                print(f"| {name} | {server} | {rate:.4g} | {p50} | {p99} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        role, folder, name, port, batch = sys.argv[2:]
        {"litserve": serve_litserve, "onnxruntime": serve_onnxruntime}[role](folder, name, int(port), int(batch))
    else:
        main()
