"""torch.onnx: importable; models are not exported yet, and export() says so."""
import enum

from . import symbolic_helper, symbolic_opset11  # noqa: F401

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic", "OperatorExportTypes", "TrainingMode"]

producer_name, producer_version = "rushlight", "0.1.0"


class OperatorExportTypes(enum.IntEnum):
    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


class TrainingMode(enum.IntEnum):
    EVAL, PRESERVE, TRAINING = range(3)


class OnnxExporterError(RuntimeError):
    """A model that could not be exported."""


def export(model, *args, **kwargs):
    """Writes a model as ONNX: not yet."""
    raise NotImplementedError("torch.onnx.export: models are not exported to ONNX yet")


dynamo_export = export


def is_in_onnx_export():
    """Whether an export is running: never."""
    return False


def is_onnxrt_backend_supported():
    return False


_custom = {}


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Remembers how an operation is to be exported."""
    _custom[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    _custom.pop((symbolic_name, opset_version), None)


def select_model_mode_for_export(model, mode):
    raise NotImplementedError("torch.onnx: models are not exported to ONNX yet")
