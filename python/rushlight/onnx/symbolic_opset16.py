"""How operators are exported to ONNX opset 16: names that packages build their own upon."""
from rushlight.onnx._symbolic import missing


def __getattr__(name):
    return missing("symbolic_opset16", name)
