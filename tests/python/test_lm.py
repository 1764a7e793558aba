"""`rushlight generate`: texts go on as llama.cpp goes on with them; what the models are is told in tests/data/gguf/models.py."""
import json
import pathlib
import subprocess

import places
import pytest
import rushlight as torch
from rushlight import io

FILES = pathlib.Path(__file__).resolve().parent.parent / "data" / "gguf"


def run(*args, what="generate", **how):
    return subprocess.run([places.command(), what, *args], capture_output=True, **how)


def out(*args, **how):
    done = run(*args, **how)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["pieces", "llama3", "qwen2", "gpt2", "learned"])
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


def test_a_draft_changes_no_text(tmp_path):
    path, small = FILES / "llama3.gguf", tmp_path / "small.gguf"
    kept, about = io.load_gguf(path), io.gguf_metadata(path)
    io.save_gguf({name: t + 0.05 * torch.randn(t.shape) for name, t in kept.items()}, small, about)
    how = (path, "-p", "The library", "-n", "40", "--numbers")
    assert out(*how) == out(*how, "--draft", small) == out(*how, "--draft", path)
    assert out(*how[:-1], "--temperature", "1", "--seed", "1", "--draft", small) == out(*how[:-1], "--temperature", "1", "--seed", "1", "--draft", small)
    io.save_gguf(kept, tmp_path / "a.gguf", {**about, "tokenizer.chat_template": "{{ '<|im_start|>' }}"})
    talk = (tmp_path / "a.gguf", "-n", "12", "--numbers")
    assert out(*talk, what="chat", input=b"The library\nIs it?\n") == out(*talk, "--draft", small, what="chat", input=b"The library\nIs it?\n")
    for draft, words in ((tmp_path / "none.gguf", b"none.gguf"), (FILES / "pieces.gguf", b"other tokens")):
        done = run(*how, "--draft", draft)
        assert done.returncode == 1 and words in done.stderr


def test_chat(tmp_path):
    kept, about, path = io.load_gguf(FILES / "llama3.gguf"), io.gguf_metadata(FILES / "llama3.gguf"), tmp_path / "a.gguf"
    how = (path, "-n", "8", "--numbers")
    user = {"{{ '<|im_start|>' }}": ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_start|>system\nBrief.<|im_end|>\n<|im_start|>user\n"),
            "{{ '[INST]' }}": ("[INST] ", " [/INST]", "[INST] <<SYS>>\nBrief.\n<</SYS>>\n\n"),
            "{{ '<|start_header_id|>' }}": ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
                                            "<|start_header_id|>system<|end_header_id|>\n\nBrief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n")}
    for template, (before, after, told) in user.items():
        io.save_gguf(kept, path, {**about, "tokenizer.chat_template": template})
        want = out(*how, "-p", before + "The library" + after)
        assert out(*how, what="chat", input=b"The library\n") == want
        assert out(*how, "--system", "Brief.", what="chat", input=b"The library") == out(*how, "-p", told + "The library" + after)
        two = out(*how, what="chat", input=b"The library\nIs it?\n").splitlines(True)
        assert len(two) == 2 and two[0] == want
    full = run(*how, "--context", "64", what="chat", input=b"The library " * 100)
    assert full.returncode == 0 and b"context of 64 tokens is full" in full.stderr
    for wrong, words in (({"tokenizer.chat_template": "{{ '<start_of_turn>' }}"}, b"no known family"), ({}, b"no chat template")):
        io.save_gguf(kept, path, {**about, **wrong})
        done = run(*how, what="chat", input=b"a\n")
        assert done.returncode == 1 and words in done.stderr
    assert run(what="chat").returncode == 2


