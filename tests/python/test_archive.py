"""`rushlight archive`: programs that begin with files or texts and end with labels, run by the command and by `rushlight serve`."""
import json
import pathlib
import struct
import subprocess
import zipfile

import pytest
import rushlight as torch
from rushlight import vision
from rushlight.vision import functional as F
from test_lm import run

NAMES = ["cat", "dog", "a bird of prey", "f\u00efsh"]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = torch.nn.Conv2d(3, 4, 5, stride=3), torch.nn.Linear(4, len(NAMES))

    def forward(self, x):
        return self.out(self.conv(x).relu().mean((2, 3)))


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = torch.nn.Embedding(300, 5), torch.nn.Linear(5, len(NAMES))

    def forward(self, tokens):
        return self.out(self.table(tokens).mean(1))


def export(model, example, path):
    torch.export.save(torch.export.export(model.eval(), (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=64)},)), path)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder, the model, two pictures as files and as the model wants them."""
    folder = tmp_path_factory.mktemp("archives")
    torch.manual_seed(1)
    net = Net()
    with torch.no_grad():
        net.out.weight.mul_(20)
    export(net, torch.rand(2, 3, 24, 24), folder / "net.pt2")
    (folder / "labels.txt").write_text("\n".join(NAMES) + "\n")
    pictures = [(torch.rand(3, 40, 60) * 255).to(torch.uint8), (torch.rand(3, 70, 33) * 255).to(torch.uint8)]
    (folder / "a.jpg").write_bytes(vision.encode_jpeg(pictures[0], 90).numpy().tobytes())
    (folder / "b.png").write_bytes(vision.encode_png(pictures[1]).numpy().tobytes())
    pictures[0] = torch.ops.image.decode_jpeg(torch.frombuffer(bytearray((folder / "a.jpg").read_bytes()), dtype=torch.uint8), 3)
    done = run(folder / "net.pt2", "-o", folder / "cats.pt2", "--picture", "--resize", "30", "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), "--softmax", "--top", "2",
               "--labels", folder / "labels.txt", what="archive", text=True)
    assert done.returncode == 0, done.stderr
    return folder, net, pictures


def resized(picture, side):
    h, w = picture.shape[1:]
    size = [side, int(side * w / h)] if h < w else [int(side * h / w), side]
    return torch.ops.aten.vision_resize(picture, size)


def prepared(picture, side=30, size=24):
    x = resized(picture, side)
    top, left = round((x.shape[1] - size) / 2), round((x.shape[2] - size) / 2)
    x = x[:, top:top + size, left:left + size].float() / 255
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def expected(net, pictures):
    with torch.no_grad():
        return net(torch.stack([prepared(p) for p in pictures])).softmax(1).topk(2)


def test_pictures_are_what_they_are_step_by_step(made):
    folder, net, pictures = made
    files = [(folder / name).read_bytes() for name in ("a.jpg", "b.png")]
    rows = torch.tensor([list(f.ljust(max(map(len, files)), b"\0")) for f in files], dtype=torch.uint8)
    got = torch.ops.rushlight.pictures(rows, [24, 24], 30, mean=MEAN, std=STD)
    assert torch.allclose(got, torch.stack([prepared(p) for p in pictures]), atol=1e-6)
    plain = torch.ops.rushlight.pictures(rows, [8, 9], dtype=torch.uint8)
    assert (plain == torch.stack([torch.ops.aten.vision_resize(p, [8, 9]) for p in pictures])).all()
    assert torch.ops.rushlight.pictures(rows, [8, 9], channels=1).shape == (2, 1, 8, 9)
    for wrong, words in ((rows[:, :200], "JPEG|PNG|picture"), (torch.zeros(1, 50, dtype=torch.uint8), "image"), (rows.float(), "uint8"), (rows[:0], "one at least")):
        with pytest.raises((RuntimeError, TypeError, ValueError), match=words):
            torch.ops.rushlight.pictures(wrong, [8, 8])
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 60000, 60000) + bytes(20)
    with pytest.raises(ValueError, match="pixels"):
        torch.ops.rushlight.pictures(torch.tensor([list(bomb)], dtype=torch.uint8), [8, 8])


def test_the_command_runs_it(made, tmp_path):
    folder, net, pictures = made
    want = expected(net, pictures)
    done = run(folder / "cats.pt2", folder / "a.jpg", folder / "b.png", what="run", text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("out2 ")[1] == "".join(", ".join(NAMES[k] for k in row) + "\n" for row in want.indices.tolist())
    assert run(folder / "cats.pt2", folder / "b.png", "-o", tmp_path / "out.npz", "--frozen", what="run").returncode == 0
    numpy = pytest.importorskip("numpy")
    kept = numpy.load(tmp_path / "out.npz")
    assert kept["out0"] == pytest.approx(want.values[1:].numpy(), abs=1e-5) and (kept["out1"] == want.indices[1:].numpy()).all()
    text = run(folder / "cats.pt2", what="inspect", text=True).stdout
    assert "rushlight::pictures(picture" in text and "rushlight::labels(classes" in text
    assert run(folder / "cats.pt2", folder / "none.jpg", what="run").returncode == 1
    assert (torch.export.load(folder / "cats.pt2").module()(torch.zeros(1, 3, 24, 24)).shape) == (1, 4)     # the program itself is as it was


def test_onnx(made):
    folder, net, pictures = made
    assert run(folder / "net.pt2", folder / "net.onnx", what="convert").returncode == 0
    done = run(folder / "net.onnx", "-o", folder / "onnx.pt2", "--picture", "--resize", "30", "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)), "--top", "2", "--labels",
               folder / "labels.txt", what="archive", text=True)
    assert done.returncode == 0, done.stderr
    told = run(folder / "onnx.pt2", folder / "a.jpg", what="run", text=True).stdout
    assert told.split("out2 ")[1] == ", ".join(NAMES[k] for k in expected(net, pictures[:1]).indices[0].tolist()) + "\n"
    # once more, of an archive: what was declared is replaced
    assert run(folder / "onnx.pt2", "-o", folder / "again.pt2", "--softmax", what="archive").returncode == 0
    assert run(folder / "again.pt2", folder / "a.jpg", what="run").returncode == 1
    assert len(zipfile.ZipFile(folder / "again.pt2").namelist()) == len(set(zipfile.ZipFile(folder / "again.pt2").namelist()))


def test_texts(made):
    folder = made[0]
    torch.manual_seed(2)
    words = Words()
    export(words, torch.zeros(2, 6, dtype=torch.int64), folder / "words.pt2")
    (folder / "merges.txt").write_text("#version: 0.2\nt h\nth e\n")
    done = run(folder / "words.pt2", "-o", folder / "texts.pt2", "--text", folder / "merges.txt", "--padding", "3", "--top", "1", "--labels", folder / "labels.txt", what="archive", text=True)
    assert done.returncode == 0, done.stderr
    tokens = torch.tensor([[257, 220, 64, 3, 3, 3], [257, 257, 257, 257, 257, 257]])       # in GPT-2's order: " " is 220, "a" 64
    (folder / "a.txt").write_text("the a")
    (folder / "b.txt").write_text("the" * 9)
    want = "".join(NAMES[k] + "\n" for k in words(tokens).argmax(1).tolist())
    assert run(folder / "texts.pt2", folder / "a.txt", folder / "b.txt", what="run", text=True).stdout.split("out2 ")[1] == want


@pytest.mark.parametrize("options, words", [
    (["--picture", "--gray"], "channels"), (["--picture", "--size", "23,24"], "height"), (["--picture", "--mean", "1,2"], "mean"), (["--picture", "--std", "0,0,0"], "deviation of 0"), (["--text", "labels.txt"], "int64"),
    (["--labels", "labels.txt"], "top"), (["--top", "9"], "likeliest"), (["--top", "2", "--labels", "few.txt"], "labels for"), (["--picture", "--resize", "99999"], "resize"), (["--labels", "none.txt", "--top", "1"], "none.txt"),
])
def test_what_does_not_fit_is_said(made, options, words):
    folder = made[0]
    (folder / "few.txt").write_text("one\ntwo\n")
    (folder / "there.pt2").write_text("as it was")
    done = run("net.pt2", "-o", "there.pt2", *options, what="archive", text=True, cwd=folder)
    assert done.returncode == 1 and words in done.stderr and "draft" not in done.stderr
    assert (folder / "there.pt2").read_text() == "as it was" and not list(folder.glob("*.draft")) and not list(folder.glob(".*.draft"))


def test_a_file_of_the_users_beside_it_stays(made, tmp_path):
    (tmp_path / "net.pt2.draft").write_text("mine")
    assert run(made[0] / "net.pt2", "-o", tmp_path / "net.pt2", what="archive").returncode == 0
    assert (tmp_path / "net.pt2.draft").read_text() == "mine" and sorted(p.name for p in tmp_path.iterdir()) == ["net.pt2", "net.pt2.draft"]


@pytest.mark.parametrize("declaration, words", [
    ("", "JSON"), ("[]", "no JSON object"), ("{", "JSON"), ('{"picture": 1}', "picture"), ('{"picture": {"size": 5}}', "size"), ('{"picture": {"size": [1]}}', "size"), ('{"picture": {"size": ["a", "b"]}}', "height"),
    ('{"picture": {"resize": -1}}', "resize"), ('{"picture": {"mean": ["a"]}}', "mean"), ('{"picture": {"mean": [1, 1, 1, 1]}}', "mean"), ('{"picture": {}, "text": {}}', "both"), ('{"text": {}}', "int64"),
    ('{"top": 0}', "top"), ('{"top": 1e9}', "top"), ('{"top": 5}', "likeliest"), ('{"labels": "labels.txt"}', "top"), ('{"top": 1, "labels": "none"}', "none"), ('{"top": 1, "labels": "' + "a" * 300 + '"}', "name"),
    ('{"top": 1, "labels": 5}', "name"), ('{"top": 1, "labels": "empty"}', "labels"), ('{"top": 1, "labels": "../../labels.txt"}', "labels.txt"),
])
def test_hostile_declarations(made, tmp_path, declaration, words):
    net = zipfile.ZipFile(made[0] / "net.pt2")
    root = net.namelist()[0].split("/")[0]
    with zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
        for name in net.namelist():
            bad.writestr(name, net.read(name))
        bad.writestr(f"{root}/extra/rushlight.json", declaration)
        bad.writestr(f"{root}/extra/empty", "")
    done = run("bad.pt2", what="inspect", text=True, cwd=tmp_path)
    assert done.returncode == 1 and words in done.stderr, done.stderr
    assert run(made[0] / "net.pt2", what="archive").returncode == run("-o", what="archive").returncode == run("a", "-o", "b", "--what", what="archive").returncode == 2


def test_torchscript_is_refused(tmp_path):
    torch.jit.trace(lambda x: x * 2., torch.ones(2)).save(str(tmp_path / "a.pt"))
    done = run("a.pt", "-o", "b.pt2", "--softmax", what="archive", text=True, cwd=tmp_path)
    assert done.returncode == 1 and "TorchScript" in done.stderr


# ---- served

@pytest.fixture(scope="module")
def server(made):
    served = pytest.importorskip("test_serve", reason="this build has no `rushlight serve`")
    folder = made[0] / "served"
    folder.mkdir()
    (folder / "cats.pt2").write_bytes((made[0] / "cats.pt2").read_bytes())
    running = served.Server(folder, "--max-mb", "2", "--delay-us", "2000")
    yield running
    running.end()


def infer(server, body, **headers):
    status, content, told = server.ask("POST", "/v2/models/cats/infer", body, headers)
    n = int(told.get("Inference-Header-Content-Length", len(content)))
    return status, json.loads(content[:n]), content[n:]


def named(names):
    return [NAMES[k] for k in names.flatten().tolist()]


def test_serve_takes_the_file_itself(made, server):
    folder, net, pictures = made
    about = json.loads(server.ask("GET", "/v2/models/cats")[1])
    assert about["inputs"] == [{"name": "picture", "datatype": "BYTES", "shape": [-1]}]
    assert [(o["name"], o["datatype"], o["shape"]) for o in about["outputs"]] == [("scores", "FP32", [-1, 2]), ("classes", "INT64", [-1, 2]), ("labels", "BYTES", [-1, 2])]
    assert json.loads(server.ask("GET", "/v2/models/cats/config")[1])["input"][0]["data_type"] == "TYPE_STRING"
    for i, (name, how) in enumerate((("a.jpg", {"Content-Type": "image/jpeg"}), ("b.png", {"Inference-Header-Content-Length": "0"}))):
        status, answer, _ = infer(server, (folder / name).read_bytes(), **how)
        want = expected(net, pictures[i:i + 1])
        scores, classes, labels = answer["outputs"]
        assert status == 200 and labels == {"name": "labels", "datatype": "BYTES", "shape": [1, 2], "data": named(want.indices)}
        assert scores["data"] == pytest.approx(want.values[0].tolist(), abs=1e-5) and classes["data"] == want.indices[0].tolist()


def test_serve_takes_bytes_in_binary(made, server):
    folder, net, pictures = made
    both = b"".join(struct.pack("<I", len(f)) + f for f in ((folder / "a.jpg").read_bytes(), (folder / "b.png").read_bytes()))
    head = json.dumps({"inputs": [{"name": "picture", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(both)}}],
                       "outputs": [{"name": "labels", "parameters": {"binary_data": True}}]}).encode()
    status, answer, rest = infer(server, head + both, **{"Inference-Header-Content-Length": str(len(head))})
    assert status == 200 and answer["outputs"][0]["shape"] == [2, 2]
    assert rest == b"".join(struct.pack("<I", len(n.encode())) + n.encode() for n in named(expected(net, pictures).indices))


@pytest.mark.parametrize("given, binary, words", [
    (dict(shape=[1], data=["no picture"]), b"", "image"), (dict(shape=[2], data=["a"]), b"", "texts"), (dict(shape=[1], data=[1]), b"", "texts"), (dict(shape=[1]), b"", "texts"), (dict(shape=[1, 1], data=["a"]), b"", "dimensions"),
    (dict(shape=[1], datatype="UINT8", data=[1]), b"", "BYTES"), (dict(shape=[0], data=[]), b"", "one at least"), (dict(shape=[1]), b"\5\0\0\0abc", "beyond"), (dict(shape=[1]), b"\1\0\0\0abc", "more bytes"),
    (dict(shape=[1]), b"\1\0", "texts"), (dict(shape=[1]), b"\xff\xff\xff\xff", "beyond"), (dict(shape=[2 ** 40]), b"\0\0\0\0" * 4, "texts"), (dict(shape=[9]), b"\0\0\0\0" * 8 + b"\0\0\4\0" + b"a" * 2 ** 18, "more than the server"),
])
def test_serve_says_what_is_wrong(server, given, binary, words):
    given = {"name": "picture", "datatype": "BYTES", **given, **({"parameters": {"binary_data_size": len(binary)}} if binary else {})}
    head = json.dumps({"inputs": [given]}).encode()
    status, answer, _ = infer(server, head + binary, **({"Inference-Header-Content-Length": str(len(head))} if binary else {}))
    assert status == 400 and words in answer["error"]


def test_batches_of_files(made, server):
    """Files of several lengths in one batch, and one that is none: each gets its own answer."""
    import concurrent.futures
    folder, net, pictures = made
    files, want = [(folder / n).read_bytes() for n in ("a.jpg", "b.png")], [named(expected(net, pictures[i:i + 1]).indices) for i in range(2)]

    def one(i):
        status, answer, _ = infer(server, b"\xff\xd8\xff none" if i % 5 == 4 else files[i % 2], **{"Content-Type": "image/any"})
        return status == 400 if i % 5 == 4 else answer["outputs"][2]["data"] == want[i % 2]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(60)))


def test_tritonclient(made, server):
    client_module = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")
    numpy = pytest.importorskip("numpy")
    folder, net, pictures = made
    given = client_module.InferInput("picture", [2], "BYTES")
    given.set_data_from_numpy(numpy.array([(folder / n).read_bytes() for n in ("a.jpg", "b.png")], dtype=object))
    result = client_module.InferenceServerClient(f"127.0.0.1:{server.port}").infer("cats", [given])
    assert [n.decode() for n in result.as_numpy("labels").flatten()] == named(expected(net, pictures).indices)
