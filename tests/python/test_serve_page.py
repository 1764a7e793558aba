"""The page of `rushlight serve` in a browser: a script drives it as a hand would, and tells what it saw."""
import http.client
import http.server
import json
import os
import queue
import shutil
import subprocess
import threading

import pytest
from test_lm import FILES
from test_serve import Server, save

if not shutil.which("chromium"):
    pytest.skip("chromium is not installed", allow_module_level=True)

SCRIPT = """
const seen = {}, until = async f => { for (;;) { const x = await f(); if (x) return x; await new Promise(r => setTimeout(r, 20)); } };
const row = name => [...document.querySelectorAll("#models tr")].find(r => r.cells[0].textContent == name), shown = () => by("answer").textContent;
const run = async () => { by("took").textContent = ""; by("form").requestSubmit(); await until(() => document.querySelector(".wrong") || by("took").textContent); return shown(); };
(async () => {
  await until(() => row("times")?.cells[1].textContent == "ready" && row("gpt2")?.cells[1].textContent == "ready");
  seen.shapes = row("times").cells[2].textContent;
  row("times").click();
  const [sizes] = by("fields").querySelectorAll("input"), text = by("fields").querySelector("textarea"), drop = by("fields").querySelector(".drop");
  sizes.value = "1, 3";
  text.value = "1 2.5, -3e0";
  seen.numbers = await run();
  text.value = "1";
  await (by("form").requestSubmit(), until(() => document.querySelector(".wrong")));
  seen.wrong = shown();
  sizes.value = "1, 3, 2, 2";
  const canvas = make("canvas", { width: 8, height: 4 }), pen = canvas.getContext("2d"), carried = new DataTransfer();
  pen.fillStyle = "#f00";
  pen.fillRect(0, 0, 8, 4);
  carried.items.add(new File([await new Promise(r => canvas.toBlob(r))], "red.png", { type: "image/png" }));
  text.value = "";
  drop.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, cancelable: true }));
  await until(() => text.value);
  seen.picture = text.value;
  seen.red = await run();
  row("gpt2").click();
  by("prompt").value = "The";
  by("most").value = 6;
  seen.text = await run();
  await until(() => +row("times").cells[4].textContent >= 2 && row("times").cells[5].textContent && row("times").querySelector("polyline"));
  fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
})().catch(e => fetch("/seen", { method: "POST", body: JSON.stringify({ failed: String(e.stack), ...seen }) }));
"""


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes everything on; to the page it adds the script."""

    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/seen":
            self.server.seen.put(json.loads(body))
            content, status, kind = b"{}", 200, "application/json"
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=60)
            connection.request(self.command, self.path, body)
            answer = connection.getresponse()
            content, status, kind = answer.read(), answer.status, answer.headers["Content-Type"]
            connection.close()
        if self.path == "/":
            content += f"<script>{SCRIPT}</script>".encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
    do_GET = do_POST = do

    def log_message(self, *_):
        pass


def test_the_page_in_a_browser(tmp_path):
    (tmp_path / "models").mkdir()
    save(tmp_path / "models" / "times.pt", 2.)
    shutil.copy(FILES / "gpt2.gguf", tmp_path / "models")
    server = Server(tmp_path / "models")
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    proxy.behind, proxy.seen = server.port, queue.Queue()
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}  # the sanitizers are for the library, not for a browser
    browser = subprocess.Popen(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=%s" % (tmp_path / "user"), "--remote-debugging-port=0",
                                f"http://127.0.0.1:{proxy.server_port}/"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        seen = proxy.seen.get(timeout=300)
    finally:
        browser.terminate()
        browser.wait()
        proxy.shutdown()
        proxy.server_close()
    server.end()
    assert "failed" not in seen, seen
    assert seen["shapes"] == "x FP32[?]" and "2, 5, -6" in seen["numbers"] and "OUTPUT__0 FP32[1,3]" in seen["numbers"]
    assert "shape" in seen["wrong"]
    assert seen["picture"] == "1, 1, 1, 1" + ", 0" * 8 and "2, 2, 2, 2" + ", 0" * 8 in seen["red"]
    assert seen["text"]
