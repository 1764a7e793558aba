"""GGUF files: what the gguf package wrote is read bit for bit and written byte for byte; what is damaged is an error."""
import pathlib
import struct
import subprocess

import numpy as np
import places
import pytest
import rushlight as torch
from rushlight import io

FILES = pathlib.Path(__file__).resolve().parent.parent / "data" / "gguf"
METADATA = {"general.architecture": "llama", "llama.block_count": 2, "some.negative": -3, "llama.rope.freq_base": 10000.0, "tokenizer.ggml.add_bos_token": True,
            "general.name": "h\xe9", "tokenizer.ggml.tokens": ["<s>", "a", "\u2581b"], "tokenizer.ggml.token_type": [3, 1, 1],
            "tokenizer.ggml.scores": [0.0, -1.5, -2.0], "some.large": 1 << 40}


def numbers():
    return torch.from_numpy(((np.arange(192, dtype=np.float32) * 37 % 101 - 50) / 7).reshape(3, 64))


def test_blocks_are_opened_bit_for_bit():
    got, want = io.load_gguf(FILES / "blocks.gguf"), np.load(FILES / "blocks.npz")
    assert sorted(got) == sorted(want.files) and len(got) == 10
    for name, t in got.items():
        assert t.shape == (2, 256) and t.numpy().tobytes() == want[name].tobytes(), name


def test_files_are_written_byte_for_byte(tmp_path):
    x = numbers()
    kinds = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
    io.save_gguf({**dict.fromkeys(kinds, x), "ids": torch.arange(5, dtype=torch.int32)}, tmp_path / "a.gguf", METADATA, {k: k for k in kinds})
    assert (tmp_path / "a.gguf").read_bytes() == (FILES / "written.gguf").read_bytes()


def test_metadata_comes_back():
    got = io.gguf_metadata(FILES / "written.gguf")
    assert list(got) == list(METADATA)
    for name, want in METADATA.items():
        value = got[name].tolist() if torch.is_tensor(got[name]) else got[name]
        assert value == want and type(value) is type(want), name
    assert got["tokenizer.ggml.token_type"].dtype == torch.int32 and got["tokenizer.ggml.scores"].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64, torch.int64, torch.float32, torch.float64, torch.bool])
def test_every_kind_of_number(tmp_path, dtype):
    many, one = torch.tensor([1, 0, 1]).to(dtype), torch.tensor(1).to(dtype)
    io.save_gguf({}, tmp_path / "a.gguf", {"many": many, "one": one, "nested": [[1, 2], []], "texts": [["a"]]})
    got = io.gguf_metadata(tmp_path / "a.gguf")
    assert got["many"].dtype == dtype and got["many"].tolist() == many.tolist() and got["one"] == one.item() and type(got["one"]) is type(one.item())
    assert [t.tolist() for t in got["nested"]] == [[1, 2], []] and got["texts"] == [["a"]]
    kind = struct.unpack_from("<I", (tmp_path / "a.gguf").read_bytes(), 24 + 8 + 4 + 4 + 4 + 8 + 3 * one.element_size() + 8 + 3)[0]
    assert kind == ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "", "", "uint64", "int64", "float64"].index(str(dtype)[6:])


def test_numbers_beyond_int64_and_texts_that_are_no_utf8(tmp_path):
    io.save_gguf({}, tmp_path / "a.gguf", {"big": torch.tensor(2**64 - 1, dtype=torch.uint64), "bytes": "\udcff\0a"})
    assert io.gguf_metadata(tmp_path / "a.gguf") == {"big": 2**64 - 1, "bytes": "\udcff\0a"}


def test_tensors_of_every_dtype_and_rank(tmp_path):
    kept = {str(d): torch.arange(6).reshape(1, 2, 1, 3).to(d) for d in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64)}
    kept.update(scalar=torch.tensor(2.5), empty=torch.empty(0, 3), row=torch.arange(7.0))
    io.save_gguf(kept, tmp_path / "a.gguf", {"general.alignment": 128})
    got = io.load_gguf(tmp_path / "a.gguf")
    assert list(got) == list(kept)
    for name, t in kept.items():
        assert got[name].dtype == t.dtype and got[name].shape == t.shape and torch.equal(got[name], t), name
    got["row"][0] = 9  # of a private mapping: the file stays
    assert io.load_gguf(tmp_path / "a.gguf")["row"][0] == 0


def test_rounding_of_blocks(tmp_path):
    torch.manual_seed(3)
    x = torch.randn(40, 96) * torch.randn(40, 1).exp()
    x[3], x[4, :32], x[5, 7] = 0, 1e-30, -1000
    for kind, levels in (("Q8_0", 127), ("Q4_0", 8)):
        io.save_gguf({"x": x}, tmp_path / "a.gguf", None, {"x": kind})
        got = io.load_gguf(tmp_path / "a.gguf")["x"]
        most = x.reshape(40, 3, 32).abs().amax(-1, keepdim=True)
        assert ((got - x).reshape(40, 3, 32).abs() <= most / levels * 1.01 + 1e-6).all() and (got[3] == 0).all()


