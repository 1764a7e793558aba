#!/usr/bin/env python3
"""Write every kind of summary, and read it back with TensorBoard's own event accumulator and plugins.

    tests/tensorboard.py [--keep FOLDER]

Wants the tensorboard package; without it says so and ends well. --keep leaves the files, to be looked at.
"""
import argparse
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT / "python")  # not this folder: the package has this file's name

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.custom_scalar import layout_pb2
    from tensorboard.plugins.hparams import metadata as hparams_metadata
    from tensorboard.plugins.mesh import metadata as mesh_metadata
except ImportError:
    print("tensorboard is not installed: nothing was checked")
    sys.exit(0)

import rushlight as torch
from rushlight import nn
from rushlight.utils.tensorboard import SummaryWriter


def write(folder):
    """A short training run with everything that can be shown."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x = torch.randn(256, 8)
    y = (x[:, :1] > 0).float()
    with SummaryWriter(folder) as w:
        for step in range(50):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            w.add_scalar("loss/train", loss, step)
            w.add_scalar("precise", loss.item(), step, new_style=True, double_precision=True)
            w.add_scalars("both", {"low": loss.item() - 0.1, "high": loss.item() + 0.1}, step)
            w.add_histogram("weights", net[0].weight, step)
        p = torch.sigmoid(net(x)).detach()
        ramp = torch.arange(32 * 32).reshape(32, 32) / 1024
        w.add_image("picture", torch.stack([ramp, ramp.t(), 1 - ramp]), 0)
        w.add_images("batch", torch.rand(6, 3, 16, 16), 0)
        w.add_image_with_boxes("boxes", torch.rand(3, 32, 32), torch.tensor([[4, 4, 20, 24]]), 0)
        w.add_text("notes", "**bold** words", 0)
        w.add_audio("tone", torch.sin(torch.arange(8000) / 5)[None], 0, sample_rate=8000)
        w.add_pr_curve("curve", y, p, 0)
        w.add_tensor("matrix", torch.arange(6.0).reshape(2, 3), 0)
        w.add_mesh("points", torch.rand(1, 5, 3), colors=torch.full((1, 5, 3), 200), faces=torch.tensor([[[0, 1, 2]]]))
        w.add_custom_scalars({"losses": {"train": ["Multiline", ["loss/.*"]], "band": ["Margin", ["a", "b", "c"]]}})
        w.add_embedding(torch.randn(10, 4), metadata=list("abcdefghij"), label_img=torch.rand(10, 3, 8, 8), global_step=1)
        w.add_hparams({"lr": 0.01, "how": "adam", "bias": True}, {"final": loss.item()}, run_name="one")
        w.add_graph(net, x)
    return net, loss.item()


def check(folder, net, loss):
    """What the accumulator and the plugins' own readers make of it."""
    events = EventAccumulator(str(folder), size_guidance={"images": 0, "tensors": 0, "histograms": 0, "scalars": 0, "audio": 0})
    events.Reload()
    tags = events.Tags()
    curve = events.Scalars("loss/train")
    assert [e.step for e in curve] == list(range(50)) and abs(curve[-1].value - loss) < 1e-6
    assert events.Tensors("precise")[-1].tensor_proto.double_val or events.Tensors("precise")[-1].tensor_proto.tensor_content
    histogram = events.Histograms("weights")[-1].histogram_value
    assert histogram.num == 128 and sum(histogram.bucket) == 128 and abs(histogram.sum - float(net[0].weight.sum())) < 1e-3
    assert len(histogram.bucket) == len(histogram.bucket_limit) and histogram.min >= histogram.bucket_limit[0] * 1.2 - 1
    for tag, size in (("picture", (32, 32)), ("boxes", (32, 32)), ("batch", (16, 96))):
        image = events.Images(tag)[0]
        assert (image.height, image.width) == size and image.encoded_image_string[:4] == b"\x89PNG", tag
    sound = events.Audio("tone")[0]
    assert sound.sample_rate == 8000 and sound.length_frames == 8000 and sound.encoded_audio_string[:4] == b"RIFF"
    from tensorboard.util import tensor_util
    assert tensor_util.make_ndarray(events.Tensors("notes/text_summary")[0].tensor_proto)[0] == b"**bold** words"
    rows = tensor_util.make_ndarray(events.Tensors("curve")[0].tensor_proto)
    assert rows.shape == (6, 127) and rows[0, 0] + rows[3, 0] > 0 and rows[5, 0] == 1
    assert tensor_util.make_ndarray(events.Tensors("matrix")[0].tensor_proto).tolist() == [[0, 1, 2], [3, 4, 5]]
    for kind in ("VERTEX", "FACE", "COLOR"):
        about = mesh_metadata.parse_plugin_metadata(events.SummaryMetadata("points_" + kind).plugin_data.content)
        assert about.name == "points" and about.components == 14 and list(about.shape)[0] == 1
    layout = layout_pb2.Layout()
    layout.ParseFromString(tensor_util.make_ndarray(events.Tensors("custom_scalars__config__")[0].tensor_proto).item())
    assert layout.category[0].title == "losses" and layout.category[0].chart[0].multiline.tag[0] == "loss/.*"
    graph = events.Graph()
    assert any(n.op == "Linear" for n in graph.node) and any(n.op == "Parameter" for n in graph.node)
    parts = EventAccumulator(str(folder / "one"))
    parts.Reload()
    session = hparams_metadata.parse_session_start_info_plugin_data(parts.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
    assert session.hparams["lr"].number_value == 0.01 and session.hparams["how"].string_value == "adam" and session.hparams["bias"].bool_value
    experiment = hparams_metadata.parse_experiment_plugin_data(parts.SummaryMetadata("_hparams_/experiment").plugin_data.content)
    assert experiment.metric_infos[0].name.tag == "final"
    band = EventAccumulator(str(folder / "both_low"))
    band.Reload()
    assert len(band.Scalars("both")) == 50
    from google.protobuf import text_format
    from tensorboard.plugins.projector import projector_config_pb2
    config = projector_config_pb2.ProjectorConfig()
    text_format.Parse((folder / "projector_config.pbtxt").read_text(), config)
    points = config.embeddings[0]
    assert (folder / points.tensor_path).is_file() and (folder / points.metadata_path).is_file() and (folder / points.sprite.image_path).is_file()
    print("read back: %d kinds, %d tags" % (sum(bool(v) for v in tags.values()), sum(len(v) for v in tags.values() if isinstance(v, list))))


def main():
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--keep", type=pathlib.Path)
    args = cli.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or pathlib.Path(temporary)
        net, loss = write(folder)
        check(folder, net, loss)
    return 0


if __name__ == "__main__":
    sys.exit(main())
