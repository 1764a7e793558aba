"""SummaryWriter: writes event files that TensorBoard shows; every method adds something under a tag at a step."""
import json
import os
import socket
import time

import numpy as np

from . import summary
from ._events import EventFile, data, double, integer
from ._graph import module_graph


class FileWriter:
    """Event files of one folder, one a process."""

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.log_dir = str(log_dir)
        self.event_writer = EventFile(self.log_dir, filename_suffix, flush_secs)

    def get_logdir(self):
        return self.log_dir

    def add_summary(self, value, global_step=None, walltime=None):
        self.event_writer.add(value, global_step, walltime)

    def flush(self):
        self.event_writer.flush()

    def close(self):
        self.event_writer.close()


class SummaryWriter:
    """Writes to log_dir (default: runs/<time>_<host><comment>) what TensorBoard shows."""

    def __init__(self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""):
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment)
        self.log_dir = log_dir
        self.purge_step, self.max_queue, self.flush_secs, self.filename_suffix = purge_step, max_queue, flush_secs, filename_suffix
        self.file_writer = self.all_writers = None
        self._get_file_writer()

    def _get_file_writer(self):
        if self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:  # what was logged from this step on is no longer shown
                self.file_writer.event_writer.write(double(1, time.time()) + integer(2, self.purge_step) + data(7, integer(1, 1)))
                self.purge_step = None
        return self.file_writer

    def _add(self, value, step, walltime):
        self._get_file_writer().add_summary(value, step, walltime)

    def _call(self, kind, tag, *args, step, walltime):
        self._get_file_writer().event_writer.call(kind, tag, *args, step=step, walltime=walltime)

    def get_logdir(self):
        return self.log_dir

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False, double_precision=False):
        """A number."""
        if new_style or double_precision:
            self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)
        else:
            self._call("scalar", tag, summary.number(scalar_value), step=global_step, walltime=walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """Several numbers in one chart: each goes to a folder of its own."""
        self._get_file_writer()
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, main_tag.replace("/", "_") + "_" + tag)
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """The numbers of a tensor."""
        self._call("tensor", tag, summary.as_tensor(tensor), step=global_step, walltime=walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None):
        """How values are spread."""
        if isinstance(bins, str) and bins == "tensorflow" and max_bins is None:
            self._call("histogram", tag, summary.as_tensor(values), step=global_step, walltime=walltime)
        else:
            self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None, walltime=None):
        """A histogram that was counted elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        self._add(summary.raw_histogram(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts), global_step, walltime)

    def _picture(self, tag, picture, dataformats, step, walltime):
        pixels = summary.to_pixels(picture, dataformats).transpose(2, 0, 1)
        self._call("image", tag, summary.as_tensor(np.ascontiguousarray(pixels)), step=step, walltime=walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"):
        """A picture, (3, H, W) unless dataformats says otherwise; floats are 0 to 1, bytes 0 to 255."""
        self._picture(tag, img_tensor, dataformats, global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"):
        """A batch of pictures as a grid."""
        self._picture(tag, img_tensor, dataformats, global_step, walltime)

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1, dataformats="CHW", labels=None):
        """A picture with rectangles (x0, y0, x1, y1)."""
        self._add(summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A matplotlib figure, or several, as pictures."""
        many = isinstance(figure, (list, tuple))
        pictures = []
        for one in figure if many else [figure]:
            canvas = one.canvas
            if not hasattr(canvas, "buffer_rgba"):
                from matplotlib.backends.backend_agg import FigureCanvasAgg
                canvas = FigureCanvasAgg(one)
            canvas.draw()
            pictures.append(np.asarray(canvas.buffer_rgba())[:, :, :3])
            if close:
                import matplotlib.pyplot as plt
                plt.close(one)
        if many:
            self.add_images(tag, np.stack(pictures), global_step, walltime, dataformats="NHWC")
        else:
            self.add_image(tag, pictures[0], global_step, walltime, dataformats="HWC")

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Moving pictures (n, frames, channels, height, width) as a GIF, which Pillow encodes."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None):
        """Sound, -1 to 1."""
        sound = summary.as_tensor(snd_tensor).squeeze()
        if sound.ndim != 1:
            raise AssertionError(f"input tensor should be 1 dimensional, not {tuple(sound.shape)}")
        self._call("audio", tag, sound, int(sample_rate), step=global_step, walltime=walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None, walltime=None):
        """Precision over recall of binary labels and predicted probabilities."""
        weights = None if weights is None else summary.as_tensor(weights)
        self._call("pr_curve", tag, summary.as_tensor(labels), summary.as_tensor(predictions), weights, num_thresholds,
                   step=global_step, walltime=walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall,
                         global_step=None, num_thresholds=127, weights=None, walltime=None):
        """A precision-recall curve that was counted elsewhere."""
        rows = [np.asarray(r) for r in (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall)]
        self._add(summary.pr_curve_rows(tag, np.stack(rows), num_thresholds), global_step, walltime)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None, walltime=None):
        """Points (batch, n, 3), their colours (0 to 255) and the triangles between them."""
        for value in summary.mesh(tag, vertices, colors, faces, config_dict):
            self._add(value, global_step, walltime)

    def add_custom_scalars(self, layout):
        """Charts of several scalars: {category: {title: ["Multiline" or "Margin", [tags]]}}."""
        self._add(summary.custom_layout(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled"):
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled"):
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None, global_step=None):
        """Hyperparameters of a run and what it reached."""
        if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as writer:
            for value in summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete):
                writer._add(value, None, None)
            for tag, value in metric_dict.items():
                writer.add_scalar(tag, value, global_step)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True):
        """The modules of a model as a graph; with an input, also what flows between them."""
        graph = module_graph(model, input_to_model)
        self._get_file_writer().event_writer.write(double(1, time.time()) + data(4, graph))

    def add_backward_graph(self, result):
        """The operations behind a tensor, down to the leaves (not in PyTorch)."""
        self._get_file_writer().event_writer.file.graph(result)

    def add_onnx_graph(self, prototxt):
        """Shows an ONNX file's graph; that needs the onnx package to read it."""
        self._get_file_writer().event_writer.write(double(1, time.time()) + data(4, summary.onnx_graph(prototxt)))

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default", metadata_header=None):
        """Points with labels and pictures for the projector: files in the folder <step>/<tag>."""
        mat = summary.as_numpy(mat)
        if mat.ndim != 2:
            raise AssertionError(f"mat should be 2D, where mat.size(0) is the number of data points, not {mat.shape}")
        step = str(0 if global_step is None else global_step).zfill(5)
        folder = os.path.join(self.log_dir, step, tag)
        os.makedirs(folder, exist_ok=True)
        entry = {"tensor_name": f"{tag}:{step}"}

        def place(name):
            return os.path.relpath(os.path.join(folder, name), self.log_dir)
        if metadata is not None:
            if len(metadata) != len(mat):
                raise AssertionError("#labels should equal with #data points")
            if metadata_header and len(metadata_header) != len(metadata[0]):
                raise AssertionError(f"a header of {len(metadata_header)} for labels of {len(metadata[0])} columns")
            rows = ["\t".join(map(str, m)) if isinstance(m, (list, tuple)) else str(m) for m in metadata]
            if metadata_header:
                rows.insert(0, "\t".join(metadata_header))
            with open(os.path.join(folder, "metadata.tsv"), "w", encoding="utf8") as out:
                out.write("\n".join(rows) + "\n")
            entry["metadata_path"] = place("metadata.tsv")
        if label_img is not None:
            pictures = summary.as_numpy(label_img)
            if pictures.ndim != 4:
                raise AssertionError(f"label_img should be (N, C, H, W), not {pictures.shape}")
            if len(pictures) != len(mat):
                raise AssertionError("#images should equal with #data points")
            side = int(np.ceil(len(pictures) ** 0.5))
            n, c, h, w = pictures.shape
            sheet = np.zeros((c, side * h, side * w), pictures.dtype)
            for k in range(n):
                sheet[:, k // side * h:(k // side + 1) * h, k % side * w:(k % side + 1) * w] = pictures[k]
            with open(os.path.join(folder, "sprite.png"), "wb") as out:
                out.write(summary.png(summary.to_pixels(sheet, "CHW")))
            entry["sprite"] = (place("sprite.png"), w, h)
        np.savetxt(os.path.join(folder, "tensors.tsv"), mat, delimiter="\t", fmt="%.8g")
        entry["tensor_path"] = place("tensors.tsv")
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "a", encoding="utf8") as out:
            out.write("embeddings {\n")
            for key, value in entry.items():
                if key == "sprite":
                    out.write(f"sprite {{\nimage_path: {json.dumps(value[0])}\nsingle_image_dim: {value[1]}\nsingle_image_dim: {value[2]}\n}}\n")
                else:
                    out.write(f"{key}: {json.dumps(value)}\n")
            out.write("}\n")

    def flush(self):
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.close()
