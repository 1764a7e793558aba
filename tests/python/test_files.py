"""torch.save and torch.load, and the restricted unpickler."""
import io
import os
import pickle

import pytest
import rushlight as torch


def roundtrip(value, **options):
    f = io.BytesIO()
    torch.save(value, f)
    f.seek(0)
    return torch.load(f, **options)


def test_state_and_shared_storage(tmp_path):
    a = torch.randn(3, 4)
    path = tmp_path / "x.pt"
    torch.save({"a": a, "b": a[1:], "n": [1, None, 2.5, "t", 10 ** 20]}, path)
    for options in ({}, {"mmap": True}, {"weights_only": False}):
        got = torch.load(path, **options)
        assert torch.equal(got["a"], a) and got["n"] == [1, None, 2.5, "t", 10 ** 20]
        assert got["a"].untyped_storage().data_ptr() == got["b"].untyped_storage().data_ptr()
    assert os.listdir(tmp_path) == ["x.pt"]


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "bfloat16", "float64", "complex64", "bool", "uint16"])
def test_dtypes(dtype):
    t = torch.tensor([0, 1, 1]).to(getattr(torch, dtype))
    got = roundtrip(t)
    assert got.dtype == t.dtype and got.tolist() == t.tolist()


def test_code_is_refused():
    with pytest.raises(pickle.UnpicklingError, match="posix"):
        roundtrip(os.system)
    with pytest.raises(pickle.UnpicklingError, match="Linear"):
        roundtrip(torch.nn.Linear(1, 1))
    assert isinstance(roundtrip(torch.nn.Linear(1, 1), weights_only=False), torch.nn.Linear)


def test_damage_is_noticed(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.zeros(100), path)
    data = bytearray(path.read_bytes())
    with pytest.raises(RuntimeError):
        torch.load(io.BytesIO(bytes(data[:200])))
    data[data.index(bytes(300)) + 40] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        torch.load(io.BytesIO(bytes(data)))


def test_map_location_and_legacy():
    f = io.BytesIO()
    torch.save({"w": torch.ones(3)}, f, _use_new_zipfile_serialization=False)
    f.seek(0)
    assert torch.load(f)["w"].tolist() == [1, 1, 1]
    assert roundtrip(torch.ones(2), map_location="meta").device.type == "meta"
    assert roundtrip(torch.ones(2), map_location=lambda storage, location: storage).tolist() == [1, 1]
