"""For tests of exported models."""
import rushlight as torch

from .verification import _results

__all__ = ["assert_onnx_program"]


def assert_onnx_program(program, *, rtol=None, atol=None, args=None, kwargs=None, strategy="TorchExportNonStrictStrategy", backend="onnxruntime"):
    """AssertionError unless the model's results are those of its program. There is one way of capturing programs: strategy is not looked at."""
    if backend not in ("onnxruntime", "reference"):
        raise ValueError(f"backend must be 'onnxruntime' or 'reference', not {backend!r}")
    names, want, got = _results(program, args, kwargs)
    if backend == "reference":
        got = program.call_reference(*(args or ()), **(kwargs or {})) if args is not None or kwargs is not None else \
            program.call_reference(*program.exported_program.example_inputs[0], **program.exported_program.example_inputs[1])
    for name, a, b in zip(names, want, got):
        torch.testing.assert_close(b, a, rtol=rtol, atol=atol, check_device=False, msg=lambda message, name=name: f"{name}: {message}")
