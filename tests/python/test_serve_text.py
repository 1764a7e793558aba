"""`rushlight serve` of language models: OpenAI's paths by plain HTTP, and by the package openai where that is installed."""
import concurrent.futures
import json
import shutil
import socket
import subprocess

import pytest
from rushlight import io
from test_lm import FILES
from test_serve import SERVER, Server, save

PROMPT = "The"
TEMPLATES = {"qwen2": "{{ '<|im_start|>' }}", "llama3": "{{ '<|start_header_id|>' }}", "pieces": "{{ '[INST]' }}", "unknown": "{{ '<start_of_turn>' }}"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    shutil.copy(FILES / "gpt2.gguf", folder)
    for name, template in TEMPLATES.items():
        source = FILES / f"{name if name != 'unknown' else 'qwen2'}.gguf"
        io.save_gguf(io.load_gguf(source), folder / f"{name}.gguf", {**io.gguf_metadata(source), "tokenizer.chat_template": template})
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


def written(prompt, n, path=FILES / "gpt2.gguf"):
    """What `rushlight generate` writes."""
    return subprocess.run([SERVER, "generate", path, "-p", prompt, "-n", str(n)], capture_output=True, check=True).stdout[:-1].decode(errors="replace")


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
    want = written("<|im_start|>system\nBe short.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", 8, server.folder / "qwen2.gguf")
    _, answer = post(server, "chat/completions", model="qwen2", messages=messages, max_completion_tokens=8, temperature=0)
    assert answer["object"] == "chat.completion" and answer["choices"][0]["message"] == {"role": "assistant", "content": want, "refusal": None}
    parts = events(server, "chat/completions", model="qwen2", messages=messages, max_tokens=8, temperature=0, stream_options={"include_usage": True})
    assert parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""} and parts[-2]["choices"][0]["delta"] == {}
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in parts[:-1]) == want
    assert parts[-1]["choices"] == [] and parts[-1]["usage"] == answer["usage"]


@pytest.mark.parametrize("model, told, asked, answered, again", [
    ("qwen2", "<|im_start|>system\nS<|im_end|>\n", "<|im_start|>user\nU<|im_end|>\n", "<|im_start|>assistant\nA<|im_end|>\n", "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"),
    ("llama3", "<|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>", "<|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>",
     "<|start_header_id|>user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"),
    ("pieces", "[INST] <<SYS>>\nS\n<</SYS>>\n\n", "U [/INST]", "A</s><s>", "[INST] V [/INST]"),
])
def test_a_chat_is_written_by_the_file_s_template(server, model, told, asked, answered, again):
    roles = [("developer", "S"), ("user", "U"), ("assistant", "A"), ("user", "V")]
    status, answer = post(server, "chat/completions", model=model, messages=[dict(role=r, content=c) for r, c in roles], max_tokens=8, temperature=0)
    assert status == 200 and answer["choices"][0]["message"]["content"] == written(told + asked + answered + again, 8, server.folder / f"{model}.gguf")


def ids(server, text):
    """The tokens that a text goes on with, as `rushlight generate` numbers them."""
    path = server.folder / "gpt2.gguf"
    return [int(x) for x in subprocess.run([SERVER, "generate", path, "-p", text, "--numbers", "-n", "10"], capture_output=True, check=True).stdout.split()]


def test_penalties_and_biases(server):
    asked = dict(model="gpt2", prompt=PROMPT, max_tokens=10, temperature=0, logprobs=0)

    def tokens(**more):
        status, answer = post(server, "completions", **asked, **more)
        assert status == 200, answer
        return answer["choices"][0]["logprobs"]["tokens"]
    plain, first = tokens(), ids(server, PROMPT)[0]
    assert tokens(presence_penalty=0, frequency_penalty=0.0, logit_bias={}) == plain and len(set(plain)) < 10
    assert tokens(logit_bias={str(first): 100}) == plain[:1] * 10 and plain[0] not in tokens(logit_bias={str(first): -100})
    held = tokens(logit_bias={str(first): 100}, frequency_penalty=2)      # 100 is more than ten times 2
    assert held == plain[:1] * 10
    two = ids(server, PROMPT + "x")[0]
    if two != first:        # both are far before all others: what was said becomes the second
        pair = tokens(logit_bias={str(first): 100, str(two): 100}, frequency_penalty=2)
        assert len(set(pair)) == 2 and pair != plain[:1] * 10
    assert tokens(presence_penalty=-2) == tokens(presence_penalty=-2, frequency_penalty=0) and len(set(tokens(presence_penalty=2, frequency_penalty=2))) >= len(set(plain))


