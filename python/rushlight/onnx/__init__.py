"""torch.onnx: modules as ONNX models; _export.py captures and writes them, _program.py is what comes back."""
import enum

from . import errors, symbolic_helper, symbolic_opset11  # noqa: F401
from ._export import export, is_in_onnx_export, select_model_mode_for_export  # noqa: F401
from ._program import ONNXProgram
from .errors import OnnxExporterError

__all__ = ["errors", "export", "is_in_onnx_export", "OnnxExporterError", "ONNXProgram", "select_model_mode_for_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic", "OperatorExportTypes", "TrainingMode"]

producer_name, producer_version = "rushlight", "0.1.0"


class OperatorExportTypes(enum.IntEnum):
    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


class TrainingMode(enum.IntEnum):
    EVAL, PRESERVE, TRAINING = range(3)


class TensorProtoDataType(enum.IntEnum):
    """Types of elements by the numbers that ONNX files have for them."""
    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16, \
        FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ = range(21)


dynamo_export = export


def is_onnxrt_backend_supported():
    return False


_custom = {}


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Remembers how an operation is to be exported."""
    _custom[symbolic_name, opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    _custom.pop((symbolic_name, opset_version), None)

