"""Looking: summary, HTML, grids, graphs, progress, pictures, sound, event files."""
import io
import re
import struct

import pytest
import rushlight as torch
from rushlight import nn, vision
from rushlight.utils.dot import backward_dot
from rushlight.utils.progress import progress
from rushlight.utils.tensorboard import SummaryWriter


def test_summary():
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))
    found = torch.summary(net, input_size=(2, 1, 28, 28))
    assert found.total_params == 80 + 54090 and found.trainable_params == found.total_params
    assert found.total_mult_adds == 80 * 2 * 26 * 26 + 54090 * 2     # what torchinfo counts
    assert "[2, 8, 26, 26]" in str(found) and "Conv2d" in str(found) and net.training
    tied = nn.Linear(4, 4)
    assert torch.summary(nn.Sequential(tied, tied), torch.ones(1, 4)).total_params == 20
    rnn = nn.LSTM(3, 5)
    assert "LSTM" in str(torch.summary(rnn, torch.ones(7, 2, 3)))


def test_html_is_small_and_escaped():
    page = torch.randn(50, 60)._repr_html_()
    assert len(page) < 20000 and "float32 [50, 60]" in page
    assert "NaN" in torch.tensor([1.0, float("nan")])._repr_html_()
    for t in (torch.ones(()), torch.empty(0), torch.ones(3, dtype=torch.bool), torch.ones(2, dtype=torch.complex64)):
        assert t._repr_html_().count("<div") == t._repr_html_().count("</div>")

    class Odd(nn.Module):
        def extra_repr(self):
            return "<script>"
    page = nn.Sequential(Odd(), nn.Linear(2, 2))._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert len(nn.Sequential(*[nn.Linear(2, 2) for _ in range(500)])._repr_html_()) < 20000


def test_grid_and_files(tmp_path):
    assert vision.make_grid(torch.ones(5, 3, 4, 6), nrow=3).shape == (3, 14, 26)
    assert vision.make_grid(torch.rand(2, 1, 4, 4), normalize=True).shape == (3, 8, 14)
    picture = (torch.rand(3, 8, 9) * 255).to(torch.uint8)
    vision.write_png(picture, tmp_path / "a.png")
    assert vision.read_image(tmp_path / "a.png").equal(picture)
    vision.save_image(torch.rand(4, 3, 8, 8), tmp_path / "b.jpg")
    assert vision.read_image(tmp_path / "b.jpg", "GRAY").shape == (1, 12, 42)
    with pytest.raises(RuntimeError, match="ends too early"):
        vision.decode_png((tmp_path / "a.png").read_bytes()[:60])


