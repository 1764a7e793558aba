"""Exports of single operations at opset 11: none yet."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def symbolic(*args, **kwargs):
        raise NotImplementedError(f"torch.onnx.symbolic_opset11.{name}: models are not exported to ONNX yet")
    return symbolic
