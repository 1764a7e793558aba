"""Numbers of the ONNX format."""
import enum


class TrainingMode(enum.IntEnum):
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(enum.IntEnum):
    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20


class JitScalarType(enum.IntEnum):
    """Element types by PyTorch's numbers."""

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT = 3
    INT64 = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    BFLOAT16 = 15

    @classmethod
    def from_dtype(cls, dtype):
        return {member.dtype(): member for member in cls}[dtype]

    def dtype(self):
        import rushlight as torch
        return getattr(torch, _WORDS.get(self.name, self.name.lower()))

    def onnx_type(self):
        return TensorProtoDataType(self.dtype()._onnx)


_WORDS = {"INT": "int32", "HALF": "float16", "FLOAT": "float32", "DOUBLE": "float64"}
