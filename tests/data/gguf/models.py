#!/usr/bin/env python3
"""Make the models of this folder and what llama.cpp says of them, with gguf and xllamacpp from PyPI: models.py FOLDER

Each has two layers of random weights and a vocabulary of pieces that are frequent in README.md. Its metadata hold texts (golden.N.text), the tokens that
llama.cpp makes of them (golden.N.tokens) and the likeliest ones that it goes on with (golden.N.greedy), with how
far their logits lead those of the second (golden.N.lead).
"""
import collections
import json
import pathlib
import re
import sys
import urllib.request

import gguf
import numpy as np
import xllamacpp

Q = gguf.GGMLQuantizationType
README = (pathlib.Path(__file__).resolve().parents[3] / "README.md").read_text()
TEXTS = ["The library is a folder of models", "Once upon a time, there were 1234567 trees; it's    what WE'LL\n\nsee in h\u00e9 \u4f60\u597d caf\u00e9! \n \n  <|eot_id|> end</s>x  ",
         " lead\t\ttabs\r\n\r\n x=1.5e3;\n    return  \u00bd \u0663\u0664 \U0001f600\U0001f600 ..\n\n!!\n"]
WIDTH, HEADS, KV, FEED, LAYERS = 64, 4, 2, 96, 2


def merged(words, n):
    """The n pairs of symbols that are most frequent in words (a Counter), each merged before the next is looked for."""
    symbols, found = {w: list(w) for w in words}, []
    while len(found) < n:
        pairs = collections.Counter()
        for w, s in symbols.items():
            for pair in zip(s, s[1:]):
                pairs[pair] += words[w]
        a, b = max(pairs, key=lambda p: (pairs[p], p))
        found.append((a, b))
        for s in symbols.values():
            i = 0
            while i + 1 < len(s):
                if s[i] == a and s[i + 1] == b:
                    s[i:i + 2] = [a + b]
                i += 1
    return found


def pieces(writer):
    words = collections.Counter("\u2581" + w for w in README.split())
    found = [a + b for a, b in merged(words, 80)]
    found += sorted({c for w in words for c in w} - set(found))
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + found
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 259 + [-float(i) for i in range(len(found))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(found))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    return len(tokens)


def byte_pairs(writer, pre):
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letter = {b: chr(b) for b in shown}
    letter.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)})
    words = collections.Counter("".join(letter[b] for b in w.encode()) for w in re.findall(r" ?\w+| ?[^\w\s]+|\s+", README))
    merges = merged(words, 80)
    tokens = [letter[b] for b in range(256)] + [a + b for a, b in merges] + ["<|begin_of_text|>", "<|eot_id|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges([f"{a} {b}" for a, b in merges])
    writer.add_token_types([1] * (len(tokens) - 2) + [3, 3])
    writer.add_bos_token_id(len(tokens) - 2)
    writer.add_eos_token_id(len(tokens) - 1)
    return len(tokens)


def write(path, arch, kind, vocabulary, golden):
    rng = np.random.default_rng(2)
    w = gguf.GGUFWriter(path, arch)
    w.add_context_length(256)
    w.add_embedding_length(WIDTH)
    w.add_block_count(LAYERS)
    w.add_feed_forward_length(FEED)
    w.add_head_count(HEADS)
    w.add_head_count_kv(HEADS if arch == "gpt2" else KV)
    w.add_layer_norm_eps(1e-5) if arch == "gpt2" else w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(WIDTH // HEADS)
    words = vocabulary(w)
    for i, (text, tokens, greedy, lead) in enumerate(golden):
        w.add_string(f"golden.{i}.text", text)
        w.add_array(f"golden.{i}.tokens", tokens)
        w.add_array(f"golden.{i}.greedy", greedy)
        w.add_array(f"golden.{i}.lead", lead)

    def add(name, *size, scale=1.0):
        x = rng.standard_normal(size).astype(np.float32) * np.float32(scale / size[-1] ** 0.5 if len(size) > 1 else 0.1)
        w.add_tensor(name, gguf.quantize(x, kind) if len(size) > 1 else x + np.float32("norm.weight" in name), raw_dtype=kind if len(size) > 1 else None)
    add("token_embd.weight", words, WIDTH, scale=3)
    add("output.weight", words, WIDTH, scale=3)
    if arch == "gpt2":
        return learned(add, w)
    add("output_norm.weight", WIDTH)
    kv = KV * WIDTH // HEADS
    for i in range(LAYERS):
        for name, *size in [("attn_norm", WIDTH), ("attn_q", WIDTH, WIDTH), ("attn_k", kv, WIDTH), ("attn_v", kv, WIDTH), ("attn_output", WIDTH, WIDTH), ("ffn_norm", WIDTH),
                            ("ffn_gate", FEED, WIDTH), ("ffn_up", FEED, WIDTH), ("ffn_down", WIDTH, FEED)]:
            add(f"blk.{i}.{name}.weight", *size)
        if arch == "qwen2":
            for name, n in (("q", WIDTH), ("k", kv), ("v", kv)):
                add(f"blk.{i}.attn_{name}.bias", n)
    finish(w)


def learned(add, w):
    """GPT-2's: positions are learned, norms are of layers, queries, keys and values are one product."""
    add("position_embd.weight", 256, WIDTH, scale=2)
    parts = [("output_norm", WIDTH)]
    for i in range(LAYERS):
        parts += [(f"blk.{i}.{name}", *size) for name, *size in [("attn_norm", WIDTH), ("attn_qkv", 3 * WIDTH, WIDTH), ("attn_output", WIDTH, WIDTH), ("ffn_norm", WIDTH),
                                                                 ("ffn_up", FEED, WIDTH), ("ffn_down", WIDTH, FEED)]]
    for name, *size in parts:
        add(f"{name}.weight", *size)
        add(f"{name}.bias", size[0])
    finish(w)


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def peer(path):
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity, p.port = str(path), 256, 1, False, -1, 0
    server = xllamacpp.Server(p)

    def post(what, body):
        return json.load(urllib.request.urlopen(urllib.request.Request(server.listening_address + what, json.dumps(body).encode(), {"Content-Type": "application/json"})))
    golden = []
    for text in TEXTS:
        tokens = post("/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"]
        got = post("/completion", {"prompt": tokens, "n_predict": 24, "n_probs": 2, "temperature": 0, "top_k": 1, "return_tokens": True, "ignore_eos": True, "cache_prompt": False})
        told, lead = list(got["completion_probabilities"]), []
        for token in got["tokens"]:  # nothing is told of some that are parts of characters
            known = bool(told) and told[0]["id"] == token
            first, second = [x["logprob"] for x in told.pop(0)["top_logprobs"]] if known else (0.0, 0.0)
            lead.append(first - second)
        golden.append((text, tokens, got["tokens"], lead))
    return golden


if __name__ == "__main__":
    for name, arch, kind, vocabulary in [("pieces", "llama", Q.Q4_0, pieces), ("llama3", "llama", Q.Q8_0, lambda w: byte_pairs(w, "llama-bpe")),
                                         ("qwen2", "qwen2", Q.Q8_0, lambda w: byte_pairs(w, "qwen2")), ("gpt2", "llama", Q.Q8_0, lambda w: byte_pairs(w, "gpt-2")),
                                         ("learned", "gpt2", Q.Q8_0, lambda w: byte_pairs(w, "gpt-2"))]:
        path = pathlib.Path(sys.argv[1]) / f"{name}.gguf"
        write(path, arch, kind, vocabulary, [])
        write(path, arch, kind, vocabulary, peer(path))
