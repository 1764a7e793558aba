"""What is shown: numbers, histograms, pictures, text, as serialised values of a summary."""
import io
import json

import numpy as np

import rushlight as torch
from ._events import data, double, doubles, integer, single


def as_numpy(x):
    """An array of a tensor, an array or a number. Lists are refused, as PyTorch does: programs find out by that what is a number."""
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu()
        return x.float().numpy() if x.dtype is torch.bfloat16 else x.numpy()
    if isinstance(x, np.ndarray) or np.isscalar(x):
        return np.asarray(x)
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def as_tensor(x):
    """A tensor of a tensor, an array or a number."""
    return x.detach().cpu() if isinstance(x, torch.Tensor) else torch.as_tensor(as_numpy(x))


def number(x):
    """The one number in a tensor, array or number."""
    if np.isscalar(x):
        return float(x)
    array = as_numpy(x)
    if array.size != 1:
        raise AssertionError(f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and {array.ndim} dimensions.")
    return float(array.item())


def _metadata(plugin, content=b"", name="", kind=0):
    meta = data(1, data(1, plugin) + (data(2, content) if content else b""))
    if name:
        meta += data(2, name)
    return meta + (integer(4, kind) if kind else b"")


def scalar(tag, value, new_style=False, double_precision=False):
    """One number under a tag."""
    x = number(value)
    if new_style or double_precision:
        return data(1, tag) + data(8, tensor_of(np.float64(x) if double_precision else np.float32(x))) + data(9, _metadata("scalars", kind=1))
    return data(1, tag) + single(2, x)


def tensor_of(array):
    """A TensorProto of numbers or of one text."""
    if isinstance(array, (bytes, str)):
        return integer(1, 7) + data(2, data(2, integer(1, 1))) + data(8, array)
    array = np.asarray(array)
    kinds = {"float32": 1, "float64": 2, "int32": 3, "int64": 9}
    shape = b"".join(data(2, integer(1, n)) for n in array.shape)
    return integer(1, kinds[array.dtype.name]) + data(2, shape) + data(4, np.ascontiguousarray(array).tobytes())


def bucket_limits():
    """The edges that TensorFlow uses: 1.1 times apart, both signs."""
    edge, edges = 1e-12, []
    while edge < 1e20:
        edges.append(edge)
        edge *= 1.1
    return [-e for e in reversed(edges)] + [0.0] + edges


_LIMITS = None


def histogram(tag, values, bins="tensorflow", max_bins=None):
    """How values are spread: counts between edges."""
    global _LIMITS
    values = as_numpy(values).astype(np.float64).reshape(-1)
    if values.size == 0:
        raise ValueError("The input has no element.")
    if isinstance(bins, str) and bins == "tensorflow":
        _LIMITS = _LIMITS or bucket_limits()
        bins = _LIMITS
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = np.add.reduceat(counts, range(0, len(counts), step))
        limits = np.append(limits[:-1][::step], limits[-1])
    return raw_histogram(tag, values.min(), values.max(), values.size, values.sum(), values.dot(values), limits[1:], counts)


def raw_histogram(tag, low, high, n, total, squares, limits, counts):
    """A histogram that was counted elsewhere; empty buckets at both ends are left out."""
    counts, limits = np.asarray(counts), np.asarray(limits)
    filled = np.flatnonzero(counts)
    if len(filled):
        begin, end = max(filled[0] - 1, 0), filled[-1] + 1
        counts, limits = counts[begin:end], limits[begin:end]
    histo = double(1, low) + double(2, high) + double(3, n) + double(4, total) + double(5, squares)
    histo += doubles(6, [float(x) for x in limits]) + doubles(7, [float(x) for x in counts])
    return data(1, tag) + data(5, histo)


def png(pixels):
    """PNG bytes of (H, W, C) uint8 pixels."""
    return bytes(torch.ops.image.encode_png(as_tensor(np.ascontiguousarray(pixels.transpose(2, 0, 1))), 6).numpy())


def to_pixels(image, dataformats):
    """(H, W, C) uint8 of an image or a batch, whose dims `dataformats` names; floats are 0 to 1."""
    array = as_numpy(image)
    order = dataformats.upper()
    if len(order) != array.ndim:
        raise AssertionError(f"size of input tensor and input format are different. tensor shape: {array.shape}, input_format: {dataformats}")
    if "N" in order:
        batch = array.transpose([order.index(k) for k in "NCHW"]) if "C" in order else array.transpose([order.index(k) for k in "NHW"])[:, None]
        if batch.shape[1] == 1:
            batch = np.repeat(batch, 3, 1)
        n, c, h, w = batch.shape
        columns = min(n, 8)
        rows = -(-n // columns)
        grid = np.zeros((c, rows * h, columns * w), batch.dtype)
        for k in range(n):
            grid[:, k // columns * h:(k // columns + 1) * h, k % columns * w:(k % columns + 1) * w] = batch[k]
        array = grid.transpose(1, 2, 0)
    elif "C" in order:
        array = array.transpose([order.index(k) for k in "HWC"])
        if array.shape[2] == 1:
            array = np.repeat(array, 3, 2)
    else:
        array = np.repeat(array.transpose([order.index(k) for k in "HW"])[:, :, None], 3, 2)
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    return array


def image(tag, picture, rescale=1, dataformats="NCHW"):
    """A picture as PNG."""
    pixels = to_pixels(picture, dataformats)
    if rescale != 1:
        h, w = max(1, int(pixels.shape[0] * rescale)), max(1, int(pixels.shape[1] * rescale))
        pixels = pixels[(np.arange(h) / rescale).astype(int)][:, (np.arange(w) / rescale).astype(int)]
    return encoded_image(tag, pixels)


def encoded_image(tag, pixels):
    h, w, c = pixels.shape
    return data(1, tag) + data(4, integer(1, h) + integer(2, w) + integer(3, c) + data(4, png(pixels)))


def image_boxes(tag, picture, boxes, rescale=1, dataformats="CHW", labels=None):
    """A picture with rectangles (x0, y0, x1, y1) drawn in red."""
    pixels = to_pixels(picture, dataformats).copy()
    for x0, y0, x1, y1 in as_numpy(boxes).astype(int):
        x0, x1, y0, y1 = max(x0, 0), min(x1, pixels.shape[1] - 1), max(y0, 0), min(y1, pixels.shape[0] - 1)
        pixels[y0:y1 + 1, [x0, x1]] = pixels[[y0, y1], x0:x1 + 1] = (255, 0, 0)
    return image(tag, pixels, rescale, "HWC")


def text(tag, words):
    """Markdown."""
    if not isinstance(words, str):
        raise TypeError(f"a text is a str, not {type(words).__name__}")
    return data(1, f"{tag}/text_summary") + data(8, tensor_of(words)) + data(9, _metadata("text", integer(1, 0)))


def video(tag, frames, fps=4):
    """Clips (n, frames, channels, height, width) side by side as a GIF."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("add_video: moving pictures are encoded by Pillow, which is not installed") from None
    clips = as_numpy(frames)
    if clips.ndim != 5:
        raise ValueError(f"a video is (n, frames, channels, height, width), not {clips.shape}")
    if clips.dtype != np.uint8:
        clips = (clips.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    pictures = [Image.fromarray(np.concatenate([to_pixels(clip[k], "CHW") for clip in clips], axis=1)) for k in range(clips.shape[1])]
    stream = io.BytesIO()
    pictures[0].save(stream, "GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0)
    width, height = pictures[0].size
    return data(1, tag) + data(4, integer(1, height) + integer(2, width) + integer(3, 3) + data(4, stream.getvalue()))


def mesh(tag, vertices, colors=None, faces=None, config=None):
    """A value for the points, one for their colours, one for the triangles."""
    given = [(kind, name, torch.as_tensor(x)) for kind, name, x in ((1, "VERTEX", vertices), (2, "FACE", faces), (3, "COLOR", colors)) if x is not None]
    for _, _, x in given:
        if x.ndim != 3:
            raise ValueError(f"Tensor shape should be of shape BxNx3, but got {x.shape}")
    components = sum(1 << kind for kind, _, _ in given)
    for kind, name, x in given:
        array = as_numpy(x).astype(np.float32)
        about = data(2, tag) + integer(3, kind) + data(5, json.dumps(config or {}, sort_keys=True))
        about += b"".join(integer(6, n) for n in array.shape) + integer(7, components)
        yield data(1, f"{tag}_{name}") + data(8, tensor_of(array)) + data(9, _metadata("mesh", about))


def onnx_graph(path):
    """A GraphDef of the graph in an ONNX file."""
    try:
        import onnx
    except ImportError:
        raise ImportError("add_onnx_graph: ONNX files are read by the onnx package, which is not installed") from None
    graph = onnx.load(str(path)).graph
    nodes = b"".join(data(1, data(1, x.name) + data(2, "Input")) for x in graph.input)
    for k, n in enumerate(graph.node):
        nodes += data(1, data(1, n.output[0] if n.output else f"node_{k}") + data(2, n.op_type) + b"".join(data(3, i) for i in n.input if i))
    return nodes + data(4, integer(1, 22))


def pr_curve_rows(tag, rows, n):
    """rows: true positives, false positives, true negatives, false negatives, precision, recall at n thresholds."""
    content = integer(1, 0) + integer(2, n)
    return data(1, tag) + data(8, tensor_of(np.asarray(rows, np.float32))) + data(9, _metadata("pr_curves", content))


def custom_layout(layout):
    """Which scalars share a chart: {category: {title: [kind, [tags]]}}."""
    content = b""
    for category, charts in layout.items():
        part = b""
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError("a margin chart wants three tags: value, lower, upper")
                chart = data(3, data(1, data(1, tags[0]) + data(2, tags[1]) + data(3, tags[2])))
            else:
                chart = data(2, b"".join(data(1, t) for t in tags))
            part += data(2, data(1, title) + chart)
        content += data(2, data(1, category) + part)
    return data(1, "custom_scalars__config__") + data(8, tensor_of(content)) + data(9, _metadata("custom_scalars", integer(1, 0)))


def _hyperparameter(x):
    """A hyperparameter as a number, a bool or a str; of a tensor the first number."""
    if isinstance(x, torch.Tensor):
        return number(x.reshape(-1)[0])
    if not isinstance(x, (int, float, str, bool)):
        raise ValueError("value should be one of int, float, str, bool, or torch.Tensor")
    return x


def _value(x):
    """A google.protobuf.Value."""
    if isinstance(x, bool):
        return integer(4, x)
    if isinstance(x, (int, float)):
        return double(2, x)
    return data(3, x)


def hparams(hparam_dict, metric_dict, discrete=None):
    """(experiment, session start, session end) values for the HParams page."""
    if not isinstance(discrete, (dict, type(None))):
        raise TypeError("hparam_domain_discrete should be a dictionary of lists")
    for name, domain in (discrete or {}).items():
        if name not in hparam_dict or not isinstance(domain, list) or not all(isinstance(x, type(hparam_dict[name])) for x in domain):
            raise TypeError(f"hparam_domain_discrete[{name!r}] should be a list of values of the type of that hyperparameter")
    infos = b""
    hparam_dict = {name: _hyperparameter(x) for name, x in hparam_dict.items() if x is not None}
    for name, value in hparam_dict.items():
        kind = 2 if isinstance(value, bool) else 3 if isinstance(value, (int, float)) else 1
        info = data(1, name) + integer(4, kind)
        if discrete and name in discrete:
            info += data(5, b"".join(data(1, _value(v)) for v in discrete[name]))
        infos += data(4, info)
    metrics = b"".join(data(5, data(1, data(2, tag))) for tag in metric_dict)
    start = b"".join(data(1, data(1, name) + data(2, _value(v))) for name, v in hparam_dict.items())
    null = data(8, tensor_of(np.zeros((0,), np.float32)))

    def entry(tag, content):
        return data(1, tag) + null + data(9, _metadata("hparams", content))
    return (entry("_hparams_/experiment", integer(1, 0) + data(2, infos + metrics)),
            entry("_hparams_/session_start_info", integer(1, 0) + data(3, start)),
            entry("_hparams_/session_end_info", integer(1, 0) + data(4, integer(1, 1))))
