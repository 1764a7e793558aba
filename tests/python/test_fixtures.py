"""Files that PyTorch, safetensors, NumPy and Pillow wrote: tests/data/files/make.py says what is in them."""
import pathlib
import zlib

import pytest
import rushlight as torch

FILES = pathlib.Path(__file__).resolve().parent.parent / "data" / "files"
DTYPES = ("bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
          "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz").split()
ROW = torch.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("options", [{}, {"mmap": True}, {"weights_only": False}])
def test_every_dtype(options):
    got = torch.load(FILES / "dtypes.pt", **options)
    assert list(got) == list(DTYPES)
    for name, t in got.items():
        want = torch.arange(6).to(getattr(torch, name))
        assert t.dtype == want.dtype and t.shape == (6,)
        assert torch.equal(t.view(torch.uint8), want.view(torch.uint8)) if not name.startswith("complex") else torch.equal(t, want)


def test_views_share_memory():
    got = torch.load(FILES / "views.pt")
    assert torch.equal(got["whole"], ROW) and torch.equal(got["turned"], ROW.t()) and got["turned"].stride() == (1, 4)
    got["whole"][1, 2] = 99
    assert got["row"][2] == 99 and got["step"][1, 1] == 99
    assert got["expanded"].stride() == (0, 0) and got["empty"].shape == (0, 3) and got["scalar"].item() == 7


def test_training_state():
    got = torch.load(FILES / "training.pt")
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    net.load_state_dict(got["net"])
    adam = torch.optim.Adam(net.parameters())
    adam.load_state_dict(got["adam"])
    assert adam.param_groups[0]["lr"] == 0.5 and adam.state[net[0].weight]["step"].item() == 1
    assert isinstance(got["parameter"], torch.nn.Parameter) and torch.equal(got["parameter"], net[0].bias)
    assert got["net"]._metadata["1"] == {"version": 2}


@pytest.mark.parametrize("weights_only", [True, False])
def test_the_old_format(weights_only):
    got = torch.load(FILES / "old.legacy", weights_only=weights_only)
    assert torch.equal(got["whole"], ROW) and got["row"].untyped_storage().data_ptr() == got["whole"].untyped_storage().data_ptr()
    assert torch.equal(got["net"]["0.weight"], torch.load(FILES / "training.pt")["net"]["0.weight"])


def test_values():
    got = torch.load(FILES / "values.pt")
    assert got == {"list": [1, -2.5, None, True, "text", b"\x00\xff"], "tuple": (1, (2, 3)), "set": {1, 2}, "big": 10 ** 30, "negative": -(2 ** 40),
                   "complex": 1 + 2j, "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"), 5: {6: [7]}}


def test_sparse():
    assert torch.load(FILES / "sparse.pt").to_dense().tolist() == [[0, 3, 0], [0, 0, 4]]


def test_weights_of_a_script():
    got = torch.serialization.script_state(FILES / "script.pt")
    for name, t in torch.load(FILES / "training.pt")["net"].items():
        assert torch.equal(got[name], t), name
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(FILES / "script.pt")


def test_pictures():
    from rushlight import vision
    from rushlight.vision.functional import rgb_to_grayscale
    colours = torch.tensor([[[x * 13 % 256, y * 17 % 256, x * y % 256] for x in range(19)] for y in range(13)]).permute(2, 0, 1)
    grey = rgb_to_grayscale(colours.to(torch.uint8))
    for name, near in (("progressive", 25), ("restarts", 60), ("printed", 60)):
        got = vision.read_image(FILES / (name + ".jpg"), "RGB")
        assert got.shape == (3, 13, 19) and (got.int() - colours).abs().float().mean() < near
    assert vision.read_image(FILES / "printed.jpg").shape == (4, 13, 19)
    assert (vision.read_image(FILES / "grey.jpg").int() - grey).abs().max() < 24
    assert vision.read_image(FILES / "turned.jpg", apply_exif_orientation=True).shape == (3, 19, 13)
    for mode, channels in (("UNCHANGED", 1), ("GRAY", 1), ("RGB", 3), ("RGB_ALPHA", 4)):
        page = vision.read_image(FILES / "blank.png", mode)
        assert page.shape == (channels, 1754, 1240) and page.min() == page.max() == 255


def test_pictures_that_lie():
    from rushlight import vision
    whole = (FILES / "progressive.jpg").read_bytes()
    at = whole.index(b"\xff\xc2") + 5
    with pytest.raises(RuntimeError, match="no picture of 65500 by 65500"):
        vision.decode_jpeg(whole[:at] + b"\xff\xdc\xff\xdc" + whole[at + 4:])
    scan = whole.rindex(b"\xff\xda")
    with pytest.raises(RuntimeError, match="more than 100 scans"):
        vision.decode_jpeg(whole[:scan] + whole[scan:-2] * 120 + whole[-2:])
    page = (FILES / "blank.png").read_bytes()
    with pytest.raises(RuntimeError, match="ends too early"):
        header = b"IHDR" + b"\0\1\0\0" * 2 + page[24:29]
        vision.decode_png(page[:12] + header + zlib.crc32(header).to_bytes(4, "big") + page[33:])
