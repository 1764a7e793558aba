"""torch.save and torch.load, and the restricted unpickler."""
import io
import os
import pickle
import struct
import tarfile
import zipfile

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


# --- what is written ----------------------------------------------------------------------------------------------------


def test_only_what_is_used_is_written(tmp_path):
    big = torch.zeros(1000, 1000)
    torch.save([big[5], big[5, 2:4]], tmp_path / "view.pt")
    assert (tmp_path / "view.pt").stat().st_size < 8000
    row, part = torch.load(tmp_path / "view.pt")
    assert row.shape == (1000,) and part.data_ptr() == row.data_ptr() + 8
    torch.save([big[5], big._typed_storage()], tmp_path / "whole.pt")
    assert (tmp_path / "whole.pt").stat().st_size > 4000000
    assert torch.load(tmp_path / "whole.pt")[1].nbytes() == 4000000


def test_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    torch.save([1], path)
    with pytest.raises(Exception):
        torch.save([torch.ones(3), lambda: 0], path)
    with pytest.raises(RuntimeError, match="Parent directory"):
        torch.save([1], tmp_path / "none" / "x.pt")
    path.chmod(0o640)
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    torch.save([2], link)
    assert torch.load(path) == [2] and link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.pt", "x.pt"]
    with pytest.raises(OSError, match="/dev/full"):
        torch.save(torch.ones(3), "/dev/full")


def test_file_objects(tmp_path):
    with open(tmp_path / "two", "w+b") as f:
        f.write(b"head")
        torch.save(torch.ones(3), f)
        f.seek(4)
        assert torch.load(f).tolist() == [1, 1, 1]

    class Slow:
        """A file that takes a few bytes at a time."""
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data[:1000])
            return len(data[:1000])
    slow = Slow()
    torch.save({"a": torch.arange(5000)}, slow)
    assert torch.load(io.BytesIO(slow.data))["a"][4999] == 4999


# --- damaged and hostile files ------------------------------------------------------------------------------------------

ERRORS = (RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, NotImplementedError)


def saved(value, **options):
    f = io.BytesIO()
    torch.save(value, f, **options)
    return f.getvalue()


@pytest.mark.parametrize("old", [False, True])
def test_truncation_and_changed_bytes(old):
    value = {"a": torch.arange(40.0), "n": [1, "text"]}
    data = saved(value, _use_new_zipfile_serialization=not old)
    for cut in range(0, len(data), 3):
        with pytest.raises(ERRORS + (TypeError, KeyError, AttributeError)):
            torch.load(io.BytesIO(data[:cut]))
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        try:
            got = torch.load(io.BytesIO(bytes(bad)))
        except Exception as error:
            assert not isinstance(error, (MemoryError, SystemError)), at
        else:
            assert old or (torch.equal(got["a"], value["a"]) and got["n"] == value["n"]), at


def archive_of(pickle_bytes, storages=(), method=zipfile.ZIP_STORED):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", method) as z:
        z.writestr("a/data.pkl", pickle_bytes)
        z.writestr("a/version", "3\n")
        for key, data in storages:
            z.writestr("a/data/" + key, data)
    f.seek(0)
    return f


def tensor_pickle(numel=b"K\x04", offset=b"K\x00", size=b"K\x04\x85", stride=b"K\x01\x85", kind=b"ctorch\nFloatStorage\n"):
    def word(text):
        return b"X" + struct.pack("<I", len(text)) + text
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + word(b"storage") + kind + word(b"0") + word(b"cpu") + numel + b"tQ" + offset +
            size + stride + b"\x89ccollections\nOrderedDict\n)RtR.")


def long_number(n):
    return b"\x8a\x08" + struct.pack("<q", n)


def test_tensors_outside_of_their_storage():
    good = [("0", bytes(16))]
    assert torch.load(archive_of(tensor_pickle(), good)).tolist() == [0, 0, 0, 0]
    for change in ({"offset": b"K\x01"}, {"size": b"K\x05\x85"}, {"stride": b"K\x02\x85"}, {"stride": long_number(2 ** 62) + b"\x85"},
                   {"size": long_number(2 ** 62) + b"\x85"}, {"offset": long_number(-1)}, {"stride": long_number(-1) + b"\x85"},
                   {"size": long_number(-1) + b"\x85"}, {"numel": b"K\x05"}, {"numel": b"K\x03"}, {"numel": long_number(2 ** 61)},
                   {"numel": long_number(-1)}, {"kind": b"ctorch\nfloat32\n"}):
        with pytest.raises(ERRORS + (TypeError,)):
            torch.load(archive_of(tensor_pickle(**change), good))


