"""`rushlight serve` of language models: OpenAI's paths by plain HTTP, and by the package openai where that is installed."""
import concurrent.futures
import json
import shutil
import socket
import subprocess

import pytest
from test_lm import FILES
from test_serve import SERVER, Server, save

PROMPT = "The"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name in ("gpt2", "qwen2"):
        shutil.copy(FILES / f"{name}.gguf", folder)
    save(folder / "times.pt", 2.)
    made = Server(folder, "--instances", "2")
    made.folder = folder
    yield made
    made.end()


def post(server, path, **fields):
    status, content, _ = server.ask("POST", "/v1/" + path, json.dumps(fields))
    return status, json.loads(content)


def events(server, path, **fields):
    status, content, headers = server.ask("POST", "/v1/" + path, json.dumps({**fields, "stream": True}))
    assert status == 200 and headers["Content-Type"].startswith("text/event-stream")
    parts = content.decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(p.removeprefix("data: ")) for p in parts[:-2]]


def written(prompt, n, name="gpt2"):
    """What `rushlight generate` writes."""
    return subprocess.run([SERVER, "generate", FILES / f"{name}.gguf", "-p", prompt, "-n", str(n)], capture_output=True, check=True).stdout[:-1].decode(errors="replace")


def test_a_text_goes_on_as_generate_writes_it(server):
    want = written(PROMPT, 12)
    for _ in range(2):      # the second time the prompt is in the model already
        status, answer = post(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0)
        choice, usage = answer["choices"][0], answer["usage"]
        assert status == 200 and choice["text"] == want and choice["finish_reason"] == "length"
        assert usage["completion_tokens"] == 12 and usage["total_tokens"] == 12 + usage["prompt_tokens"]
    parts = events(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0)
    assert "".join(p["choices"][0]["text"] for p in parts) == want
    assert [p["choices"][0]["finish_reason"] for p in parts] == [None] * (len(parts) - 1) + ["length"]


def test_stops_are_not_part_of_the_text(server):
    want = written(PROMPT, 12)
    at = next(i for i in range(1, len(want) - 1) if want[i:i + 2].isascii() and want[i:i + 2].isprintable())
    for stop in (want[at:at + 2], ["never there", want[at:at + 2]]):
        _, answer = post(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0, stop=stop)
        assert answer["choices"][0]["text"] == want[:want.index(want[at:at + 2])] and answer["choices"][0]["finish_reason"] == "stop"
        parts = events(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0, stop=stop)
        assert "".join(p["choices"][0]["text"] for p in parts) == answer["choices"][0]["text"]
    _, answer = post(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=12, temperature=0, stop=want[-1] + "?")
    assert answer["choices"][0]["text"] == want             # what only looked like the beginning of a stop is not lost


def test_choices_prompts_and_seeds(server):
    asked = dict(model="gpt2", prompt=["The", "A"], max_tokens=6, n=2, temperature=1.5, top_p=0.9, echo=True)
    one, again, other = (post(server, "completions", seed=seed, **asked)[1]["choices"] for seed in (1, 1, 2))
    assert [c["index"] for c in one] == [0, 1, 2, 3] and [c["text"][:1] for c in one] == ["T", "T", "A", "A"]
    assert one == again != other and one[0]["text"] != one[1]["text"]
    _, answer = post(server, "completions", model="gpt2", prompt=[5, 6, 7], max_tokens=0, echo=True)
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    assert len(post(server, "completions", model="gpt2", prompt=[[5], [6]], max_tokens=1)[1]["choices"]) == 2


def test_a_chat(server):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]}]
    want = written("<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", 8, "qwen2")
    _, answer = post(server, "chat/completions", model="qwen2", messages=messages, max_completion_tokens=8, temperature=0)
    assert answer["object"] == "chat.completion" and answer["choices"][0]["message"] == {"role": "assistant", "content": want, "refusal": None}
    parts = events(server, "chat/completions", model="qwen2", messages=messages, max_tokens=8, temperature=0, stream_options={"include_usage": True})
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""} and parts[-2]["choices"][0]["delta"] == {}
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in parts[:-1]) == want
    assert parts[-1]["choices"] == [] and parts[-1]["usage"] == answer["usage"]


