#!/usr/bin/env python3
"""Make the seed files of the fuzz targets: tests/fuzz/corpus.py FOLDER

They come from rushlight itself (PYTHONPATH must find it), which has JPEG by libjpeg-turbo and sound by libsndfile, from NumPy, and
from tests/data/files, which PyTorch and Pillow wrote.
"""
import io
import json
import pathlib
import struct
import sys
import wave
import zipfile
import zlib

import numpy as np
import rushlight as torch
from rushlight import audio, vision
from rushlight import io as io_gguf

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "files"


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def saved(value, **options):
    f = io.BytesIO()
    torch.save(value, f, **options)
    return f.getvalue()


def main(root):
    a = torch.arange(6).reshape(2, 3)
    values = {
        "tensor": a, "views": {"a": a, "row": a[1], "turned": a.t()}, "nested": [1, -2.5, None, True, "text", b"bytes", (1, {2: [3]}), {4}],
        "complex": torch.ones(2, dtype=torch.complex64), "u16": torch.ones(2, dtype=torch.uint16), "empty": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)), "big": 10 ** 30, "state": torch.nn.Linear(2, 2).state_dict(),
    }
    for name, value in values.items():
        archive = saved(value)
        write(root / "checkpoint", name, archive)
        write(root / "zip", name, archive)
        write(root / "pickle", name, zipfile.ZipFile(io.BytesIO(archive)).read("archive/data.pkl"))
        write(root / "legacy", name, saved(value, _use_new_zipfile_serialization=False))
    for path in sorted(DATA.glob("*")):
        for kind, suffix in (("checkpoint", ".pt"), ("legacy", ".legacy"), ("safetensors", ".safetensors"), ("npy", ".npy"), ("npz", ".npz"),
                             ("picture", ".jpg"), ("picture", ".png")):
            if path.suffix == suffix:
                write(root / kind, path.name, path.read_bytes())
    for path in sorted((DATA.parent / "gguf").glob("*.gguf")):
        write(root / "gguf", path.name, path.read_bytes())
    for path in sorted((DATA.parent / "tokenizers").glob("*.json")):
        told = {key: value for key, value in json.loads(path.read_text()).items() if key != "golden"}
        write(root / "tokenizer", path.name, json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode())
    for kind, arch in (("Q4_0", "llama"), ("F16", "qwen2"), ("Q8_0", "gpt2")):
        write(root / "lm", arch, language_model(root / "lm.gguf", kind, arch))
    for dtype in ("?", "u1", "<i4", ">f8", "<c8"):
        f = io.BytesIO()
        np.save(f, np.zeros((2, 3), dtype, order="F"))
        write(root / "npy", dtype.strip("<>?") + "_f", f.getvalue())
    for path in sorted((DATA.parent / "programs").glob("*.pt2")):
        write(root / "program", path.name, path.read_bytes())
    for name, data in archives(root / "archive.pt2"):
        write(root / "program", name, data)
    for path in sorted((DATA.parent / "onnx").glob("*.onnx")):
        write(root / "onnx", path.name, path.read_bytes())
    for path in sorted((DATA.parent / "scripts").glob("*.pt")):
        write(root / "script", path.name, path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            for k, name in enumerate(n for n in archive.namelist() if n.endswith(".py")):
                write(root / "script", f"{path.stem}{k}.py", archive.read(name))
    text = lambda b: len(b).to_bytes(8, "little") + b
    for name, talk in (("set", b"\1" + text(b"/a") + text(b"xyz")), ("wait", b"\6" + (2).to_bytes(8, "little") + text(b"/a") + text(b"/b")),
                       ("add", b"\4" + text(b"/n") + (5).to_bytes(8, "little")), ("many", b"\x0b" + (1).to_bytes(8, "little") + text(b"/a") + text(b"b") + b"\x11"),
                       ("queue", b"\x0e" + text(b"/q") + text(b"1") + b"\x0f" + text(b"/q")), ("barrier", b"\x12" + text(b"b") + (1).to_bytes(8, "little"))):
        write(root / "store", name, b"\1" + talk)
    write(root / "store", "secret", b"\3\x70" + bytes(16) + b"\x71" + bytes(32))
    for how in (np.savez, np.savez_compressed):
        f = io.BytesIO()
        how(f, a=np.arange(3), b=np.zeros((2, 2), ">i2"))
        write(root / "npz", how.__name__, f.getvalue())
        write(root / "zip", how.__name__, f.getvalue())
    header = b'{"__metadata__":{"by":"hand"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}}'
    header += b" " * (-len(header) % 8)
    write(root / "json", "header", header)
    write(root / "json", "texts", rb'{"a": ["\u00e9\ud83d\ude00 \\ \n", -1.5e-3, 12, true, false, null, {}, []]}')
    write(root / "safetensors", "two", len(header).to_bytes(8, "little") + header + bytes(12))
    for colour, channels in ((0, 1), (2, 3), (6, 4)):
        write(root / "picture", "colour%d" % colour, picture(2, 2, colour, channels))
    dots = (torch.rand(3, 9, 17, generator=torch.Generator().manual_seed(1)) * 255).to(torch.uint8)
    for name, pixels, quality in (("fine", dots, 95), ("coarse", dots, 5), ("grey", dots[:1], 75), ("one", dots[:, :1, :1], 50)):
        write(root / "picture", name + ".jpg", vision.encode_jpeg(pixels, quality).numpy().tobytes())
    for channels in (1, 2, 3, 4):
        write(root / "picture", "%d.png" % channels, vision.encode_png(torch.cat([dots, dots])[:channels]).numpy().tobytes())
    write(root / "picture", "deep.png", picture(3, 2, 2, 6, depth=16))
    tone = torch.sin(torch.arange(600.0) / 7).reshape(2, 300) * 0.5
    for dtype in (torch.int16, torch.int32, torch.float32, torch.float64):
        scale = 1 if dtype.is_floating_point else torch.iinfo(dtype).max
        for kind in ("wav", "flac"):
            write(root / "sound", "%s.%s" % (str(dtype)[6:], kind), audio.encode((tone * scale).to(dtype), 8000, kind).numpy().tobytes())
    for width in (1, 2, 3):
        f = io.BytesIO()
        with wave.open(f, "wb") as w:
            w.setparams((3 - width or 1, width, 8000, 0, "NONE", ""))
            w.writeframes(bytes(range(60)))
        write(root / "sound", "width%d.wav" % width, f.getvalue())
    for tag, bits in ((6, 8), (7, 8), (3, 32), (2, 4), (17, 4)):     # a-law, mu-law, float, two kinds of ADPCM
        write(root / "sound", "tag%d.wav" % tag, wav(tag, bits, bytes(range(64)) * 4))


def language_model(path, kind, arch):
    """A GGUF file of a model of one layer, small enough to be changed anywhere."""
    tokenizer = "llama" if arch == "llama" else "gpt2"
    tokens = ["<unk>", "<s>", "</s>", "\u2581", "\u0120", "a", "b", "ab", "\u2581a", "<0xC3>", "<0xA9>", "1"]
    about = {"general.architecture": arch, f"{arch}.block_count": 1, f"{arch}.embedding_length": 32, f"{arch}.feed_forward_length": 32, f"{arch}.attention.head_count": 2,
             f"{arch}.attention.head_count_kv": 2 if arch == "gpt2" else 1, f"{arch}.context_length": 64, "tokenizer.ggml.model": tokenizer, "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": tokens,
             "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.scores": [-float(i) for i in range(12)], "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1, 1, 6, 6, 1]}
    sizes = {"token_embd.weight": (12, 32), "output_norm.weight": (32,)}
    sizes.update({f"blk.0.{name}.weight": size for name, size in {
        "attn_norm": (32,), "attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32), "ffn_norm": (32,), "ffn_gate": (32, 32), "ffn_up": (32, 32),
        "ffn_down": (32, 32)}.items()})
    if arch == "qwen2":
        sizes.update({"blk.0.attn_q.bias": (32,), "rope_freqs.weight": (8,)})
    if arch == "gpt2":
        sizes = {"token_embd.weight": (12, 32), "position_embd.weight": (64, 32)}
        for name, *size in (("output_norm", 32), ("blk.0.attn_norm", 32), ("blk.0.attn_qkv", 96, 32), ("blk.0.attn_output", 32, 32), ("blk.0.ffn_norm", 32), ("blk.0.ffn_up", 32, 32),
                            ("blk.0.ffn_down", 32, 32)):
            sizes.update({name + ".weight": tuple(size), name + ".bias": (size[0],)})
    tensors = {name: torch.ones(size) * 0.1 for name, size in sizes.items()}
    io_gguf.save_gguf(tensors, path, about, {name: kind for name, size in sizes.items() if len(size) == 2})
    data = path.read_bytes()
    path.unlink()
    return data


def archives(path):
    """Small programs with what stands around them: pictures or texts before, labels behind."""
    class Pixels(torch.nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    class Tokens(torch.nn.Module):
        def forward(self, x):
            return x.float()[:, :3]
    n = torch.export.Dim("n", min=1, max=8)
    for name, model, example, declared in (
            ("picture", Pixels(), torch.rand(2, 3, 4, 4), '{"picture": {"resize": 5, "mean": [0.5, 0.5, 0.5], "std": [1, 2, 3]}, "softmax": true, "top": 2, "labels": "labels.txt"}'),
            ("text", Tokens(), torch.zeros(2, 4, dtype=torch.int64), '{"text": {"merges": "merges.txt", "length": 4, "padding": 1}, "top": 1, "labels": "labels.txt"}')):
        torch.export.save(torch.export.export(model, (example,), dynamic_shapes=({0: n},)), path)
        with zipfile.ZipFile(path, "a") as archive:
            folder = archive.namelist()[0].split("/")[0] + "/extra/"
            for entry, text in (("rushlight.json", declared), ("labels.txt", "a\nbc\n\n"), ("merges.txt", "t h\nth e\n")):
                archive.writestr(folder + entry, text)
        yield "archive_" + name, path.read_bytes()
    path.unlink()


def wav(tag, bits, data):
    """A RIFF file of one channel with a coding of this number."""
    block, extra = (256, b"") if bits == 4 else (bits // 8, b"")
    if tag == 17:
        extra = struct.pack("<HH", 2, 505)
    elif tag == 2:
        pairs = [(256, 0), (512, -256), (0, 0), (192, 64), (240, 0), (460, -208), (392, -232)]
        extra = struct.pack("<HHH", 32, 500, 7) + b"".join(struct.pack("<hh", *p) for p in pairs)
    form = struct.pack("<HHIIHH", tag, 1, 8000, 8000 * bits // 8, block, bits) + extra
    body = b"WAVE" + b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def picture(width, height, colour, pixel, depth=8):
    """A PNG of zeros, of so many bytes a pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(width * pixel)) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
