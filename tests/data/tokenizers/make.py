#!/usr/bin/env python3
"""Make the files of this folder with the tokenizers package from PyPI: make.py. Each is a tokenizer.json of a kind, trained on README.md, in which `golden` lists
texts and the tokens that the package makes of them.
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
README = (HERE.parents[2] / "README.md").read_text()
LATER = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ODD = ["it's", "WE'LL", "'S", "\u2581", "<s>", "</s>", "<|end|>", "\u4f60\u597d", "\u00bd\u0663\u0664", "\U0001f600", "e\u0301", "a\u0323\u0307", "\u1e0b\u0323", "\u1100\u1161\u11a8", "\uf900",
       "\u212b", "\u00e9", "\u0915\u093c", "\u09c7\u09be", "1234567", "12", "x=1.5e3;", "!!", "  ", "   ", "\n", "\r\n\r\n", " \n ", "\t", "\u00a0", "\u3000"]


def texts():
    draw, words = random.Random(3), README.split()
    return ["", " ", "a", *ODD, *("".join(draw.choice(words + ODD * 8) + draw.choice(["", " "]) for _ in range(12)) for _ in range(40))]


def of_bytes(pre_tokenizer, normalizer=None, begin=False):
    t = Tokenizer(models.BPE(ignore_merges=begin))
    t.pre_tokenizer = pre_tokenizer
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator([README], trainers.BpeTrainer(vocab_size=400, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in ("<s>", "<|end|>")])
    template = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template]) if begin else processors.ByteLevel(trim_offsets=False)
    return t


def split(numbers):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LATER % numbers), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def of_pieces(scheme=None):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=scheme != "always"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(split=True)
    named = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256) if scheme != "always"]
    t.train_from_iterator([README], trainers.BpeTrainer(vocab_size=len(named) + 200, special_tokens=named, show_progress=False))
    told = json.loads(t.to_str())
    told["added_tokens"] = told["added_tokens"][:3]
    t = Tokenizer.from_str(json.dumps(told))
    if scheme:
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    else:
        t.pre_tokenizer, t.normalizer = None, normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


if __name__ == "__main__":
    kinds = {"gpt2": of_bytes(pre_tokenizers.ByteLevel(add_prefix_space=False)), "llama3": of_bytes(split(r"\p{N}{1,3}"), begin=True), "qwen2": of_bytes(split(r"\p{N}"), normalizers.NFC()),
             "llama2": of_pieces(), "first": of_pieces("first"), "always": of_pieces("always")}
    for name, tokenizer in kinds.items():
        golden = [[text, tokenizer.encode(text).ids] for text in texts()]
        (HERE / f"{name}.json").write_text(json.dumps({**json.loads(tokenizer.to_str()), "golden": golden}, separators=(",", ":")) + "\n")
