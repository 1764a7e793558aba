#!/usr/bin/env python3
"""Jobs over a bad network: tests/parity/harsh.py [--machines 3] [CASE...]; as root.

Each machine is a network namespace with a tun device. This program is the network between them: it passes packets on later, loses some, cuts machines
off (what `tc ... netem` does, on kernels without it, too). Cases: plain, slow (20 ms each way), lossy (5 ms, 2 % of the packets), both; a DDP job of
tests/python/ddp_cases.py has to give the same losses and weights as on one machine. cut: a machine loses its network in the middle of a job; all ranks
have to end with an error that names it. elastic: then the launchers of the others have to go on without it.
"""
import fcntl
import heapq
import os
import pathlib
import random
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASES = ROOT / "tests" / "python" / "ddp_cases.py"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
LIMIT = 300


def sh(*words):
    subprocess.run(words, check=True, capture_output=True)


class Network(threading.Thread):
    """Machines 0 to n - 1 with the addresses 10.77.0.1, ...; a packet takes `delay` seconds and is lost with probability `loss`."""

    def __init__(self, n):
        super().__init__(daemon=True)
        self.n, self.delay, self.loss, self.cut, self.lost, self.passed, self.going = n, 0.0, 0.0, set(), 0, 0, True
        self.names, self.tuns, self.random = [f"rush{os.getpid()}n{i}" for i in range(n)], [], random.Random(1)
        self.devices = [f"rtun{os.getpid() % 10000}n{i}" for i in range(n)]

    def __enter__(self):
        for i, name in enumerate(self.names):
            tun, device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK), self.devices[i]
            fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
            self.tuns.append(tun)
            sh("ip", "netns", "add", name)
            sh("ip", "link", "set", device, "netns", name)
            sh("ip", "-n", name, "addr", "add", f"10.77.0.{i + 1}/24", "dev", device)
            sh("ip", "-n", name, "link", "set", device, "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
        self.start()
        return self

    def __exit__(self, *unused):
        self.going = False
        self.join()
        for name, tun in zip(self.names, self.tuns):
            os.close(tun)
            sh("ip", "netns", "del", name)

    def run(self):
        waiting, number = [], 0
        while self.going:
            limit = min(0.05, max(0.0, waiting[0][0] - time.monotonic())) if waiting else 0.05
            for tun in select.select(self.tuns, [], [], limit)[0]:
                number += 1
                self._take(tun, number, waiting)
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(waiting)
                self._give(to, packet)

    def _take(self, tun, number, waiting):
        try:
            packet = os.read(tun, 65536)
        except BlockingIOError:
            return
        here, to = self.tuns.index(tun), packet[19] - 1
        if packet[0] >> 4 != 4 or not 0 <= to < self.n:
            return
        if {here, to} & self.cut or self.random.random() < self.loss:
            self.lost += 1
        else:
            heapq.heappush(waiting, (time.monotonic() + self.delay, number, to, packet))

    def _give(self, to, packet):
        try:
            os.write(self.tuns[to], packet)
            self.passed += 1
        except BlockingIOError:
            self.lost += 1

    def start_on(self, machine, *command):
        return subprocess.Popen(["ip", "netns", "exec", self.names[machine], *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", "RUSHLIGHT_DIST_SHARED": "0",
                                     "GLOO_SOCKET_IFNAME": self.devices[machine]})


def ended(processes):
    out = []
    for p in processes:
        try:
            text, errors = p.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            p.kill()
            text, errors = p.communicate()
            errors += "\nNO END"
        out.append((p.returncode, text, errors))
    return out


def train(network):
    """What the ranks of a DDP job print, a rank on each machine; None: one of them failed."""
    done = ended([network.start_on(r, sys.executable, str(CASES), "rushlight", "mlp", "tcp://10.77.0.1:29400", str(r), str(network.n)) for r in range(network.n)])
    if any(code for code, _, _ in done):
        print("\n".join(errors[-800:] for _, _, errors in done))
        return None
    return [text for _, text, _ in done]


PROGRAM = """
import os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
open(os.environ["STARTED"] + "/" + os.environ["RANK"] + "." + os.environ["TORCHELASTIC_RESTART_COUNT"], "w").close()
t, end = torch.ones(1000), time.monotonic() + float(os.environ["SECONDS"])
while True:
    go = torch.tensor([float(time.monotonic() < end)])
    dist.all_reduce(go, dist.ReduceOp.MIN)
    dist.all_reduce(t, dist.ReduceOp.AVG)
    if not go.item(): break
print("world", dist.get_world_size())
dist.destroy_process_group()
"""


def started(folder, count, limit=60):
    end = time.monotonic() + limit
    while len(os.listdir(folder)) < count and time.monotonic() < end:
        time.sleep(0.05)
    return len(os.listdir(folder)) >= count


def cut(network, elastic):
    """The last machine loses its network."""
    with tempfile.TemporaryDirectory() as home:
        folder, script = pathlib.Path(home) / "started", pathlib.Path(home) / "job.py"
        folder.mkdir()
        script.write_text(PROGRAM)
        env = ["env", f"STARTED={folder}", f"SECONDS={12 if elastic else 600}"]
        n, python = network.n, [sys.executable, "-m", "rushlight.distributed.run"]
        if elastic:
            how = ["--nnodes", f"{n - 1}:{n}", "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.77.0.1:29401", "--max-restarts", "3",
                   "--rdzv-conf", "last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=4,timeout=40"]
        else:
            how = ["--nnodes", str(n), "--master-addr", "10.77.0.1", "--master-port", "29402"]
        launchers = [network.start_on(i, *env, *python, *how, *([] if elastic else ["--node-rank", str(i)]), str(script)) for i in range(n)]
        if not started(folder, n):
            for p in launchers:
                p.terminate()
            print("not started:", "\n".join(e[-600:] for _, _, e in ended(launchers)))
            return False
        time.sleep(1)
        network.cut, began = {n - 1}, time.monotonic()
        done = ended(launchers[:-1])
        took = time.monotonic() - began
        launchers[-1].terminate()
        last = ended(launchers[-1:])
        network.cut = set()
    if elastic:
        good = all(code == 0 for code, _, _ in done) and sum(out.count(f"world {n - 1}") for _, out, _ in done) == n - 1
    else:
        good = all(code not in (0, None) for code, _, _ in done + last) and any(f"rank {n - 1}" in e or f"machine {n - 1}" in e for _, _, e in done) and took < 60
    print(f"{'elastic' if elastic else 'cut'}: {'ok' if good else 'BAD'}, the others ended after {took:.1f} s with {[code for code, _, _ in done]}", flush=True)
    if not good:
        print("\n".join(out + e[-1200:] for _, out, e in done))
    return good


def main():
    rest = sys.argv[1:]
    n = int(rest.pop(rest.index("--machines") + 1)) if "--machines" in rest else 3
    names = [a for a in rest if not a.startswith("--")]
    wrong, want = 0, None
    with Network(n) as network:
        for name, delay, loss in (("plain", 0.0, 0.0), ("slow", 0.02, 0.0), ("lossy", 0.005, 0.02), ("both", 0.02, 0.01)):
            if names and name not in names and name != "plain":
                continue
            network.delay, network.loss, network.lost, network.passed = delay, loss, 0, 0
            began = time.monotonic()
            got = train(network)
            want = want or got
            good = got is not None and got == want
            wrong += not good
            print(f"{name}: {'ok' if good else 'BAD'}, {delay * 1e3:g} ms, {loss * 100:g} % lost: {time.monotonic() - began:.1f} s, {network.passed} packets, "
                  f"{network.lost} lost", flush=True)
        network.delay, network.loss = 0.002, 0.0
        for name in ("cut", "elastic"):
            if not names or name in names:
                wrong += not cut(network, name == "elastic")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