@pytest.mark.parametrize("kind, most", [("Q2_K", 0.29), ("Q3_K", 0.15), ("Q4_K", 0.075), ("Q5_K", 0.038), ("Q6_K", 0.0185), ("Q8_K", 0.008)])
def test_blocks_of_256_are_near(tmp_path, kind, most):
    """Error of normal numbers, beside their size: Q4_K's is that of Q4_1 with half the bytes for scales."""
    torch.manual_seed(4)
    x = torch.randn(40, 512) * torch.randn(40, 1).exp()
    x[0], x[1], x[2], x[3], x[4] = 0, 0.5, -0.5, 1e-30, torch.arange(512) - 255.5
    x[5, 7] = 1000
    io.save_gguf({"x": x}, tmp_path / "a.gguf", None, {"x": kind})
    got = io.load_gguf(tmp_path / "a.gguf")["x"]
    off = (got - x).norm(dim=1) / x.norm(dim=1)
    assert (off[6:] < most * 1.3).all() and off[6:].mean() < most
    assert (got[0] == 0).all() and (off[1:3] < 0.005).all() and got[3].abs().max() < 1e-6 and off[4] < most * 1.5 and off[5] < 0.06


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"])
def test_blocks_of_what_is_no_number(tmp_path, kind):
    x = torch.randn(3, 256)
    x[0, 5], x[1, 200], x[2] = float("nan"), float("inf"), float("-inf")
    io.save_gguf({"x": x}, tmp_path / "a.gguf", None, {"x": kind})
    assert io.load_gguf(tmp_path / "a.gguf")["x"].shape == x.shape


def refused(path, data, *words):
    path.write_bytes(data)
    with pytest.raises((ValueError, NotImplementedError, RuntimeError)) as e:
        io.load_gguf(path)
    assert all(w in str(e.value) for w in words), e.value


def test_cut_at_every_length(tmp_path):
    whole = (FILES / "written.gguf").read_bytes()
    end = len(whole) - 12  # of the last tensor: what follows is padding
    for n in range(end):
        refused(tmp_path / "cut.gguf", whole[:n])
    (tmp_path / "cut.gguf").write_bytes(whole[:end])
    assert len(io.load_gguf(tmp_path / "cut.gguf")) == 9


def text(s):
    return struct.pack("<Q", len(s)) + s


def file_of(values=b"", nvalues=0, tensors=b"", ntensors=0, data=b"", version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, ntensors, nvalues) + values + tensors
    return head + bytes(-len(head) % 32) + data


def tensor(name, sizes, kind, place):
    return text(name) + struct.pack("<I%dQIQ" % len(sizes), len(sizes), *sizes, kind, place)