def test_functional():
    from rushlight.vision import functional as F
    x = torch.rand(3, 20, 30)
    assert F.resize(x, 10).shape == (3, 10, 15) and F.resize(x, 10, max_size=12).shape == (3, 8, 12)
    assert F.center_crop(x, 8).equal(x[:, 6:14, 11:19]) and F.horizontal_flip(x)[0, 0, 0] == x[0, 0, -1]
    assert F.adjust_brightness(x, 0).sum() == 0 and F.rgb_to_grayscale(x).shape == (1, 20, 30)
    torch.testing.assert_close(F.adjust_hue(F.adjust_hue(x, 0.5), 0.5), x, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(F.rotate(x, 360.0, "bilinear"), x, atol=1e-4, rtol=1e-4)
    assert F.to_dtype(torch.full((1,), 255, dtype=torch.uint8), scale=True) == 1
    assert F.pad(x, [1, 2], padding_mode="reflect").shape == (3, 24, 32)
    y = x.clone().requires_grad_()
    F.normalize(F.adjust_contrast(F.resize(y, [8, 8]), 0.5), [.5] * 3, [.2] * 3).sum().backward()
    assert y.grad.abs().sum() > 0


def test_sound(tmp_path):
    from rushlight import audio
    wave = torch.sin(torch.arange(8000) / 10)[None] * 0.5
    try:
        audio.save(tmp_path / "a.wav", wave, 8000)
    except NotImplementedError as error:    # as in wheels, which would carry a dozen libraries for it
        pytest.skip(str(error))
    back, rate = audio.load(tmp_path / "a.wav")
    assert rate == 8000 and torch.equal(back, wave)
    assert audio.mel_spectrogram(wave, 8000, n_mels=32).shape == (1, 32, 41)
    assert audio.mfcc(wave, 8000, n_mfcc=13, n_mels=32).shape == (1, 13, 41)


def test_backward_dot(tmp_path):
    w = torch.randn(3, 3, requires_grad=True)
    text = backward_dot((w @ w).relu().sum(), tmp_path / "g.dot")
    assert "ReluBackward0" in text and text.count("leaf [3, 3]") == 1 and (tmp_path / "g.dot").read_text() == text
    with pytest.raises(RuntimeError, match="no graph"):
        backward_dot(torch.ones(2))


def test_progress_is_silent_off_terminals():
    class Terminal(io.StringIO):
        def isatty(self):
            return True
    quiet, loud = io.StringIO(), Terminal()
    assert list(progress(range(3), file=quiet)) == [0, 1, 2] and quiet.getvalue() == ""
    assert len(progress(range(3))) == 3
    list(progress(iter(range(3)), "x", file=loud))
    assert "3" in loud.getvalue() and loud.getvalue().endswith("\n")


def records(path):
    with open(path, "rb") as f:
        blob = f.read()
    while blob:
        n, = struct.unpack_from("<Q", blob)
        yield blob[12:12 + n]
        blob = blob[16 + n:]


def test_writer_takes_everything(tmp_path):
    net = nn.Linear(3, 2)
    with SummaryWriter(tmp_path) as w:
        w.add_scalar("a", torch.tensor(2.5), 3, walltime=1.5)
        w.add_scalar("b", 1, new_style=True, double_precision=True)
        w.add_scalars("c", {"x": 1, "y": 2}, 1)
        w.add_histogram("h", torch.randn(100))
        w.add_histogram("h10", torch.tensor([1, 2, 3]), bins=10, max_bins=4)
        w.add_histogram_raw("raw", 0, 1, 2, 1, 1, [0.5, 1], [1, 1])
        w.add_image("i", torch.rand(3, 4, 5))
        w.add_image("g", torch.rand(4, 5), dataformats="HW")
        w.add_images("n", torch.rand(3, 1, 4, 5))
        w.add_image_with_boxes("box", torch.rand(3, 9, 9), torch.tensor([[1, 1, 5, 5]]))
        w.add_text("t", "words")
        w.add_audio("s", torch.rand(1, 100), sample_rate=8000)
        w.add_tensor("x", torch.ones(2, 3))
        w.add_pr_curve("p", torch.tensor([0, 1]), torch.tensor([.2, .8]))
        w.add_mesh("m", torch.rand(1, 4, 3), colors=torch.ones(1, 4, 3), faces=torch.tensor([[[0, 1, 2]]]))
        w.add_graph(net, torch.ones(1, 3))
        w.add_backward_graph(net(torch.ones(1, 3)).sum())
        w.add_hparams({"lr": 0.1, "how": "adam", "on": True}, {"acc": 1.0})
        w.add_embedding(torch.rand(4, 3), metadata=list("abcd"), label_img=torch.rand(4, 3, 5, 5))
        w.add_custom_scalars({"all": {"both": ["Multiline", ["a", "b"]]}})
    path, = [p for p in tmp_path.iterdir() if p.name.startswith("events")]
    events = list(records(path))
    assert b"brain.Event:2" in events[0] and struct.unpack("<d", events[1][1:9])[0] == 1.5
    assert len(events) == 20 and re.search(rb"a\x15\x00\x00 @", events[1])


# Each with the class of error that PyTorch's writer raises: programs catch NotImplementedError to find out what is a number.
REFUSED = [
    ("add_scalar", [[0.5]], NotImplementedError), ("add_scalar", [None], NotImplementedError), ("add_scalar", [torch.zeros(2)], AssertionError),
    ("add_scalar", [1j], TypeError), ("add_scalar", ["a"], ValueError), ("add_scalars", [{"a": [0.5]}], NotImplementedError),
    ("add_histogram", [[1, 2]], NotImplementedError), ("add_histogram", [torch.zeros(0)], ValueError),
    ("add_image", [torch.zeros(4, 5)], AssertionError), ("add_image", [[[0.5]]], NotImplementedError), ("add_images", [torch.zeros(3, 4, 5)], AssertionError),
    ("add_audio", [torch.zeros(2, 100)], AssertionError), ("add_text", [[1]], TypeError), ("add_pr_curve", [[1, 0], [0.5, 0.5]], NotImplementedError),
    ("add_mesh", [torch.zeros(4, 3)], ValueError), ("add_hparams", [{"a": [1]}, {}], ValueError), ("add_hparams", [[1], {}], TypeError),
    ("add_hparams", [{"a": 1}, {}, {"b": [1]}], TypeError), ("add_hparams", [{"a": 1}, {}, {"a": ["x"]}], TypeError),
]


@pytest.mark.parametrize("method, args, error", REFUSED)
def test_writer_refuses(tmp_path, method, args, error):
    tag = [] if method == "add_hparams" else ["x"]
    with SummaryWriter(tmp_path) as w, pytest.raises(error):
        getattr(w, method)(*tag, *args)


def test_writer_refuses_embeddings(tmp_path):
    points = torch.rand(4, 3)
    with SummaryWriter(tmp_path) as w:
        for args, more in ((torch.rand(4), {}), (points, {"metadata": [1]}), (points, {"metadata": [(1, 2)] * 4, "metadata_header": ["a"]}), (points, {"label_img": torch.rand(4, 3, 4)})):
            with pytest.raises(AssertionError):
                w.add_embedding(args, **more)
        with pytest.raises(NotImplementedError):
            w.add_embedding([[1.0, 2.0]])


def test_writer_takes_hyperparameters(tmp_path):
    with SummaryWriter(tmp_path) as w:
        w.add_hparams({"a": None, "b": torch.tensor([2.0]), "c": "x", "d": True}, {"m": 1}, {"c": ["x", "y"]}, run_name="r")
    written = b"".join(f.read_bytes() for f in (tmp_path / "r").iterdir())
    assert struct.pack("<d", 2.0) in written and b"\x0a\x01a" not in written