def test_a_tokenizer_json_stands_for_the_file_s_tokens(tmp_path):
    kept, about = io.load_gguf(FILES / "llama3.gguf"), io.gguf_metadata(FILES / "llama3.gguf")
    tokens, merges = about["tokenizer.ggml.tokens"], about["tokenizer.ggml.merges"]
    bare, whole, told = tmp_path / "bare.gguf", tmp_path / "whole.gguf", tmp_path / "tokenizer.json"
    io.save_gguf(kept, whole, about)
    io.save_gguf(kept, bare, {key: value for key, value in about.items() if not key.startswith("tokenizer.")})
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    n = len(tokens) - 2
    words = {"model": {"type": "BPE", "ignore_merges": True, "vocab": {t: i for i, t in enumerate(tokens[:n])}, "merges": merges},
             "added_tokens": [{"id": n + i, "content": t, "special": True} for i, t in enumerate(tokens[n:])],
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}, {"type": "ByteLevel"}]},
             "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": tokens[n]}}, {"Sequence": {"id": "A"}}],
                                "special_tokens": {tokens[n]: {"ids": [n]}}}}
    told.write_text(json.dumps(words))
    for i in range(3):
        args = ("-p", about[f"golden.{i}.text"], "-n", "12", "--numbers")
        assert out(bare, *args, "--tokenizer", told) == out(whole, *args)
    (tmp_path / "a.txt").write_text("The library is a folder that everybody reads. " * 20)
    args = (tmp_path / "a.txt", "--context", "64")
    assert out(bare, *args, "--tokenizer", told, what="perplexity") == out(whole, *args, what="perplexity")
    assert run(bare, "-p", "a").returncode == 1
    words["added_tokens"].append({"id": len(tokens), "content": "more", "special": True})
    told.write_text(json.dumps(words))
    done = run(bare, "-p", "a", "--tokenizer", told)
    assert done.returncode == 1 and b"has rows for" in done.stderr


def test_repetition_is_dear():
    args = (FILES / "pieces.gguf", "-p", "The library is", "-n", "24", "--numbers")
    once = out(*args, "--repetition", "1e9").split()
    assert len(set(once)) == len(once) and out(*args, "--repetition", "1") == out(*args)
    assert run(*args, "--repetition", "-2").returncode == 1


def test_perplexity(tmp_path):
    """A model whose output is zero finds all tokens alike."""
    kept, about = io.load_gguf(FILES / "pieces.gguf"), io.gguf_metadata(FILES / "pieces.gguf")
    kept["output.weight"] = torch.zeros_like(kept.get("output.weight", kept["token_embd.weight"]))
    io.save_gguf(kept, tmp_path / "a.gguf", about)
    (tmp_path / "a.txt").write_text("The library is a folder that everybody reads. " * 20)
    words = out(tmp_path / "a.gguf", tmp_path / "a.txt", "--context", "64", what="perplexity", text=True).split()
    count = len(about["tokenizer.ggml.tokens"])
    assert words[0] == "perplexity" and abs(float(words[1]) / count - 1) < 1e-4 and float(words[3]) < 0.1 and int(words[4][1:]) % 31 == 0
    known = out(FILES / "pieces.gguf", tmp_path / "a.txt", "--context", "64", what="perplexity", text=True).split()
    assert known == out(FILES / "pieces.gguf", "-", "--context", "64", what="perplexity", text=True, input=(tmp_path / "a.txt").read_text()).split() and known[1] != words[1]
    (tmp_path / "short.txt").write_text("The library")
    for args, status in (([FILES / "pieces.gguf"], 2), ([FILES / "pieces.gguf", tmp_path / "none"], 1), ([tmp_path / "a.txt", tmp_path / "a.txt"], 1),
                         ([FILES / "pieces.gguf", tmp_path / "a.txt", "--context", "x"], 2), ([FILES / "pieces.gguf", tmp_path / "short.txt"], 1)):
        done = run(*args, what="perplexity", text=True)
        assert done.returncode == status and done.stderr


def test_what_is_wrong(tmp_path):
    path = FILES / "pieces.gguf"
    for args, status, words in [((path,), 2, "usage"), ((path, "-p"), 2, "needs a value"), ((path, "-p", "a", "-n", "x"), 2, "takes a"), ((path, "-p", "a", "-n", "-3"), 2, "takes a"), ((path, "-p", "a", "--what"), 2, "generate does not know"),
                                ((path, path, "-p", "a"), 2, "generate does not know"), ((path, "-p", "a", "--temperature", "-1"), 1, "temperature"),
                                ((path, "-p", "a" * 300, "--context", "64"), 1, "context"), ((FILES / "blocks.gguf", "-p", "a"), 1, "kind none"), ((tmp_path / "no", "-p", "a"), 1, "no")]:
        done = run(*args)
        assert done.returncode == status and words in done.stderr.decode(), (args, done.stderr)


def test_the_context_is_an_end():
    assert len(out(FILES / "pieces.gguf", "-p", "The", "-n", "500", "--context", "64", "--numbers").split()) <= 64
