"""to_mkldnn(): a model for inference with its weights in a type of their own.

oneDNN's layouts are chosen inside of operations and kept there with the weights, so that such a model takes and gives ordinary tensors.
"""
import rushlight as torch

__all__ = ["to_mkldnn", "MkldnnLinear", "MkldnnConv1d", "MkldnnConv2d", "MkldnnConv3d", "MkldnnBatchNorm", "MkldnnPrelu"]


class _Fixed(torch.nn.Module):
    """A layer whose tensors are no parameters any more."""
    _tensors = ("weight", "bias")

    def __init__(self, dense_module, dtype=torch.float32):
        super().__init__()
        for name in self._tensors:
            value = getattr(dense_module, name)
            self.register_buffer(name, None if value is None else value.detach().to_mkldnn(dtype))
        self.train(dense_module.training)

    def forward(self, x):
        """Computed in the weights' type, and given in that of x."""
        return self._run(x.to(self.weight.dtype)).to(x.dtype)


class MkldnnLinear(_Fixed):
    def _run(self, x):
        return torch.nn.functional.linear(x, self.weight, self.bias)


class _Conv(_Fixed):
    def __init__(self, dense_module, dtype=torch.float32):
        if dense_module.padding_mode != "zeros":
            raise NotImplementedError("to_mkldnn: a convolution with padding_mode=%r" % dense_module.padding_mode)
        super().__init__(dense_module, dtype)
        self.stride, self.padding, self.dilation, self.groups = dense_module.stride, dense_module.padding, dense_module.dilation, dense_module.groups

    def _run(self, x):
        return self._function(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class MkldnnConv1d(_Conv):
    _function = staticmethod(torch.nn.functional.conv1d)


class MkldnnConv2d(_Conv):
    _function = staticmethod(torch.nn.functional.conv2d)


class MkldnnConv3d(_Conv):
    _function = staticmethod(torch.nn.functional.conv3d)


class MkldnnBatchNorm(_Fixed):
    """Its tensors stay in float32."""
    _tensors = ("weight", "bias", "running_mean", "running_var")

    def __init__(self, dense_module):
        for holds, what in ((not dense_module.training, "eval mode batchnorm"), (dense_module.affine, "affine=True"),
                            (dense_module.track_running_stats, "track_running_stats=True")):
            if not holds:
                raise AssertionError("Only support %s for mkldnn path now" % what)
        super().__init__(dense_module)
        self.eps = dense_module.eps

    def _run(self, x):
        return torch.nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class MkldnnPrelu(_Fixed):
    _tensors = ("weight",)

    def _run(self, x):
        return torch.nn.functional.prelu(x, self.weight)


_LAYERS = {torch.nn.Linear: MkldnnLinear, torch.nn.Conv1d: MkldnnConv1d, torch.nn.Conv2d: MkldnnConv2d, torch.nn.Conv3d: MkldnnConv3d, torch.nn.PReLU: MkldnnPrelu}


def to_mkldnn(module, dtype=torch.float32):
    """The module, in whose place or in which these layers are replaced: linear ones, convolutions, PReLU (their weights in dtype) and batch normalisation."""
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise AssertionError("MKLDNN only support float, bfloat16, and half path now")
    for kind, made in _LAYERS.items():
        if isinstance(module, kind):
            return made(module, dtype)
    if isinstance(module, (torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)):
        return MkldnnBatchNorm(module)
    for name, child in module.named_children():
        setattr(module, name, to_mkldnn(child, dtype))
    return module