def test_how_likely_tokens_were(server):
    asked = dict(model="gpt2", prompt=PROMPT, max_tokens=6, temperature=0)
    plain = post(server, "completions", **asked)[1]["choices"][0]
    assert plain["logprobs"] is None
    choice = post(server, "completions", **asked, logprobs=3)[1]["choices"][0]
    told = choice["logprobs"]
    assert choice["text"] == plain["text"] == "".join(told["tokens"]) and [len(told[k]) for k in told] == [6] * 4
    assert told["text_offset"] == [len("".join(told["tokens"][:i])) for i in range(6)]
    for token, log, likeliest in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"]):
        assert 1 <= len(likeliest) <= 3 and log < 0
        if not any("\ufffd" in t for t in likeliest):           # parts of letters look alike
            assert log == likeliest[token] == max(likeliest.values())       # greedy: it is the likeliest
    parts = events(server, "completions", **asked, logprobs=3)
    for column in told:
        assert sum((p["choices"][0]["logprobs"][column] for p in parts if p["choices"][0]["logprobs"]), []) == told[column]
    # what is drawn is told of, too: all of the vocabulary sums to 1
    every = post(server, "completions", model="gpt2", prompt=PROMPT, max_tokens=1, temperature=2, seed=3, logprobs=0)[1]["choices"][0]["logprobs"]
    assert len(every["top_logprobs"][0]) == 1 and every["token_logprobs"][0] <= told["token_logprobs"][0]
    # a prompt is scored as the model would have said it: a bias makes it say the last token of all
    scored = post(server, "completions", model="gpt2", prompt=[5, 6, 7, 8], max_tokens=0, echo=True, logprobs=1)[1]["choices"][0]["logprobs"]
    forced = post(server, "completions", model="gpt2", prompt=[5, 6, 7], max_tokens=1, temperature=0, logit_bias={"8": 100}, logprobs=0)[1]["choices"][0]["logprobs"]
    assert len(scored["tokens"]) == 4 and scored["token_logprobs"][0] is None and scored["top_logprobs"][0] is None
    assert scored["tokens"][3:] == forced["tokens"] and scored["token_logprobs"][3:] == pytest.approx(forced["token_logprobs"], abs=1e-3)
    stop = told["tokens"][3]
    cut = post(server, "completions", **asked, logprobs=1, stop=stop)[1]["choices"][0]
    assert "".join(cut["logprobs"]["tokens"]) == cut["text"]


def test_how_likely_tokens_of_a_chat_were(server):
    asked = dict(model="qwen2", messages=[{"role": "user", "content": "Hello"}], max_tokens=5, temperature=0)
    plain = post(server, "chat/completions", **asked)[1]["choices"][0]
    choice = post(server, "chat/completions", **asked, logprobs=True, top_logprobs=2)[1]["choices"][0]
    entries = choice["logprobs"]["content"]
    assert plain["logprobs"] is None and choice["message"] == plain["message"] and len(entries) == 5
    assert bytes(sum((e["bytes"] for e in entries), [])).decode(errors="replace") == choice["message"]["content"]
    for e in entries:
        assert len(e["top_logprobs"]) == 2 and e["top_logprobs"][0] == {k: e[k] for k in ("token", "logprob", "bytes")} and e["top_logprobs"][1]["logprob"] <= e["logprob"] <= 0
    parts = events(server, "chat/completions", **asked, logprobs=True, top_logprobs=2)
    assert sum((p["choices"][0]["logprobs"]["content"] for p in parts if p["choices"][0]["logprobs"]), []) == entries
    assert [e["top_logprobs"] for e in post(server, "chat/completions", **asked, logprobs=True)[1]["choices"][0]["logprobs"]["content"]] == [[]] * 5


