"""Names of torch.onnx.utils."""
from . import export, is_in_onnx_export  # noqa: F401
