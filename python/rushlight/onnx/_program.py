"""A model that was exported: saved, looked at, run."""
import os
import pathlib
import shutil
import tempfile

import rushlight as torch
from rushlight.utils import _pytree as pytree


class _Value:
    def __init__(self, name):
        self.name = name


class _Session:
    """What onnxruntime's sessions do, by this library's reader of such files."""

    def __init__(self, model):
        handle, path = tempfile.mkstemp(suffix=".onnx")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(model)
            self._model, self._inputs, self._outputs = torch._C._onnx_load(path)
        finally:
            os.unlink(path)

    def get_inputs(self):
        return [_Value(name) for name in self._inputs]

    def get_outputs(self):
        return [_Value(name) for name in self._outputs]

    def run(self, output_names, input_feed):
        """The results of those names (None: all), as arrays."""
        with torch.no_grad():
            found = dict(zip(self._outputs, torch._C._onnx_run(self._model, [torch.from_numpy(input_feed[name]) for name in self._inputs])))
        return [found[name].numpy() for name in output_names or self._outputs]


class ONNXProgram:
    """What torch.onnx.export returns: the model's bytes, and the program that they were made from."""

    def __init__(self, model, exported_program):
        self._bytes, self.exported_program, self._session = model, exported_program, None

    @property
    def model_proto(self):
        """The model as onnx.ModelProto; needs the onnx package."""
        import onnx
        return onnx.load_model_from_string(self._bytes)

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Writes the model: to a path or a file that is open."""
        if not include_initializers or keep_initializers_as_inputs:
            raise NotImplementedError("torch.onnx: models are saved with their weights, which are no inputs")
        if hasattr(destination, "write"):
            destination.write(self._bytes)
            return
        path = pathlib.Path(os.fspath(destination))
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(self._bytes)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(draft, 0o666 & ~mask)
            os.replace(draft, path)
        except BaseException:
            os.unlink(draft)
            raise

    def _inputs(self, args, kwargs):
        return [x.detach().cpu().numpy() for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]

    def initialize_inference_session(self, initializer=None):
        """Makes the session that __call__ uses: onnxruntime's; without that package this library's own."""
        if initializer is None:
            try:
                from onnxruntime import InferenceSession as initializer
            except ImportError:
                initializer = _Session
        self._session = initializer(self._bytes)

    def __call__(self, *args, **kwargs):
        """What onnxruntime (or, without it, this library) makes of the model."""
        if self._session is None:
            self.initialize_inference_session()
        given = zip(self._session.get_inputs(), self._inputs(args, kwargs))
        return tuple(torch.from_numpy(y) for y in self._session.run(None, {i.name: x for i, x in given}))

    def call_reference(self, *args, **kwargs):
        """What the onnx package's reference evaluator makes of it."""
        from onnx.reference import ReferenceEvaluator
        model = ReferenceEvaluator(self.model_proto)
        return tuple(torch.as_tensor(y) for y in model.run(None, dict(zip(model.input_names, self._inputs(args, kwargs)))))

    def optimize(self):
        """Runtimes optimise by themselves; nothing is changed here."""

    def release(self):
        """Gives up the session."""
        self._session = None

    def __repr__(self):
        return "ONNXProgram(%d bytes)\n%s" % (len(self._bytes), self.exported_program)


def write(exported, opset, input_names, output_names):
    """The bytes of a program as an ONNX model."""
    folder = tempfile.mkdtemp()
    try:
        program, model = os.path.join(folder, "program.pt2"), os.path.join(folder, "model.onnx")
        torch.export.save(exported, program)
        torch._C._onnx_write(program, model, opset, list(input_names), list(output_names))
        return pathlib.Path(model).read_bytes()
    finally:
        shutil.rmtree(folder)
