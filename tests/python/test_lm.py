"""`rushlight generate`: texts go on as llama.cpp goes on with them; what the models are is told in tests/data/gguf/models.py."""
import os
import pathlib
import subprocess

import pytest
import rushlight as torch
from rushlight import io

FILES = pathlib.Path(__file__).resolve().parent.parent / "data" / "gguf"
COMMAND = pathlib.Path(os.environ.get("RUSHLIGHT_BUILD", "")) / "rushlight"


def run(*args, **how):
    here = COMMAND if COMMAND.is_file() else pathlib.Path(os.path.realpath(torch._C.__file__)).parent.parent / "rushlight"
    if not here.exists():
        pytest.skip("the command is not beside this package")
    return subprocess.run([here, "generate", *args], capture_output=True, **how)


def out(*args, **how):
    done = run(*args, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["pieces", "llama3", "qwen2", "gpt2"])
def test_texts_go_on_as_with_llama_cpp(name):
    path = FILES / f"{name}.gguf"
    about = io.gguf_metadata(path)
    for i in range(3):
        numbers = [int(x) for x in out(path, "-p", about[f"golden.{i}.text"], "-n", "16", "--numbers").split()]
        want, lead = about[f"golden.{i}.greedy"].tolist(), about[f"golden.{i}.lead"].tolist()
        end = about["tokenizer.ggml.eos_token_id"]
        sure = next((k for k, x in enumerate(lead) if x < 0.25 or want[k] == end), 16)  # before it, rounding changes nothing
        assert numbers[:sure] == want[:sure]


def test_text_is_streamed_as_its_bytes():
    path = FILES / "pieces.gguf"
    about = io.gguf_metadata(path)
    text = about["golden.0.text"]
    numbers = [int(x) for x in out(path, "-p", text, "-n", "8", "--numbers").split()]
    words = [about["tokenizer.ggml.tokens"][n].replace("\u2581", " ") for n in numbers]
    told = out(path, "-p", text, "-n", "8").decode(errors="replace")
    if not any(w.startswith("<0x") for w in words):
        assert told == "".join(words) + "\n"
    assert out(path, "-p", "-", "-n", "8", input=text.encode()).decode(errors="replace") == told


def test_a_seed_says_which_tokens_are_drawn():
    args = (FILES / "gpt2.gguf", "-p", "The", "-n", "12", "--temperature", "1.5", "--numbers")
    one, again, other = out(*args, "--seed", "1"), out(*args, "--seed", "1"), out(*args, "--seed", "2")
    assert one == again != other
    likeliest = out(*args[:-3], "--numbers")
    assert out(*args, "--seed", "1", "--top-k", "1") == out(*args, "--seed", "2", "--top-p", "0.000001") == likeliest


def test_what_is_wrong(tmp_path):
    path = FILES / "pieces.gguf"
    for args, status, words in [((path,), 2, "usage"), ((path, "-p"), 2, "needs a value"), ((path, "-p", "a", "-n", "x"), 2, "no number"), ((path, "-p", "a", "--what"), 2, "does not know"),
                                ((path, path, "-p", "a"), 2, "does not know"), ((path, "-p", "a", "--temperature", "-1"), 1, "temperature"),
                                ((path, "-p", "a" * 300, "--context", "64"), 1, "context"), ((FILES / "blocks.gguf", "-p", "a"), 1, "kind none"), ((tmp_path / "no", "-p", "a"), 1, "no")]:
        done = run(*args)
        assert done.returncode == status and words in done.stderr.decode(), (args, done.stderr)


def test_the_context_is_an_end():
    assert len(out(FILES / "pieces.gguf", "-p", "The", "-n", "500", "--context", "64", "--numbers").split()) <= 64
