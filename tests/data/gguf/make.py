#!/usr/bin/env python3
"""Make the files of this folder with the gguf package (0.19 from PyPI): make.py FOLDER

blocks.gguf has one tensor of each type of block, two rows of 256 elements, and blocks.npz what gguf.dequantize makes of them.
written.gguf is what GGUFWriter makes of metadata and tensors that tests/python/test_gguf.py writes, too.
"""
import pathlib
import sys

import gguf
import numpy as np

BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def blocks(folder):
    rng = np.random.default_rng(7)
    writer, opened = gguf.GGUFWriter(folder / "blocks.gguf", "none"), {}
    for name in BLOCKS:
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        data = rng.integers(0, 256, (2, 256 // elements, size), dtype=np.uint8)
        for at in HALVES[name]:
            data[:, :, at:at + 2] = rng.standard_normal((2, 256 // elements, 1)).astype(np.float16).view(np.uint8)
        data = data.reshape(2, -1)
        writer.add_tensor(name, data, raw_dtype=kind)
        opened[name] = gguf.dequantize(data, kind)
    finish(writer)
    np.savez(folder / "blocks.npz", **opened)


def written(folder):
    writer = gguf.GGUFWriter(folder / "written.gguf", "llama")
    writer.add_uint32("llama.block_count", 2)
    writer.add_int32("some.negative", -3)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_string("general.name", "h\xe9")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "a", "\u2581b"])
    writer.add_array("tokenizer.ggml.token_type", [3, 1, 1])
    writer.add_array("tokenizer.ggml.scores", [0.0, -1.5, -2.0])
    writer.add_uint64("some.large", 1 << 40)
    x = ((np.arange(192, dtype=np.float32) * 37 % 101 - 50) / 7).reshape(3, 64)
    for name in ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"):
        kind = gguf.GGMLQuantizationType[name]
        writer.add_tensor(name, gguf.quantize(x, kind), raw_dtype=kind)
    writer.add_tensor("ids", np.arange(5, dtype=np.int32))
    finish(writer)


if __name__ == "__main__":
    blocks(pathlib.Path(sys.argv[1]))
    written(pathlib.Path(sys.argv[1]))