@pytest.mark.parametrize("fields, status, why", [
    (dict(model="none"), 404, "does not exist"), (dict(model=None), 400, "'model'"), (dict(model="times"), 400, "no language model"), (dict(prompt=""), 400, "empty"), (dict(prompt=[]), 400, "empty"),
    (dict(prompt=[-1]), 400, "'prompt'"), (dict(prompt=[["a"]]), 400, "'prompt'"), (dict(prompt={}), 400, "'prompt'"), (dict(prompt=[10 ** 6]), 400, "vocabulary"), (dict(prompt="a" * 300), 400, "context"),
    (dict(temperature=3), 400, "'temperature'"), (dict(max_tokens="a"), 400, "'max_tokens'"), (dict(n=0), 400, "'n'"), (dict(n=100, prompt=["a"] * 2), 400, "choices"), (dict(stop=["a"] * 5), 400, "'stop'"),
    (dict(stop=""), 400, "'stop'"), (dict(logprobs=21), 400, "'logprobs'"), (dict(logprobs=True), 400, "'logprobs'"), (dict(frequency_penalty=3), 400, "'frequency_penalty'"),
    (dict(presence_penalty="a"), 400, "'presence_penalty'"), (dict(logit_bias=[1]), 400, "'logit_bias'"), (dict(logit_bias={"a": 1}), 400, "'logit_bias'"), (dict(logit_bias={"1": 101}), 400, "'logit_bias'"),
    (dict(logit_bias={"1": None}), 400, "'logit_bias'"), (dict(logit_bias={"1000000": 1}), 400, "vocabulary"), (dict(messages=[{"role": "user", "content": "a"}], top_logprobs=2), 400, "'top_logprobs'"),
    (dict(messages=[{"role": "user", "content": "a"}], logprobs=1), 400, "'logprobs'"), (dict(messages=[{"role": "user", "content": "a"}]), 400, "no chat template"),
    (dict(messages=[{"role": "user", "content": "a"}], model="unknown"), 400, "no known family"), (dict(messages=[{"role": "tool", "content": "a"}]), 400, "'role'"),
    (dict(best_of=2), 400, "'best_of'"), (dict(suffix="a"), 400, "'suffix'"), (dict(response_format={"type": "json_object"}), 400, "'response_format'"),
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
    assert {m["id"] for m in json.loads(server.ask("GET", "/v1/models")[1])["data"]} == {"gpt2", *TEMPLATES}
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
    assert {m.id for m in client.models.list()} == {"gpt2", *TEMPLATES} and client.models.retrieve("qwen2").id == "qwen2"
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
    with pytest.raises(openai.BadRequestError, match="top_logprobs"):
        client.chat.completions.create(**asked, top_logprobs=2)
    told = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2, frequency_penalty=0.5, presence_penalty=-0.5, logit_bias={"5": -1}).choices[0].logprobs.content
    assert len(told) == 5 and all(len(e.top_logprobs) == 2 and bytes(e.bytes).decode(errors="replace") == e.token for e in told)
    parts = client.chat.completions.create(**asked, logprobs=True, stream=True)
    assert sum(len(c.logprobs.content) for p in parts for c in p.choices if c.logprobs) == 5
    columns = client.completions.create(model="qwen2", prompt="A", max_tokens=5, logprobs=2, logit_bias={"5": 1.5}).choices[0].logprobs
    assert len(columns.tokens) == len(columns.token_logprobs) == len(columns.top_logprobs) == len(columns.text_offset) == 5


def test_the_key_is_asked_for(tmp_path):
    shutil.copy(FILES / "gpt2.gguf", tmp_path)
    server = Server(tmp_path, key="secret")
    status, content, _ = server.ask("GET", "/v1/models")
    assert status == 401 and json.loads(content)["error"]["code"] == "invalid_api_key"
    assert server.ask("GET", "/v1/models", headers={"Authorization": "Bearer secret"})[0] == 200
    server.end()
