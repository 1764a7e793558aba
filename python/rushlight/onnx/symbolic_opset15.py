"""How operators are exported to ONNX opset 15: names that packages build their own upon."""
from rushlight.onnx._symbolic import missing


def __getattr__(name):
    return missing("symbolic_opset15", name)