def test_bools_are_zero_or_one():
    got = torch.load(archive_of(tensor_pickle(kind=b"ctorch\nBoolStorage\n"), [("0", b"\x00\x01\x02\xff")]))
    assert got.view(torch.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("code", [
    b"cos\nsystem\nX\x02\0\0\0ls\x85R.", b"cbuiltins\neval\nX\x01\0\0\0" + b"1\x85R.", b"cbuiltins\n__import__\nX\x02\0\0\0os\x85R.",
    b"ctorch.serialization\nload\nX\x01\0\0\0x\x85R.", b"ctorch.hub\nload\n)R.", b"cposix\nsystem\n.", b"ctorch\nos.system\n.", b"ccollections\nnamedtuple\n.",
    b"(X\x02\0\0\0lsios\nsystem\n.", b"cos\nsystem\n(X\x02\0\0\0lso.", b"ctorch.nn.parameter\nParameter\n)\x81X\x01\0\0\0a}b.",
    b"]K\x01K\x02s.", b"]q\x00(K\x01K\x02u.", b"ctorch\nSize\n)RK\x01K\x02s.", b"}K\x01a.",  # items of what has none: CVE-2026-24747
])
def test_pickles_run_nothing(code):
    with pytest.raises(ERRORS + (TypeError, AttributeError)):
        torch.load(archive_of(b"\x80\x02" + code))


def test_pickles_that_grow():
    hostile = {
        "nested": b"N" + b"\x85" * 5000 + b".",
        "laughs": b"}N" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(64)) + b"Ns.",
        "copies": b"]q\x01(" + b"N" * 20000 + b"ec__builtin__\nset\nq\x02" + b"h\x02h\x01\x85R" * 5000 + b".",
        "long": b"X" + struct.pack("<I", 2 ** 31) + b"a.", "longer": b"\x8e" + struct.pack("<Q", 2 ** 62) + b"a.", "memo": b"Nr\xff\xff\xff\xffj\xff\xff\xff\xff0.",
    }
    for name, code in hostile.items():
        with pytest.raises(ERRORS):
            torch.load(archive_of(b"\x80\x02" + code))


def test_archives_that_lie(tmp_path):
    data = archive_of(tensor_pickle(), [("0", bytes(16))], zipfile.ZIP_DEFLATED).getvalue()
    assert torch.load(io.BytesIO(data)).tolist() == [0] * 4
    (tmp_path / "deflated.pt").write_bytes(data)
    with pytest.raises(RuntimeError, match="compressed"):
        torch.load(tmp_path / "deflated.pt", mmap=True)
    at = data.index(b"PK\x01\x02")
    for field, value in ((24, 0xfffffff0), (20, 0xfffffff0), (42, 0xfffffff0), (42, 10), (28, 0xffff), (10, 99), (8, 1)):
        bad = bytearray(data)
        bad[at + field:at + field + 2] = struct.pack("<I", value)[:2]
        if value > 0xffff:
            bad[at + field:at + field + 4] = struct.pack("<I", value)
        with pytest.raises(RuntimeError, match="PytorchStreamReader"):
            torch.load(io.BytesIO(bytes(bad)))
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w") as z:      # two entries of one name
        z.writestr("a/data.pkl", b"\x80\x02N.")
        with pytest.warns(UserWarning):
            z.writestr("a/data.pkl", b"\x80\x02N.")
        z.writestr("a/version", "3\n")
    with pytest.raises(RuntimeError, match="one name"):
        torch.load(io.BytesIO(f.getvalue()))
    bomb = archive_of(b"\x80\x02N.", [("0", bytes(50 << 20))], zipfile.ZIP_DEFLATED)
    assert torch.load(bomb) is None         # what nothing refers to is not unpacked
    with pytest.raises(RuntimeError, match="supported"):
        f = io.BytesIO()
        with zipfile.ZipFile(f, "w") as z:
            z.writestr("a/data.pkl", b"\x80\x02N.")
            z.writestr("a/version", "11\n")
        torch.load(io.BytesIO(f.getvalue()))


def test_quantized_tensors_stay_within_their_storage():
    def word(text):
        return b"X" + struct.pack("<I", len(text)) + text
    for stride in (b"K\x7f", long_number(2 ** 62)):
        code = (b"\x80\x02ctorch._utils\n_rebuild_qtensor\n((" + word(b"storage") + b"ctorch\nQUInt8Storage\n" + word(b"0") + word(b"cpu") +
                b"K\x04tQK\x00K\x04\x85" + stride + b"\x85ctorch\nper_tensor_affine\nG" + struct.pack(">d", 0.5) + b"K\x00\x87\x89ccollections\nOrderedDict\n)RtR.")
        with pytest.raises(ERRORS):
            torch.load(archive_of(code, [("0", bytes(4))]))


def test_code_in_a_tar_of_old_is_not_run():
    """CVE-2025-32434: the oldest format took another way past the allow-list."""
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in ("storages", "tensors", "pickle"):
            info = tarfile.TarInfo(name)
            info.size = len(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.")
            tar.addfile(info, io.BytesIO(b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R."))
    with pytest.raises(pickle.UnpicklingError, match="system"):
        torch.load(io.BytesIO(f.getvalue()))


def test_loads_from_what_reads_and_seeks():
    class Reads:
        def __init__(self):
            self.f = io.BytesIO()
            torch.save(torch.ones(2), self.f)
            self.f.seek(0)
            self.seek, self.tell, self.read = self.f.seek, self.f.tell, self.f.read

    class Refuses:
        seek = None

        def tell(self):
            raise NotImplementedError("tell is not there")

    assert torch.load(Reads()).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match="tell is not there"):
        torch.load(Refuses())
    with pytest.raises(AttributeError, match="has no attribute 'seek'. You can only torch.load from a file that is seekable"):
        torch.load(3)