@pytest.mark.parametrize("fields, status, why", [
    (dict(model="none"), 404, "does not exist"), (dict(model=None), 400, "'model'"), (dict(model="times"), 400, "no language model"), (dict(prompt=""), 400, "empty"), (dict(prompt=[]), 400, "empty"),
    (dict(prompt=[-1]), 400, "'prompt'"), (dict(prompt=[["a"]]), 400, "'prompt'"), (dict(prompt={}), 400, "'prompt'"), (dict(prompt=[10 ** 6]), 400, "vocabulary"), (dict(prompt="a" * 300), 400, "context"),
    (dict(temperature=3), 400, "'temperature'"), (dict(max_tokens="a"), 400, "'max_tokens'"), (dict(n=0), 400, "'n'"), (dict(n=100, prompt=["a"] * 2), 400, "choices"), (dict(stop=["a"] * 5), 400, "'stop'"),
    (dict(stop=""), 400, "'stop'"), (dict(logprobs=1), 400, "'logprobs'"), (dict(best_of=2), 400, "'best_of'"), (dict(suffix="a"), 400, "'suffix'"), (dict(response_format={"type": "json_object"}), 400, "'response_format'"),
    (dict(messages=[]), 400, "'messages'"), (dict(messages=[{"role": "king", "content": "a"}]), 400, "'role'"), (dict(messages=[{"role": "user"}]), 400, "'content'"),
    (dict(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), 400, "'content'"),
])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_wrong_is_said(server, fields, status, why, stream):
    path = "chat/completions" if "messages" in fields else "completions"
    got, answer = post(server, path, **{"model": "gpt2", "prompt": "a", "stream": stream, **fields})
    assert got == status and why in answer["error"]["message"]
    assert answer["error"]["type"] == "invalid_request_error" and (answer["error"]["code"] == "model_not_found") == (status == 404)


def test_paths_and_models(server):
    assert [m["id"] for m in json.loads(server.ask("GET", "/v1/models")[1])["data"]] in (["gpt2", "qwen2"], ["qwen2", "gpt2"])
    assert json.loads(server.ask("GET", "/v1/models/gpt2")[1])["object"] == "model"
    assert [server.ask(*a)[0] for a in (("GET", "/v1/models/times"), ("GET", "/v1/none"), ("GET", "/v1/completions"), ("POST", "/v1/completions", b"{"))] == [404, 404, 405, 400]
    status, content, _ = server.ask("POST", "/v2/models/gpt2/infer", b'{"inputs":[]}')
    assert status == 400 and "/v1/completions" in json.loads(content)["error"]
    metrics = server.ask("GET", "/metrics")[1].decode()
    assert 'rushlight_tokens_total{model="gpt2",version="1",kind="made"}' in metrics


def test_many_at_once_a_new_file_and_clients_that_leave(server):
    want = written(PROMPT, 8)

    def one(i):
        if i % 5 == 0:      # goes away in the middle of a stream
            body = json.dumps(dict(model="gpt2", prompt=PROMPT, max_tokens=200, stream=True))
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
                s.sendall(f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                return s.recv(20).startswith(b"HTTP/1.1 200")
        return post(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=8, temperature=0)[1]["choices"][0]["text"] == want
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(one, i) for i in range(40)]
        shutil.copy(FILES / "gpt2.gguf", server.folder / "new")
        (server.folder / "new").replace(server.folder / "gpt2.gguf")
        assert server.ask("POST", "/v2/repository/models/gpt2/load")[0] == 200
        assert all(a.result() for a in answers)
    (server.folder / "gpt2.gguf").unlink()      # in place, not over: the model that is loaded maps it
    (server.folder / "gpt2.gguf").write_bytes(b"no model")
    assert server.ask("POST", "/v2/repository/models/gpt2/load")[0] == 400
    assert one(1)


def test_openai(server):
    openai = pytest.importorskip("openai", reason="the package openai is not installed")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="any", max_retries=0)
    assert {m.id for m in client.models.list()} == {"gpt2", "qwen2"} and client.models.retrieve("qwen2").id == "qwen2"
    asked = dict(model="qwen2", prompt="A", max_tokens=5, temperature=0)
    text = client.completions.create(**asked).choices[0].text
    assert "".join(p.choices[0].text for p in client.completions.create(**asked, stream=True)) == text
    asked = dict(model="qwen2", messages=[{"role": "user", "content": "Hello"}], max_tokens=5, temperature=0)
    answer = client.chat.completions.create(**asked)
    parts = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.delta.content or "" for p in parts for c in p.choices) == answer.choices[0].message.content
    assert parts[-1].usage == answer.usage and parts[-2].choices[0].finish_reason == answer.choices[0].finish_reason
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.completions.create(model="none", prompt="A")
    with pytest.raises(openai.BadRequestError, match="logprobs"):
        client.chat.completions.create(**asked, logprobs=True)


def test_the_key_is_asked_for(tmp_path):
    shutil.copy(FILES / "gpt2.gguf", tmp_path)
    server = Server(tmp_path, key="secret")
    status, content, _ = server.ask("GET", "/v1/models")
    assert status == 401 and json.loads(content)["error"]["code"] == "invalid_api_key"
    assert server.ask("GET", "/v1/models", headers={"Authorization": "Bearer secret"})[0] == 200
    server.end()
