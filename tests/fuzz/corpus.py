#!/usr/bin/env python3
"""Make the seed files of the fuzz targets: tests/fuzz/corpus.py FOLDER

They come from rushlight itself (PYTHONPATH must find it), NumPy, and the files of tests/data/files, which PyTorch wrote.
"""
import io
import pathlib
import struct
import sys
import wave
import zipfile
import zlib

import numpy as np
import rushlight as torch

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
        for kind, suffix in (("checkpoint", ".pt"), ("legacy", ".legacy"), ("safetensors", ".safetensors"), ("npy", ".npy"), ("npz", ".npz")):
            if path.suffix == suffix:
                write(root / kind, path.name, path.read_bytes())
    for dtype in ("?", "u1", "<i4", ">f8", "<c8"):
        f = io.BytesIO()
        np.save(f, np.zeros((2, 3), dtype, order="F"))
        write(root / "npy", dtype.strip("<>?") + "_f", f.getvalue())
    for how in (np.savez, np.savez_compressed):
        f = io.BytesIO()
        how(f, a=np.arange(3), b=np.zeros((2, 2), ">i2"))
        write(root / "npz", how.__name__, f.getvalue())
        write(root / "zip", how.__name__, f.getvalue())
    header = b'{"__metadata__":{"by":"hand"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}}'
    header += b" " * (-len(header) % 8)
    write(root / "safetensors", "two", len(header).to_bytes(8, "little") + header + bytes(12))
    for colour, channels in ((0, 1), (2, 3), (6, 4)):
        write(root / "picture", "colour%d" % colour, picture(2, 2, colour, channels))
    f = io.BytesIO()
    with wave.open(f, "wb") as w:
        w.setparams((2, 2, 8000, 0, "NONE", ""))
        w.writeframes(bytes(64))
    write(root / "sound", "wav", f.getvalue())


def picture(width, height, colour, channels):
    """A PNG of zeros."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(width * channels)) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
