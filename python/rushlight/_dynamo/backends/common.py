"""What backends share: graphs of operators, with their gradients, instead of graphs of functions."""
import rushlight as torch


class AotAutograd:
    """A backend made of compilers for graphs of operators: forward, backward, and where no gradients are needed."""

    def __init__(self, **kwargs):
        self.__name__, self.kwargs = "compiler_fn", kwargs

    def __call__(self, gm, example_inputs, **kwargs):
        from rushlight._functorch.aot_autograd import aot_module_simplified
        with torch.utils._python_dispatch._disable_current_modes():
            return aot_module_simplified(gm, example_inputs, **self.kwargs)


def aot_autograd(**kwargs):
    """A backend that takes graphs apart into operators and hands them to fw_compiler, bw_compiler and inference_compiler."""
    return AotAutograd(**kwargs)


def device_from_inputs(example_inputs):
    """Where the first tensor is."""
    return next((x.device for x in example_inputs if isinstance(x, torch.Tensor)), torch.device("cpu"))


def dtype_from_inputs(example_inputs):
    return next((x.dtype for x in example_inputs if isinstance(x, torch.Tensor)), torch.float32)


def fake_tensor_unsupported(fn):
    """Marks a backend that needs values; all get them."""
    return fn