def test_hostile_files(tmp_path):
    p, huge = tmp_path / "a.gguf", 2**63
    refused(p, b"", "no GGUF file")
    refused(p, b"GGML" + bytes(60), "no GGUF file")
    refused(p, file_of(version=1), "version 1")
    refused(p, file_of(version=0x03000000), "byte order")
    refused(p, file_of(nvalues=huge), "metadata")
    refused(p, file_of(ntensors=huge), "tensors")
    refused(p, file_of(text(b"a") + struct.pack("<I", 13) + bytes(16), 1), "kind of value")
    refused(p, file_of(struct.pack("<Q", huge) + bytes(40), 1), "name of a value")
    refused(p, file_of(text(b"a\0b") + struct.pack("<IB", 0, 1), 1), "name of a value")
    refused(p, file_of(text(b"a") + struct.pack("<IIQ", 9, 4, huge) + bytes(40), 1), "list of numbers")
    refused(p, file_of(text(b"a") + struct.pack("<IIQ", 9, 8, huge) + bytes(40), 1))
    refused(p, file_of((text(b"a") + struct.pack("<IB", 0, 1)) * 2 + bytes(20), 2), "twice")
    deep = text(b"a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 40 + struct.pack("<IQ", 0, 0)
    refused(p, file_of(deep, 1), "deeper")
    for alignment in (0, 3, 2**31):
        refused(p, file_of(text(b"general.alignment") + struct.pack("<II", 4, alignment), 1), "power of two")
    f32 = bytes(64)
    refused(p, file_of(tensors=tensor(b"t", [4] * 5, 0, 0), ntensors=1, data=f32), "5 dimensions")
    refused(p, file_of(tensors=tensor(b"t", [17], 0, 0), ntensors=1, data=f32), "outside")
    refused(p, file_of(tensors=tensor(b"t", [4], 0, huge), ntensors=1, data=f32), "outside")
    refused(p, file_of(tensors=tensor(b"t", [4], 0, 2**64 - 32), ntensors=1, data=f32), "outside")
    refused(p, file_of(tensors=tensor(b"t", [4], 0, 8), ntensors=1, data=f32), "multiple")
    refused(p, file_of(tensors=tensor(b"t", [2**32, 2**32], 0, 0), ntensors=1, data=f32))
    refused(p, file_of(tensors=tensor(b"t", [2**61], 0, 0), ntensors=1, data=f32))
    refused(p, file_of(tensors=tensor(b"t", [2**64 - 1], 0, 0), ntensors=1, data=f32), "size")
    refused(p, file_of(tensors=tensor(b"t", [33], 2, 0), ntensors=1, data=f32), "whole blocks")
    refused(p, file_of(tensors=tensor(b"t", [4], 16, 0), ntensors=1, data=f32), "type 16")
    refused(p, file_of(tensors=tensor(b"t", [4], 2**31, 0), ntensors=1, data=f32), "type")
    refused(p, file_of(tensors=tensor(b"t", [4], 0, 0) + tensor(b"u", [4], 0, 0), ntensors=2, data=f32), "overlap")
    refused(p, file_of(tensors=tensor(b"t", [8], 0, 0) + tensor(b"t", [8], 0, 32), ntensors=2, data=f32), "twice")
    p.write_bytes(file_of(tensors=tensor(b"u", [8], 0, 32) + tensor(b"t", [8], 0, 0), ntensors=2, data=f32, version=2))
    assert list(io.load_gguf(p)) == ["u", "t"]


def test_what_cannot_be_written(tmp_path):
    p, x = tmp_path / "a.gguf", torch.zeros(2, 33)
    for tensors, metadata, types, kind, words in [
            ({"x": x}, None, {"x": "Q4_0"}, ValueError, "whole blocks"), ({"x": x}, None, {"x": "Q4_K"}, ValueError, "whole blocks of 256"),
            ({"x": x}, None, {"x": "Q9"}, TypeError, "hold no Q9"), ({"x": x}, None, {"y": "F16"}, KeyError, "y"), ({"x": x > 0}, None, None, TypeError, "bool"),
            ({"x": torch.zeros(1, 1, 1, 1, 1)}, None, None, ValueError, "5 dimensions"), ({}, {"a": None}, None, TypeError, "NoneType"), ({}, {"a": [1, "b"]}, None, TypeError, "one kind"),
            ({}, {1: 2}, None, TypeError, "int"), ({}, {"a": torch.zeros(2, 2)}, None, ValueError, "one dimension"), ({}, {"general.alignment": 3}, None, ValueError, "alignment")]:
        with pytest.raises(kind, match=words):
            io.save_gguf(tensors, p, metadata, types)
    assert not p.exists()


@pytest.fixture
def command():
    return places.command()


def test_inspect_and_convert(command, tmp_path):
    told = subprocess.run([command, "inspect", FILES / "written.gguf"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[0] == "GGUF version 3, 10 values, 9 tensors of 1541 numbers in 2264 bytes"
    assert 'general.architecture = "llama"' in told and 'tokenizer.ggml.tokens = 3 items: "<s>", "a", "\u2581b"' in told and "Q4_0  Q4_0 [3, 64]" in told
    subprocess.run([command, "convert", FILES / "blocks.gguf", tmp_path / "b.safetensors"], check=True)
    got = io.load_safetensors(tmp_path / "b.safetensors")
    assert all(torch.equal(got[k], t) for k, t in io.load_gguf(FILES / "blocks.gguf").items()) and len(got) == 10
    subprocess.run([command, "convert", FILES / "blocks.gguf", tmp_path / "b.gguf", "Q8_0"], check=True)
    assert "Q8_0  Q4_K [2, 256]" in subprocess.run([command, "inspect", tmp_path / "b.gguf"], capture_output=True, text=True, check=True).stdout
    assert all((io.load_gguf(tmp_path / "b.gguf")[k] - t).abs().max() < t.abs().max() / 127 for k, t in got.items())
    assert subprocess.run([command, "convert", FILES / "blocks.gguf", tmp_path / "b.gguf", "Q9"], capture_output=True).returncode == 1
    (tmp_path / "bad.gguf").write_bytes(b"GGUF")
    for args in (["inspect", tmp_path / "bad.gguf"], ["convert", tmp_path / "bad.gguf", tmp_path / "b.safetensors"]):
        done = subprocess.run([command, *args], capture_output=True, text=True)
        assert done.returncode == 1 and "no GGUF file" in done.stderr
