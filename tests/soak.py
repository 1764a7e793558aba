#!/usr/bin/env python3
"""Hours of ordinary requests at `rushlight serve`, shortened: tests/soak.py [--build build] [--minutes 30] [--clients 8] [--every 10]

Clients ask models of tensors, pictures and texts, in JSON and in binary, batches of changing sizes, over connections that stay and over new ones. What the server's memory is
is printed on the way; after the first minute it has to stay where it is, within 2 %. A request that fails, or memory that grows, ends this with 1.
"""
import argparse
import http.client
import json
import multiprocessing
import pathlib
import random
import signal
import sys
import tempfile
import time

from attack import PNG, ROOT, served


def tensor(rng):
    rows = rng.randint(1, 16)
    x = {"name": "x", "datatype": "FP32", "shape": [rows, 3]}
    if rng.random() < .5:
        return "/v2/models/times/infer", json.dumps({"inputs": [{**x, "data": [rng.random() for _ in range(3 * rows)]}]}).encode(), {}
    head = json.dumps({"inputs": [{**x, "parameters": {"binary_data_size": 12 * rows}}], "parameters": {"binary_data_output": True}}).encode()
    return "/v2/models/times/infer", head + bytes(12 * rows), {"Inference-Header-Content-Length": str(len(head))}


def picture(rng):
    return "/v2/models/cats/infer", PNG, {"Content-Type": "image/png"}


def text(rng):
    return "/v1/completions", json.dumps({"model": "gpt2", "prompt": "The", "max_tokens": rng.randint(1, 8), "seed": rng.randrange(100), "stream": rng.random() < .5}).encode(), {}


def client(port, seed, until, done, failed):
    rng, connection = random.Random(seed), None
    while time.time() < until.value:
        path, body, headers = rng.choice([tensor, tensor, tensor, picture, text])(rng)
        connection = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        answer.read()
        with done.get_lock():
            done.value += 1
            failed.value += answer.status != 200
        if answer.getheader("Connection") == "close" or rng.random() < .2:
            connection = connection.close()
        time.sleep(rng.random() * .04)


def resident(pid):
    return int(next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")).split()[1])


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    cli.add_argument("--minutes", type=float, default=30)
    cli.add_argument("--clients", type=int, default=8)
    cli.add_argument("--every", type=float, default=10)
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, port = served(args.build / "rushlight", folder)
        began = time.time()
        until, done, failed = multiprocessing.Value("d", began + args.minutes * 60), multiprocessing.Value("q", 0), multiprocessing.Value("q", 0)
        clients = [multiprocessing.Process(target=client, args=(port, k, until, done, failed)) for k in range(args.clients)]
        for c in clients:
            c.start()
        sizes = []
        while any(c.is_alive() for c in clients) and process.poll() is None:
            time.sleep(args.every)
            sizes.append((time.time() - began, resident(process.pid)))
            print(f"{sizes[-1][0]:5.0f} s {sizes[-1][1]} kB, {done.value} requests, {failed.value} failed", flush=True)
        broken = sum(c.exitcode != 0 for c in clients)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)
    first = next((kb for at, kb in sizes if at >= 60), sizes[-1][1])
    most = max(kb for _, kb in sizes)
    print(f"{done.value} requests in {args.minutes:g} minutes, {failed.value} failed, {broken} clients broke; {first} kB after a minute, {most} kB at most; exit {code}")
    return failed.value or broken or code or most > first * 1.02


if __name__ == "__main__":
    sys.exit(main() and 1)
